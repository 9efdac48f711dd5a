//! The method `ask` of an agent, as JSON-RPC 2.0: a turn, and its answer.

use axum::{Json, http::StatusCode};
use ghostlight_actors::{
    session::Turn,
    vocabulary::{Message, Outcome, Role},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    access::fresh_id,
    address::Path,
    api::{Asked, End},
    body::Bytes,
    problem::Problem,
    waiting::{Waited, wait_for_end},
};

/// The longest id of a request, in bytes.
const MAX_ID: usize = 150;

/// A request of JSON-RPC.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Request {
    /// `2.0`.
    jsonrpc: String,
    /// The identity of the answer.
    #[serde(default)]
    id: Value,
    /// `ask`.
    method: String,
    /// Its parameters.
    #[serde(default)]
    params: Value,
}

/// The question.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    text: String,
    session: Option<String>,
    id: Option<String>,
}

/// An error of JSON-RPC: its code, its message, and what goes with it.
struct Fault(i32, String, Value);

impl Fault {
    fn new(code: i32, message: impl Into<String>) -> Self {
        Self(code, message.into(), Value::Null)
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        let code = match problem.status() {
            StatusCode::UNPROCESSABLE_ENTITY => -32602,
            StatusCode::INTERNAL_SERVER_ERROR => -32603,
            _ => -32000,
        };
        Self(
            code,
            problem.detail().to_owned(),
            json!({ "kind": problem.word() }),
        )
    }
}

pub(super) async fn answer(
    asked: Asked,
    Path(team): Path<String>,
    Bytes(body): Bytes,
) -> Json<Value> {
    let (id, answered) = match read(&body) {
        Ok(request) => (request.id.clone(), ask(&asked, &team, request).await),
        Err(fault) => (Value::Null, Err(fault)),
    };
    Json(match answered {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(Fault(code, message, data)) => {
            let error = json!({ "code": code, "message": message, "data": data });
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
    })
}

fn read(body: &[u8]) -> Result<Request, Fault> {
    let value = crate::body::json(body)
        .map_err(|error| Fault::new(-32700, format!("the body is not JSON: {error}")))?;
    if !value.is_object() {
        let detail = "a request is one object; several at once are not taken";
        return Err(Fault::new(-32600, detail));
    }
    let request: Request = serde_json::from_value(value).map_err(|error| {
        Fault::new(
            -32600,
            format!("this is not a request of JSON-RPC: {error}"),
        )
    })?;
    let is_one = request.jsonrpc == "2.0" && !request.id.is_object() && !request.id.is_array();
    is_one.then_some(request).ok_or_else(|| {
        Fault::new(
            -32600,
            "`jsonrpc` is \"2.0\", and `id` is a text or a number",
        )
    })
}

async fn ask(asked: &Asked, team: &str, request: Request) -> Result<Value, Fault> {
    if request.method != "ask" {
        return Err(Fault::new(-32601, "the agent has one method: ask"));
    }
    if !request.params.is_object() {
        return Err(Fault::new(-32602, "`params` is an object"));
    }
    let ask: Ask = serde_json::from_value(request.params)
        .map_err(|error| Fault::new(-32602, format!("`params`: {error}")))?;
    if ask.id.as_ref().is_some_and(|id| id.len() > MAX_ID) {
        return Err(Fault::new(
            -32602,
            format!("`id` has at most {MAX_ID} bytes"),
        ));
    }
    // What is asked once under an id is the same conversation when it is asked again.
    let key = match (ask.session, &ask.id) {
        (Some(session), _) => session,
        (None, Some(id)) => format!("once-{id}"),
        (None, None) => format!("once-{}", fresh_id()?),
    };
    let session = asked.session(team, &key)?;
    let mut turn = Turn::from(Message::text(Role::User, ask.text));
    if let Some(id) = ask.id {
        turn = turn.id(id);
    }
    let run = asked.say(&session, turn).await.map_err(Problem::from)?;
    let known = json!({ "run": run.id(), "session": key });
    let told = |text: String, more: Value| {
        let mut data = known.clone();
        if let (Some(data), Value::Object(more)) = (data.as_object_mut(), more) {
            data.extend(more);
        }
        Fault(-32000, text, data)
    };
    match wait_for_end(&asked.state, &run, &[]).await {
        Ok(Waited::Ended(outcome, _)) => {
            ended(&outcome, known.clone()).map_err(|text| told(text, Value::Null))
        }
        Ok(Waited::Asks(open)) => {
            let prompts: Vec<&str> = open
                .iter()
                .map(|(_, _, question)| question.prompt.as_str())
                .collect();
            Err(told(
                "the agent waits for an answer".to_owned(),
                json!({ "questions": prompts }),
            ))
        }
        // `wait_for_end` reports a run that goes on as a problem.
        Ok(Waited::GoesOn) => Err(told("the run is still under way".to_owned(), Value::Null)),
        Err(problem) => Err(told(
            problem.detail().to_owned(),
            json!({ "kind": problem.word() }),
        )),
    }
}

/// The answer of a run, or why it has none.
fn ended(outcome: &Outcome, mut known: Value) -> Result<Value, String> {
    let end = End::of_outcome(outcome);
    match (end.error, end.answer) {
        (Some(error), _) => Err(error),
        (None, answer) => {
            known["text"] = json!(answer.unwrap_or_default());
            if let Some(stopped) = end.stopped {
                known["stopped"] = json!(stopped);
            }
            Ok(known)
        }
    }
}
