//! OpenAI's responses.

use axum::{
    Json,
    http::HeaderMap,
    response::{IntoResponse as _, Response, sse::Event},
};
use futures_util::{StreamExt as _, stream};
use ghostlight_actors::{
    actor::Run,
    contract::{RunRow, RunStatus},
    vocabulary::Usage,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    calls::arguments,
    dialog::{Finish, Finished, Piece, Spoken, begin, finished, pieces},
    errors::openai,
    said::{Content, Said, tools_of},
    session_of,
};
use crate::{
    address::Path, api::Asked, body::Json as Body, problem::Problem, sse::respond, waiting::quiet,
};

/// A request. Fields that are not listed here are the team's to decide, and are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Request {
    /// The team.
    model: String,
    input: Input,
    #[serde(default)]
    instructions: Option<String>,
    /// The session, by the key that the client gave it, or as an object with `id`.
    #[serde(default)]
    conversation: Option<Value>,
    /// An earlier response: the request is the next turn of its session.
    #[serde(default)]
    previous_response_id: Option<String>,
    #[serde(default)]
    stream: Option<bool>,
    /// Whether to answer when the turn is recorded; the client polls for the response.
    #[serde(default)]
    background: Option<bool>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    tool_choice: Option<Value>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Input {
    Text(String),
    Messages(Vec<Said>),
}

/// The prefix of a response's id, before the id of its run.
const PREFIX: &str = "resp_";

pub(super) async fn create(
    asked: Asked,
    headers: HeaderMap,
    Body(request): Body<Request>,
) -> Result<Response, Problem> {
    let session = session(&asked, &request, &headers).await?;
    let streaming = request.stream.unwrap_or_default();
    let mut messages = match request.input {
        Input::Messages(messages) => messages,
        Input::Text(text) => vec![Said::text("user", Content::Text(text))],
    };
    if let Some(text) = request.instructions {
        messages.insert(0, Said::text("system", Content::Text(text)));
    }
    let spoken = Spoken {
        team: request.model,
        session,
        messages,
        tools: tools_of(request.tools, request.tool_choice.as_ref())?,
        streaming,
    };
    let dialog = begin(&asked, spoken, &headers).await?;
    let row = dialog.run.status().await?;
    let mut response = Shown::of(&row);
    response.conversation = Some(dialog.session.clone());
    response.previous = request.previous_response_id;
    if streaming {
        let (mut sent, mut text) = (0_u64, String::new());
        let rest =
            pieces(&asked.state, dialog).map(move |piece| events(&response, &mut text, piece));
        // The first events of a stream are sent before the run gives any.
        let first = stream::iter([Vec::new()]);
        let begun = begun(&row);
        let events = first
            .chain(rest)
            .enumerate()
            .flat_map(move |(number, events)| {
                let events = if number == 0 { begun.clone() } else { events };
                let numbered: Vec<Event> = events
                    .into_iter()
                    .map(|mut event| {
                        event["sequence_number"] = sent.into();
                        sent += 1;
                        let name = event["type"].as_str().unwrap_or_default();
                        Event::default().event(name).data(event.to_string())
                    })
                    .collect();
                stream::iter(numbered)
            });
        return Ok(respond(&asked.state, events));
    }
    if request.background == Some(true) {
        return Ok(Json(response.json("in_progress", None)).into_response());
    }
    let answered = dialog.answered.as_deref().unwrap_or_default();
    let end = finished(&asked.state, &dialog.run, answered).await?;
    Ok(Json(response.ended(&end)).into_response())
}

/// The key of the session that a request continues.
async fn session(
    asked: &Asked,
    request: &Request,
    headers: &HeaderMap,
) -> Result<Option<String>, Problem> {
    if let Some(previous) = &request.previous_response_id {
        let (_, row) = named(asked, previous).await?;
        let session = row
            .session
            .as_ref()
            .and_then(|session| asked.caller.key_of(session));
        let fault = || Problem::not_found(format!("response {previous:?}"));
        return Ok(Some(session.ok_or_else(fault)?.to_owned()));
    }
    let conversation = request.conversation.as_ref();
    match conversation.map(|named| named.as_str().or_else(|| named["id"].as_str())) {
        Some(Some(key)) => Ok(Some(key.to_owned())),
        Some(None) => Err(Problem::invalid(
            "`conversation` is a key, or an object with `id`",
        )),
        None => session_of(headers),
    }
}

async fn named(asked: &Asked, id: &str) -> Result<(Run, RunRow), Problem> {
    let fault = || Problem::not_found(format!("response {id:?}"));
    asked
        .run(id.strip_prefix(PREFIX).ok_or_else(fault)?)
        .await
        .map_err(|problem| {
            if problem.status().as_u16() == 404 {
                fault()
            } else {
                problem
            }
        })
}

/// The first events of a stream.
fn begun(row: &RunRow) -> Vec<Value> {
    let response = Shown::of(row).json("in_progress", None);
    vec![
        json!({ "type": "response.created", "response": response }),
        json!({ "type": "response.in_progress", "response": response }),
    ]
}

/// The events with which a message begins.
fn message_begun(run: &str) -> [Value; 2] {
    [
        json!({
            "type": "response.output_item.added", "output_index": 0,
            "item": item(run, "in_progress", None),
        }),
        json!({
            "type": "response.content_part.added", "output_index": 0, "content_index": 0,
            "item_id": item_id(run), "part": part(""),
        }),
    ]
}

/// The events of the run's next piece.
fn events(response: &Shown, text: &mut String, piece: Piece) -> Vec<Value> {
    let id = item_id(&response.run);
    let at = |mut event: Value| {
        event["item_id"] = id.clone().into();
        event["output_index"] = 0.into();
        event["content_index"] = 0.into();
        event
    };
    match piece {
        Piece::Text(more) => {
            let mut events = Vec::new();
            if text.is_empty() {
                events.extend(message_begun(&response.run));
            }
            text.push_str(&more);
            let delta = json!({
                "type": "response.output_text.delta", "delta": more, "logprobs": [],
            });
            events.push(at(delta));
            events
        }
        Piece::Done(Err(problem)) => {
            let error = openai(&problem)["error"].clone();
            let mut failed = response.json("failed", None);
            failed["error"] = json!({ "code": "server_error", "message": error["message"] });
            vec![json!({ "type": "response.failed", "response": failed })]
        }
        Piece::Done(Ok(mut end)) => {
            // The final text is the text that the stream has sent.
            end.text = std::mem::take(text);
            let whole = response.ended(&end);
            let name = match end.finish {
                Finish::Length => "response.incomplete",
                Finish::Stop | Finish::Asks | Finish::Calls => "response.completed",
            };
            let mut events = Vec::new();
            if end.text.is_empty() && end.calls.is_empty() {
                events.extend(message_begun(&response.run));
            }
            for (place, item) in whole["output"].as_array().into_iter().flatten().enumerate() {
                if item["type"] == "message" {
                    events.push(at(json!({
                        "type": "response.output_text.done", "text": end.text, "logprobs": [],
                    })));
                    let part = part(&end.text);
                    events.push(at(
                        json!({ "type": "response.content_part.done", "part": part }),
                    ));
                } else {
                    events.extend(called(place, item));
                }
                events.push(json!({
                    "type": "response.output_item.done", "output_index": place, "item": item,
                }));
            }
            events.push(json!({ "type": name, "response": whole }));
            events
        }
    }
}

/// The events of a call that the client is to make, from its beginning to its end.
fn called(place: usize, item: &Value) -> [Value; 3] {
    let mut begun = item.clone();
    (begun["status"], begun["arguments"]) = ("in_progress".into(), "".into());
    let (id, arguments) = (&item["id"], &item["arguments"]);
    [
        json!({ "type": "response.output_item.added", "output_index": place, "item": begun }),
        json!({
            "type": "response.function_call_arguments.delta", "output_index": place, "item_id": id,
            "delta": arguments,
        }),
        json!({
            "type": "response.function_call_arguments.done", "output_index": place, "item_id": id,
            "name": item["name"], "arguments": arguments,
        }),
    ]
}

fn item_id(run: &str) -> String {
    format!("msg_{run}")
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

fn item(run: &str, status: &str, text: Option<&str>) -> Value {
    let content: Vec<Value> = text.map(part).into_iter().collect();
    json!({
        "type": "message", "id": item_id(run), "status": status, "role": "assistant",
        "content": content,
    })
}

/// A response, made of what its turn has given so far.
struct Shown {
    run: String,
    team: String,
    created_at: u64,
    ended_at: u64,
    conversation: Option<String>,
    previous: Option<String>,
}

impl Shown {
    fn of(row: &RunRow) -> Self {
        Self {
            run: row.run.to_string(),
            team: row.team.clone(),
            created_at: row.started_at.0 / 1000,
            ended_at: row.updated_at.0 / 1000,
            conversation: None,
            previous: None,
        }
    }

    fn json(&self, status: &str, usage: Option<&Usage>) -> Value {
        json!({
            "id": format!("{PREFIX}{}", self.run),
            "object": "response",
            "created_at": self.created_at,
            "completed_at": (status == "completed").then_some(self.ended_at),
            "status": status,
            "error": null,
            "incomplete_details": null,
            "instructions": null,
            "max_output_tokens": null,
            "max_tool_calls": null,
            "model": self.team,
            "output": [],
            "parallel_tool_calls": true,
            "previous_response_id": self.previous,
            "conversation": self.conversation.as_ref().map(|key| json!({ "id": key })),
            "prompt_cache_key": null,
            "safety_identifier": null,
            "reasoning": { "effort": null, "summary": null },
            "store": true,
            "background": false,
            "service_tier": "default",
            "temperature": 1.0,
            "text": { "format": { "type": "text" } },
            "tool_choice": "auto",
            "tools": [],
            "top_logprobs": 0,
            "top_p": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "truncation": "disabled",
            "usage": usage.map(usage_of),
            "user": null,
            "metadata": {},
        })
    }

    fn ended(&self, end: &Finished) -> Value {
        let status = match end.finish {
            Finish::Length => "incomplete",
            Finish::Stop | Finish::Asks | Finish::Calls => "completed",
        };
        let mut response = self.json(status, Some(&end.usage));
        if end.finish == Finish::Length {
            response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        }
        let mut output = Vec::new();
        if end.calls.is_empty() || !end.text.is_empty() {
            output.push(item(&self.run, status, Some(&end.text)));
        }
        for (id, call) in &end.calls {
            output.push(json!({
                "type": "function_call", "id": format!("fc_{id}"), "call_id": id,
                "name": call.name, "arguments": arguments(call), "status": "completed",
            }));
        }
        response["output"] = output.into();
        response
    }
}

fn usage_of(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "input_tokens_details": { "cached_tokens": usage.cached_tokens },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": { "reasoning_tokens": usage.reasoning_tokens },
        "total_tokens": usage.total_tokens(),
    })
}

pub(super) async fn compact() -> Problem {
    Problem::not_found("compaction of a conversation: a team bounds its context itself")
}

pub(super) async fn one(asked: Asked, Path(id): Path<String>) -> Result<Json<Value>, Problem> {
    let (run, row) = named(&asked, &id).await?;
    shown(&asked, &run, &row).await.map(Json)
}

async fn shown(asked: &Asked, run: &Run, row: &RunRow) -> Result<Value, Problem> {
    let mut response = Shown::of(row);
    let session = row
        .session
        .as_ref()
        .and_then(|session| asked.caller.key_of(session));
    response.conversation = session.map(str::to_owned);
    match row.status {
        RunStatus::Cancelled => Ok(response.json("cancelled", None)),
        RunStatus::Failed | RunStatus::Parked => {
            let mut failed = response.json("failed", None);
            let message = run.outcome().await.err().map(|error| error.to_string());
            failed["error"] = json!({ "code": "server_error", "message": message });
            Ok(failed)
        }
        RunStatus::Answered | RunStatus::Stopped => {
            Ok(response.ended(&finished(&asked.state, run, &[]).await?))
        }
        RunStatus::Waiting if !run.questions().await?.is_empty() => {
            Ok(response.ended(&finished(&asked.state, run, &[]).await?))
        }
        _ => Ok(response.json("in_progress", None)),
    }
}

pub(super) async fn cancel(asked: Asked, Path(id): Path<String>) -> Result<Json<Value>, Problem> {
    let (run, _) = named(&asked, &id).await?;
    run.cancel("a client cancelled it").await?;
    quiet(&asked.state, &run).await?;
    let row = run.status().await?;
    shown(&asked, &run, &row).await.map(Json)
}
