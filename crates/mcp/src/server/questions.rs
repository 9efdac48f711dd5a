//! Agents' questions to people, asked through a client.

use std::collections::{BTreeMap, BTreeSet};

use ghostlight_actors::{
    actor::{AnswerError, Run, System, SystemError},
    vocabulary::{OperationId, Question, QuestionKind},
};
use rmcp::{
    RoleServer,
    model::{
        ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
        InputRequest, InputRequests, InputRequiredResult, InputResponses, ProtocolVersion,
        ServerRequest,
    },
    service::RequestContext,
};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::form_secrets::secret_of;

/// The field of a form that holds the answer.
const ANSWER: &str = "answer";

/// The state of a run's questions.
pub(super) enum Asked {
    /// They were answered, by this client or elsewhere.
    Answered,
    /// The client must ask, and repeat the call with the answers. Has the question of each request, too.
    Required(InputRequests, BTreeMap<String, String>),
    /// The client cannot ask. Has the questions as text.
    Open(String),
}

/// The answers of a client in a repeated call.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The answers, by the keys of the requests.
    pub(super) given: InputResponses,
    /// The questions of these keys, if the call's state has them.
    pub(super) asked: Option<BTreeMap<String, String>>,
}

impl Answers {
    /// Takes the answer to a question; it may have been given before the question was asked.
    fn take(&mut self, open: &Open) -> Option<Value> {
        let is_meant = match &self.asked {
            Some(asked) => asked.get(&open.key) == Some(&open.name),
            None => true,
        };
        let given = is_meant.then(|| self.given.remove(&open.key)).flatten();
        given.or_else(|| self.given.remove(&open.name))
    }
}

/// Answers a run's open questions with the client's answers, and asks the client the rest. Questions that were answered
/// in this call are left out: the run may not have taken the answer yet.
pub(super) async fn ask(
    system: &System,
    run: &Run,
    context: &RequestContext<RoleServer>,
    brought: &mut Answers,
    answered: &mut BTreeSet<String>,
) -> Result<Asked, SystemError> {
    let mut open = open_questions(system, run).await?;
    open.retain(|open| !answered.contains(&open.name));
    let mut rest = Vec::new();
    for open in open {
        let brought = brought.take(&open);
        let result = brought.and_then(|answer| ElicitResult::deserialize(answer).ok());
        match result.and_then(|result| given(&open.question, result)) {
            Some(answer) if took(&open, &answer).await? => {
                answered.insert(open.name);
            }
            _ => rest.push(open),
        }
    }
    if rest.is_empty() {
        return Ok(Asked::Answered);
    }
    let may_be_asked = offers(context) && !rest.iter().any(|open| is_secret(&open.question));
    if !may_be_asked {
        return Ok(Asked::Open(in_words(&rest)));
    }
    if is_newest(context) {
        let asked = rest
            .iter()
            .map(|open| (open.key.clone(), open.name.clone()));
        return Ok(match requests(&rest, |open| &open.key) {
            Some(requests) => Asked::Required(requests, asked.collect()),
            None => Asked::Open(in_words(&rest)),
        });
    }
    for open in &rest {
        let Some(form) = form(&open.question) else {
            return Ok(Asked::Open(in_words(&rest)));
        };
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let Ok(ClientResult::ElicitResult(result)) = context.peer.send_request(request).await
        else {
            return Ok(Asked::Open(in_words(&rest)));
        };
        match given(&open.question, result) {
            Some(answer) if took(open, &answer).await? => {
                answered.insert(open.name.clone());
            }
            _ => return Ok(Asked::Open(in_words(&rest))),
        }
    }
    Ok(Asked::Answered)
}

/// Gives the run that asks an answer; `false` if it does not fit, and the question has to be asked again.
async fn took(open: &Open, answer: &Value) -> Result<bool, SystemError> {
    match open.run.answer(open.operation, answer.clone()).await {
        Ok(()) => Ok(true),
        Err(SystemError::Answer { error, .. }) if error.is_settled() => Ok(true),
        Err(SystemError::Answer {
            error: AnswerError::Unfit { .. },
            ..
        }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// An open question.
struct Open {
    /// The key of the request to the client: the form's title, or the name.
    key: String,
    /// The name of the question, which no other of the tree has: its operation, after the run that asks where that is one
    /// below.
    name: String,
    run: Run,
    operation: OperationId,
    question: Question,
}

async fn open_questions(system: &System, run: &Run) -> Result<Vec<Open>, SystemError> {
    let mut open: Vec<Open> = Vec::new();
    for (asker, operation, question) in run.questions().await? {
        let name = match asker == run.id() {
            true => operation.to_string(),
            false => format!("{asker}/{operation}"),
        };
        let title = question
            .schema
            .as_ref()
            .and_then(|schema| schema.get("title")?.as_str());
        let title = title.filter(|title| open.iter().all(|open| open.key != *title));
        let key = title.map_or_else(|| name.clone(), str::to_owned);
        open.push(Open {
            key,
            name,
            run: system.run(asker),
            operation,
            question,
        });
    }
    Ok(open)
}

/// Whether the client can ask its user.
fn offers(context: &RequestContext<RoleServer>) -> bool {
    let offers = context.client_capabilities();
    offers.is_some_and(|offers| offers.elicitation.is_some())
}

/// Whether the client uses the newest revision, in which it repeats a call with the answers.
pub(super) fn is_newest(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version >= ProtocolVersion::NO_INITIALIZE)
}

/// A result that makes the client show its user a form, if it can.
pub(super) fn required(
    context: &RequestContext<RoleServer>,
    key: &str,
    message: String,
    schema: Value,
) -> Option<InputRequiredResult> {
    let may_be_asked = offers(context) && is_newest(context);
    let form = may_be_asked.then(|| form_of(message, schema)).flatten()?;
    let request = InputRequest::Elicitation(ElicitRequest::new(form));
    let requests = InputRequests::from([(key.to_owned(), request)]);
    Some(InputRequiredResult::new(Some(requests), None))
}

/// A task's open questions as requests to a client; `None` if there are none that a client may be asked. The key of a
/// request is the question's name, which no other question of the task has: a task keeps no record of what was asked.
pub(super) async fn open(system: &System, run: &Run) -> Result<Option<InputRequests>, SystemError> {
    let open = open_questions(system, run).await?;
    let may_be_asked = !open.is_empty() && !open.iter().any(|open| is_secret(&open.question));
    Ok(may_be_asked
        .then(|| requests(&open, |open| &open.name))
        .flatten())
}

/// Whether a question asks for a secret, which must not be in a form that a client's model may see.
fn is_secret(question: &Question) -> bool {
    let asks = |schema: &Value| secret_of(&question.prompt, schema).is_some();
    match question.kind {
        QuestionKind::Authentication => true,
        // It becomes a form of one text.
        QuestionKind::Text if asks(&json!({ "properties": { ANSWER: { "type": "string" } } })) => {
            true
        }
        _ => question.schema.as_ref().is_some_and(asks),
    }
}

/// The requests that ask these questions, under these keys.
fn requests(open: &[Open], key: impl Fn(&Open) -> &String) -> Option<InputRequests> {
    let requests = open.iter().map(|open| {
        let form = form(&open.question)?;
        let request = InputRequest::Elicitation(ElicitRequest::new(form));
        Some((key(open).clone(), request))
    });
    requests.collect()
}

/// Takes an answer to a task's question. An answer to a question that is closed changes nothing.
pub(super) async fn take(
    system: &System,
    run: &Run,
    name: &str,
    answer: &Value,
) -> Result<(), SystemError> {
    let open = open_questions(system, run).await?;
    let asked = open.into_iter().find(|open| open.name == name);
    let (Some(open), Ok(result)) = (asked, ElicitResult::deserialize(answer)) else {
        return Ok(());
    };
    match given(&open.question, result) {
        Some(answer) => match open.run.answer(open.operation, answer).await {
            Err(SystemError::Answer { error, .. }) if error.is_settled() => Ok(()),
            taken => taken,
        },
        None => Ok(()),
    }
}

/// The answer that a person gave; `None` if they gave none. Declining a question that can be denied denies it.
fn given(question: &Question, result: ElicitResult) -> Option<Value> {
    let yes_or_no = matches!(
        question.kind,
        QuestionKind::Approval | QuestionKind::Confirmation
    );
    match result.action {
        ElicitationAction::Accept if question.kind == QuestionKind::Form => result.content,
        ElicitationAction::Accept => result.content?.get(ANSWER).cloned(),
        ElicitationAction::Decline if yes_or_no => Some(Value::Bool(false)),
        _ => None,
    }
}

/// A question as a form.
fn form(question: &Question) -> Option<ElicitRequestParams> {
    let field = match question.kind {
        QuestionKind::Approval | QuestionKind::Confirmation | QuestionKind::InDoubt => {
            json!({ "type": "boolean", "title": "Yes" })
        }
        QuestionKind::Choice => {
            let options = question.options.iter();
            let options = options.map(|one| json!({ "const": one, "title": question.label(one) }));
            json!({ "type": "string", "oneOf": options.collect::<Vec<_>>() })
        }
        QuestionKind::Text => json!({ "type": "string" }),
        QuestionKind::Form => return form_of(said(question), question.schema.clone()?),
        _ => return None,
    };
    let schema = json!({ "type": "object", "properties": { ANSWER: field }, "required": [ANSWER] });
    form_of(said(question), schema)
}

/// A form with these fields; `None` if the protocol does not support such a schema.
fn form_of(message: String, schema: Value) -> Option<ElicitRequestParams> {
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: serde_json::from_value(schema).ok()?,
    })
}

/// A question with the call that it is about.
fn said(question: &Question) -> String {
    match &question.call {
        Some(call) => format!(
            "{}\n{} {}",
            question.prompt,
            call.name,
            call.arguments.text()
        ),
        None => question.prompt.clone(),
    }
}

fn in_words(open: &[Open]) -> String {
    let each = open.iter().map(|open| {
        let (run, operation) = (open.run.id().short(), open.operation);
        format!("\n- {run} {operation}: {}", said(&open.question))
    });
    format!(
        "The team waits for a person's answer, which this client cannot give:{}\nOnce it is answered (on the \
         command line: ghostlight answer RUN OPERATION ANSWER)",
        each.collect::<String>(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_that_is_brought_again_is_none_to_another_question_of_its_operation() {
        let system = System::builder(ghostlight_actors::testing::InMemoryStore::new());
        let system = system
            .start()
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let run = system.run(ghostlight_actors::vocabulary::RunId::from_random(7));
        let operation: OperationId = "0.0.1".parse().unwrap_or_else(|error| panic!("{error}"));
        let open = |name: &str| Open {
            key: name.to_owned(),
            name: name.to_owned(),
            run: run.clone(),
            operation,
            question: Question::new("Which?"),
        };
        let given = || InputResponses::from([("0.0.1".to_owned(), json!(1))]);
        for asked in [
            None,
            Some(BTreeMap::from([("0.0.1".to_owned(), "0.0.1".to_owned())])),
        ] {
            let mut answers = Answers {
                given: given(),
                asked,
            };
            assert_eq!(answers.take(&open(&format!("{}/0.0.1", run.id()))), None);
            assert_eq!(answers.take(&open("0.0.1")), Some(json!(1)));
        }
    }

    #[test]
    fn a_form_that_asks_for_a_secret_is_not_sent_to_a_client() {
        let form = |prompt: &str, field: Value| {
            let schema = json!({ "type": "object", "properties": { "x": field } });
            is_secret(&Question::form(prompt, schema))
        };
        let text = json!({ "type": "string" });
        assert!(form(
            "Sign in",
            json!({ "type": "string", "writeOnly": true })
        ));
        assert!(form("Your password?", text.clone()));
        assert!(!form("Your name?", text));
        assert!(is_secret(&Question::new("Your API key?")));
        assert!(!is_secret(&Question::new("What is your name?")));
        assert!(!is_secret(&Question::confirmation(
            "Reset the password of ada?"
        )));
    }
}
