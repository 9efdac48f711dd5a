//! What agents ask people, asked through a client.

use std::collections::BTreeSet;

use ghostlight_actors::{
    actor::{Run, SystemError},
    vocabulary::{OperationId, Question, QuestionKind},
};
use rmcp::{
    RoleServer,
    model::{
        ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
        InputRequest, InputRequests, ProtocolVersion, ServerRequest,
    },
    service::RequestContext,
};
use serde::Deserialize as _;
use serde_json::{Value, json};

/// The field of a form that holds the answer.
const ANSWER: &str = "answer";

/// What became of the questions of a run.
pub(super) enum Asked {
    /// They were answered, here or elsewhere.
    Answered,
    /// The client is to ask, and to make the call again with the answers.
    Required(InputRequests),
    /// Nobody can be asked here: what is asked, in words.
    Open(String),
}

/// Asks what a run asks now, but for what was answered in this call: the run may not have taken it yet.
pub(super) async fn ask(
    run: &Run,
    context: &RequestContext<RoleServer>,
    answered: &mut BTreeSet<String>,
) -> Result<Asked, SystemError> {
    let mut open = run.questions().await?;
    open.retain(|(_, operation, _)| !answered.contains(&operation.to_string()));
    if open.is_empty() {
        return Ok(Asked::Answered);
    }
    let offers = context.client_capabilities();
    let offers = offers.is_some_and(|offers| offers.elicitation.is_some());
    if !offers || open.iter().any(|(_, _, question)| is_secret(question)) {
        return Ok(Asked::Open(in_words(run, &open)));
    }
    let version = context.protocol_version();
    if version.is_some_and(|version| version >= ProtocolVersion::NO_INITIALIZE) {
        return Ok(match requests(&open) {
            Some(requests) => Asked::Required(requests),
            None => Asked::Open(in_words(run, &open)),
        });
    }
    for (_, operation, question) in &open {
        let Some(form) = form(question) else {
            return Ok(Asked::Open(in_words(run, &open)));
        };
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let Ok(ClientResult::ElicitResult(result)) = context.peer.send_request(request).await
        else {
            return Ok(Asked::Open(in_words(run, &open)));
        };
        match given(question, result) {
            Some(answer) => {
                run.answer(*operation, answer).await?;
                answered.insert(operation.to_string());
            }
            None => return Ok(Asked::Open(in_words(run, &open))),
        }
    }
    Ok(Asked::Answered)
}

/// What a run asks now, as requests that a client answers; `None` where it asks nothing that a client may be
/// asked.
pub(super) async fn open(run: &Run) -> Result<Option<InputRequests>, SystemError> {
    let open = run.questions().await?;
    let may_be_asked = !open.is_empty() && !open.iter().any(|(_, _, question)| is_secret(question));
    Ok(may_be_asked.then(|| requests(&open)).flatten())
}

/// A password is nothing for a form that a client's model may see.
fn is_secret(question: &Question) -> bool {
    question.kind == QuestionKind::Authentication
}

fn requests<R>(open: &[(R, OperationId, Question)]) -> Option<InputRequests> {
    let requests = open.iter().map(|(_, operation, question)| {
        let request = InputRequest::Elicitation(ElicitRequest::new(form(question)?));
        Some((operation.to_string(), request))
    });
    requests.collect()
}

/// Takes an answer that a client brings with a call that it makes again. One to a question that is over
/// changes nothing. `true` where the run has an answer now.
pub(super) async fn take(run: &Run, operation: &str, answer: &Value) -> Result<bool, SystemError> {
    let open = run.questions().await?;
    let asked = open.iter().find(|(_, op, _)| op.to_string() == operation);
    let Some((_, operation, question)) = asked else {
        return Ok(false);
    };
    let Ok(result) = ElicitResult::deserialize(answer) else {
        return Ok(false);
    };
    match given(question, result) {
        Some(answer) => run.answer(*operation, answer).await.map(|()| true),
        None => Ok(false),
    }
}

/// The answer that a person gave; `None` where they gave none. Who declines what may be denied denies it.
fn given(question: &Question, result: ElicitResult) -> Option<Value> {
    let yes_or_no = matches!(
        question.kind,
        QuestionKind::Approval | QuestionKind::Confirmation
    );
    match result.action {
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
        _ => return None,
    };
    let schema = json!({ "type": "object", "properties": { ANSWER: field }, "required": [ANSWER] });
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: said(question),
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

fn in_words<R>(run: &Run, open: &[(R, OperationId, Question)]) -> String {
    let each = open
        .iter()
        .map(|(_, operation, question)| format!("\n- {operation}: {}", said(question)));
    format!(
        "The team waits for a person's answer, which this client cannot give:{}\nOnce it is answered (on the \
         command line: ghostlight answer {} OPERATION ANSWER), the same call with the same `session` and \
         `turn_id` goes on.",
        each.collect::<String>(),
        run.id().short(),
    )
}
