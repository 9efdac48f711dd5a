//! Questions of runs, and their answers.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{
    AnswerError, Run, System, SystemError,
    acting::Use,
    loaded::start_of,
    open_questions::{Open, asked_by, open_questions, refuse_newer, unanswered},
};
use crate::{
    contract::{Credential, ItemBody, RunFilter, RunRow, RunStatus},
    run::{answers, unfit},
    vocabulary::{Begun, Entry, OperationId, Question, QuestionKind, RunId, Timestamp, ToolCall},
};

/// An answer in the form that its kind of question takes: a form that is written as a text is
/// decoded, and an approval loses the digest that it names, which has to be the question's.
///
/// # Errors
/// The digest of another call.
fn bound(question: &Question, mut value: Value) -> Result<Value, Value> {
    let named = match (question.kind, &mut value) {
        (QuestionKind::Approval, Value::Object(fields)) => fields.remove("digest"),
        // Many clients have one line of text for every answer.
        (QuestionKind::Form, Value::String(text)) => match serde_json::from_str(text) {
            Ok(form @ Value::Object(_)) => return Ok(form),
            _ => None,
        },
        _ => None,
    };
    let Some(named) = named else { return Ok(value) };
    let asked = question.digest.map(|digest| digest.to_string());
    if named.as_str() != asked.as_deref() {
        return Err(named);
    }
    // A plain yes or no is recorded as one.
    let plain = value.as_object().filter(|fields| fields.len() == 1);
    let plain = plain.and_then(|fields| fields.get("approved")).cloned();
    Ok(plain.unwrap_or(value))
}

impl System {
    /// The unanswered questions of all runs that have not ended, the oldest run first. After a
    /// restart these are the questions that people still have to answer. `run(id).answer(..)`
    /// answers one.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn open_questions(&self) -> Result<Vec<(RunId, OperationId, Question)>, SystemError> {
        let mut rows = self.runs(RunFilter::open()).await?;
        let began = rows.iter().map(|row| (row.run, row.started_at));
        let began: HashMap<RunId, Timestamp> = began.collect();
        rows.sort_by_key(|row| (began.get(&row.root).copied(), row.root));
        let (store, mut open) = (self.store(), Vec::new());
        for tree in rows.chunk_by(|one, other| one.root == other.root) {
            open.extend(unanswered(store, asked_by(store, tree).await?).await?);
        }
        Ok(open)
    }
}

impl Run {
    /// The questions that the run and the runs below it wait for, oldest first, but for those whose
    /// answer is on its way to the run. [`Question::path`] names the agent that asks.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn questions(&self) -> Result<Vec<(RunId, OperationId, Question)>, SystemError> {
        self.check(Use::Look).await?;
        let (store, asked) = (self.system.store(), self.asked().await?);
        refuse_newer(store, asked.iter().map(|(run, ..)| *run)).await?;
        Ok(unanswered(store, asked).await?)
    }

    /// The same, with those whose answer is on its way.
    async fn asked(&self) -> Result<Vec<Open>, SystemError> {
        let services = &self.system.shared().services;
        match services.current(self.id).await? {
            Some(row) => Ok(open_questions(&services.store, &row).await?),
            None => Ok(Vec::new()),
        }
    }

    /// The call that this run asks about in this operation, with its exact arguments, even those
    /// for which [`Question::call`] shows tokens. `None` when the question is about no call, or
    /// when the journal was written before exact arguments were kept.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn unredacted(
        &self,
        operation: OperationId,
    ) -> Result<Option<ToolCall>, SystemError> {
        for stored in self.lines().await? {
            if let Ok(Entry::Started {
                op,
                begun: Begun::Question(question),
                ..
            }) = stored.line.decode()
                && op == operation
            {
                return Ok(question.unredacted());
            }
        }
        Ok(None)
    }

    /// Answers a question of this run, or of a run below it. The answer is durable when this method
    /// returns, and wakes a run that sleeps. A question has one answer: a later one changes
    /// nothing. In a session that has an owner, only a handle that [acts for that
    /// owner](super::System::acting_for) or for the operator may answer; an approval is recorded
    /// together with the owner who gave it.
    ///
    /// The answer to a question for authentication stays in the memory of this process, for the
    /// call that asks; the journal records only that it was given. So give it in the process that
    /// carries the run: in another process it would be lost, and the question asked again.
    ///
    /// An approval that names the `digest` of the question counts for exactly that call and is
    /// refused for another. A program that shows a question in one place and answers it in another
    /// should name it.
    ///
    /// # Errors
    /// [`SystemError::Answer`] when the run does not ask this, the question or the run's time has expired, two
    /// runs below it ask under this operation, the value names another digest than the question's, or
    /// is no answer to it; [`SystemError::Foreign`]; what the store fails with.
    pub async fn answer(&self, operation: OperationId, value: Value) -> Result<(), SystemError> {
        self.check(Use::Act).await?;
        let who = self.system.acting().owner();
        let refuse = |error: AnswerError| SystemError::Answer {
            run: self.id,
            error,
        };
        let store = self.system.store();
        let row = store.run(self.id).await?;
        let goes_on = |row: &RunRow| row.status == RunStatus::Continued;
        if row.as_ref().is_some_and(goes_on) && self.asked_here(operation).await? {
            // The run that goes on may ask something else under this operation.
            return Err(refuse(AnswerError::Over { operation }));
        }
        let own = asked_by(store, row.as_slice()).await?;
        let own = own.into_iter().find(|(_, asked, _)| *asked == operation);
        let (run, question) = if let Some((run, _, question)) = own {
            (run, question)
        } else {
            let mut open = self.asked().await?;
            let known: Vec<OperationId> = open.iter().map(|(_, op, _)| *op).collect();
            open.retain(|(_, asked, _)| *asked == operation);
            let runs: Vec<RunId> = open.iter().map(|(run, ..)| *run).collect();
            match open.pop() {
                Some((run, _, question)) if open.is_empty() => (run, question),
                Some(_) => return Err(refuse(AnswerError::Ambiguous { operation, runs })),
                None => {
                    let open = known;
                    return Err(refuse(AnswerError::NotOpen { operation, open }));
                }
            }
        };
        let now = self.system.shared().services.clock.now();
        if question.expires.is_some_and(|expires| expires <= now) {
            return Err(refuse(AnswerError::Expired { operation }));
        }
        let start = start_of(store, run).await?;
        let ends_by = start.and_then(|start| start.ends_by());
        if ends_by.is_some_and(|ends_by| ends_by <= now) {
            return Err(refuse(AnswerError::TooLate { operation }));
        }
        let asking = self.system.run(run);
        let value = bound(&question, value).map_err(|digest| {
            let reason = format!(
                "the answer is for a call of the digest {digest}, and {operation} asks about another: \
                 look at the question again"
            );
            refuse(AnswerError::Unfit { operation, reason })
        })?;
        let value = asking.as_recorded(operation, &question, value, who);
        if !answers(&question, &value) {
            let reason = match question.kind {
                QuestionKind::Authentication => "expected a text, or false".to_owned(),
                QuestionKind::Choice => {
                    format!(
                        "{value} is no answer; expected {}",
                        question.options.join(", ")
                    )
                }
                QuestionKind::Form => {
                    let fault = unfit(&question, &value);
                    let fault = fault.map(|fault| format!(": {fault}")).unwrap_or_default();
                    format!("expected a JSON object that fits the form's schema{fault}")
                }
                QuestionKind::Approval => format!(
                    "{value} is no answer; expected yes or no, or an object with `approved` and, \
                     of these, what is wanted: `arguments`, `value`, `reason`, `remember`"
                ),
                _ => format!("{value} is no answer; expected yes or no"),
            };
            return Err(refuse(AnswerError::Unfit { operation, reason }));
        }
        let id = format!("answer/{operation}");
        let posted = asking.post(id, ItemBody::Answer { operation, value });
        posted.await.map(drop)
    }

    /// Answers a question as this person: [`answer`](Self::answer) of a handle that acts for that
    /// owner.
    ///
    /// # Errors
    /// As [`answer`](Self::answer).
    pub async fn answer_as(
        &self,
        who: &str,
        operation: OperationId,
        value: Value,
    ) -> Result<(), SystemError> {
        let theirs = self.system.acting_for(who).run(self.id);
        theirs.answer(operation, value).await
    }

    /// Whether this journal, which is closed, asked under an operation.
    async fn asked_here(&self, operation: OperationId) -> Result<bool, SystemError> {
        for stored in self.lines().await? {
            if let Entry::Started {
                op,
                begun: Begun::Question(_),
                ..
            } = stored.decode(&self.id.into())?
                && op == operation
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The answer in the form in which the journal may hold it.
    fn as_recorded(
        &self,
        operation: OperationId,
        question: &Question,
        mut value: Value,
        who: Option<&str>,
    ) -> Value {
        match (question.kind, who) {
            (QuestionKind::Authentication, _) => {
                let secret = value.as_str().filter(|secret| !secret.is_empty());
                let Some(secret) = secret else {
                    // Only a refusal holds no secret.
                    return if value == false { value } else { Value::Null };
                };
                let services = &self.system.shared().services;
                services.give(self.id, operation, Credential::new(secret));
                json!({ "given": true })
            }
            (QuestionKind::Approval, Some(who)) => {
                if value.is_boolean() {
                    value = json!({ "approved": value });
                }
                if let Some(fields) = value.as_object_mut() {
                    fields.insert("by".to_owned(), who.into());
                }
                value
            }
            _ => value,
        }
    }
}
