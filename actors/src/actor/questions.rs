//! Questions of runs, and their answers.

use std::collections::HashMap;

use ghostlight_safety::unambiguous_json;
use serde_json::{Value, json};

use super::{
    AnswerError, Run, System, SystemError,
    acting::Use,
    loaded::start_of,
    open_questions::{
        Open, asked_by, asked_under, askers, open_questions, refuse_newer, unanswered,
    },
};
use crate::{
    contract::{Credential, ItemBody, RunFilter, RunRow, RunStatus},
    run::{answers, unfit},
    vocabulary::{OperationId, Question, QuestionKind, RunId, Timestamp, ToolCall},
};

/// An answer in the form that its kind of question takes: a form that is written as a text is
/// decoded, and an approval loses the digest that it names, which has to be the question's.
///
/// # Errors
/// A form that names a field twice, or the digest of another call.
fn bound(operation: OperationId, question: &Question, mut value: Value) -> Result<Value, String> {
    let named = match (question.kind, &mut value) {
        (QuestionKind::Approval, Value::Object(fields)) => fields.remove("digest"),
        // Many clients have one line of text for every answer.
        (QuestionKind::Form, Value::String(text)) => match unambiguous_json(text) {
            Ok(form @ Value::Object(_)) => return Ok(form),
            Err(error) if error.is_data() => return Err(error.to_string()),
            _ => None,
        },
        _ => None,
    };
    let Some(named) = named else { return Ok(value) };
    let asked = question.digest.map(|digest| digest.to_string());
    if named.as_str() != asked.as_deref() {
        return Err(format!(
            "the answer is for a call of the digest {named}, and {operation} asks about another: look at the question \
             again"
        ));
    }
    // A plain yes or no is recorded as one.
    let plain = value.as_object().filter(|fields| fields.len() == 1);
    let plain = plain.and_then(|fields| fields.get("approved")).cloned();
    Ok(plain.unwrap_or(value))
}

/// The answer in the form in which the journal may hold it.
fn as_recorded(question: &Question, mut value: Value, who: Option<&str>) -> Value {
    match (question.kind, who) {
        (QuestionKind::Authentication, _) => match &value {
            Value::String(secret) if !secret.is_empty() => json!({ "given": true }),
            // Only a refusal holds no secret.
            Value::Bool(false) => value,
            _ => Value::Null,
        },
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

impl System {
    /// The unanswered questions of all runs that have not ended, the oldest run first. After a
    /// restart these are the questions that people still have to answer. `run(id).answer(..)`
    /// answers one.
    ///
    /// # Errors
    /// The errors of the store.
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
    /// The errors of the store.
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
    /// [`SystemError::Foreign`]; the errors of the store.
    pub async fn unredacted(
        &self,
        operation: OperationId,
    ) -> Result<Option<ToolCall>, SystemError> {
        self.check(Use::Look).await?;
        let asked = asked_under(self.system.store(), self.id, operation).await?;
        Ok(asked.and_then(|(question, _)| question.unredacted()))
    }

    /// Answers a question of this run, or of a run below it if no other of them has ever asked under this operation:
    /// an answer that is sent again never reaches another question. The answer is durable when this method
    /// returns, and wakes a run that sleeps. A question has one answer: another one is refused,
    /// and changes nothing. In a session that has an owner, only a handle that [acts for that
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
    /// [`SystemError::Answer`] when the run does not ask this, the question is answered or expired, the run's time is
    /// over, two runs below it ask or have asked under this operation, the value names another digest than the question's, or
    /// does not answer it; [`SystemError::Foreign`]; what the store fails with.
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
        if row.as_ref().is_some_and(goes_on)
            && asked_under(store, self.id, operation).await?.is_some()
        {
            // The run that goes on may ask something else under this operation.
            let answered = self.answered(operation, &value, who).await?;
            return Err(refuse(answered.unwrap_or(AnswerError::Over { operation })));
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
                Some((run, _, question)) if open.is_empty() => {
                    // It may be the answer to another question of this operation, sent again.
                    let runs = match &row {
                        Some(row) => askers(store, row, operation).await?,
                        None => Vec::new(),
                    };
                    if runs.contains(&self.id) {
                        let answered = self.answered(operation, &value, who).await?;
                        return Err(refuse(answered.unwrap_or(AnswerError::Over { operation })));
                    }
                    if runs.iter().any(|other| *other != run) {
                        return Err(refuse(AnswerError::Ambiguous { operation, runs }));
                    }
                    (run, question)
                }
                Some(_) => return Err(refuse(AnswerError::Ambiguous { operation, runs })),
                None => {
                    let answered = self.answered(operation, &value, who).await?;
                    let not_open = || AnswerError::NotOpen {
                        operation,
                        open: known,
                    };
                    return Err(refuse(answered.unwrap_or_else(not_open)));
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
        let value = bound(operation, &question, value)
            .map_err(|reason| refuse(AnswerError::Unfit { operation, reason }))?;
        if question.kind == QuestionKind::Authentication
            && let Some(secret) = value.as_str().filter(|secret| !secret.is_empty())
        {
            let services = &self.system.shared().services;
            services.give(run, operation, Credential::new(secret));
        }
        let value = as_recorded(&question, value, who);
        if !answers(&question, &value) {
            let reason = match question.kind {
                QuestionKind::Authentication => "expected a text, or false".to_owned(),
                QuestionKind::Choice => {
                    format!(
                        "{value} is not one of the options; expected {}",
                        question.options.join(", ")
                    )
                }
                QuestionKind::Form => {
                    let fault = unfit(&question, &value);
                    let fault = fault.map(|fault| format!(": {fault}")).unwrap_or_default();
                    format!("expected a JSON object that fits the form's schema{fault}")
                }
                QuestionKind::Approval => format!(
                    "{value} is not an answer; expected yes or no, or an object with `approved` and, \
                     of these, what is wanted: `arguments`, `value`, `reason`, `remember`"
                ),
                _ => format!("{value} is not an answer; expected yes or no"),
            };
            return Err(refuse(AnswerError::Unfit { operation, reason }));
        }
        let id = format!("answer/{operation}");
        let body = ItemBody::Answer {
            operation,
            value: value.clone(),
        };
        let is_first = asking.post(id, body).await?;
        match !is_first && !asking.is_given(operation, &value).await? {
            true => Err(refuse(AnswerError::Answered { operation })),
            false => Ok(()),
        }
    }

    /// Whether this answer to this run's question is on its way or recorded.
    async fn is_given(&self, operation: OperationId, value: &Value) -> Result<bool, SystemError> {
        for item in self.system.store().mailbox(self.id.into()).await? {
            match item.body {
                ItemBody::Answer {
                    operation: of,
                    value: given,
                } if of == operation => {
                    return Ok(given == *value);
                }
                _ => {}
            }
        }
        let asked = asked_under(self.system.store(), self.id, operation).await?;
        Ok(asked.is_some_and(|(_, given)| given.as_ref() == Some(value)))
    }

    /// Why this run's question takes no further answer, if one is recorded.
    async fn answered(
        &self,
        operation: OperationId,
        value: &Value,
        who: Option<&str>,
    ) -> Result<Option<AnswerError>, SystemError> {
        let asked = asked_under(self.system.store(), self.id, operation).await?;
        let Some((question, Some(given))) = asked else {
            return Ok(None);
        };
        let value = bound(operation, &question, value.clone());
        let value = value.map(|value| as_recorded(&question, value, who));
        Ok(Some(match value {
            Ok(value) if value == given => AnswerError::Repeated { operation },
            _ => AnswerError::Answered { operation },
        }))
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
}
