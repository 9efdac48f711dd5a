//! Anthropic's messages.

use axum::{
    Json,
    http::HeaderMap,
    response::{IntoResponse as _, Response, sse::Event},
};
use futures_util::{StreamExt as _, stream};
use ghostlight_actors::vocabulary::Usage;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    calls::arguments,
    dialog::{Finish, Finished, Piece, Spoken, begin, finished, pieces},
    errors::anthropic,
    said::{Content, Said, tools_of},
    session_of,
};
use crate::{api::Asked, body::Json as Body, problem::Problem, sse::respond};

/// A request. Fields that are not listed here are the team's to decide, and are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Request {
    /// The team.
    model: String,
    messages: Vec<Said>,
    #[serde(default)]
    system: Option<Content>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    tool_choice: Option<Value>,
}

pub(super) async fn create(
    asked: Asked,
    headers: HeaderMap,
    Body(request): Body<Request>,
) -> Result<Response, Problem> {
    let streaming = request.stream.unwrap_or_default();
    let mut messages = request.messages;
    if let Some(content) = request.system {
        messages.insert(0, Said::text("system", content));
    }
    let spoken = Spoken {
        team: request.model.clone(),
        session: session_of(&headers)?,
        messages,
        tools: tools_of(request.tools, request.tool_choice.as_ref())?,
        streaming,
    };
    let dialog = begin(&asked, spoken, &headers).await?;
    let mut message = json!({
        "id": format!("msg_{}", dialog.run.id()),
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "stop_details": null,
        "container": null,
        "usage": usage_of(&Usage::default()),
    });
    if streaming {
        let first = [
            json!({ "type": "message_start", "message": message }),
            json!({ "type": "ping" }),
        ];
        let mut speaks = false;
        let rest = pieces(&asked.state, dialog).flat_map(move |piece| {
            stream::iter(match piece {
                Piece::Text(text) => {
                    let block = json!({ "type": "text", "text": "", "citations": null });
                    let delta = json!({ "type": "text_delta", "text": text });
                    let delta =
                        json!({ "type": "content_block_delta", "index": 0, "delta": delta });
                    match std::mem::replace(&mut speaks, true) {
                        false => vec![started(0, block), delta],
                        true => vec![delta],
                    }
                }
                Piece::Done(Err(problem)) => vec![anthropic(&problem)],
                Piece::Done(Ok(end)) => ended(&end, speaks),
            })
        });
        let events = stream::iter(first).chain(rest).map(|event| {
            let name = event["type"].as_str().unwrap_or_default();
            Event::default().event(name).data(event.to_string())
        });
        return Ok(respond(&asked.state, events));
    }
    let answered = dialog.answered.as_deref().unwrap_or_default();
    let end = finished(&asked.state, &dialog.run, answered).await?;
    let mut content = Vec::new();
    if end.calls.is_empty() || !end.text.is_empty() {
        content.push(json!({ "type": "text", "text": end.text, "citations": null }));
    }
    for (id, call) in &end.calls {
        let input = serde_json::from_str::<Value>(&arguments(call)).unwrap_or_default();
        content.push(used(id, &call.name, input));
    }
    message["content"] = content.into();
    message["stop_reason"] = reason(end.finish).into();
    message["usage"] = usage_of(&end.usage);
    Ok(Json(message).into_response())
}

fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::Asks => "end_turn",
        Finish::Length => "max_tokens",
        Finish::Calls => "tool_use",
    }
}

/// A block that asks the client to make a call.
fn used(id: &str, name: &str, input: Value) -> Value {
    json!({ "type": "tool_use", "id": id, "name": name, "input": input, "caller": { "type": "direct" } })
}

fn started(index: usize, block: Value) -> Value {
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

/// The last events of a stream.
fn ended(end: &Finished, speaks: bool) -> Vec<Value> {
    let stopped = |index: usize| json!({ "type": "content_block_stop", "index": index });
    let mut events = Vec::new();
    if !speaks && end.calls.is_empty() {
        let block = json!({ "type": "text", "text": "", "citations": null });
        events.extend([started(0, block), stopped(0)]);
    }
    if speaks {
        events.push(stopped(0));
    }
    for (place, (id, call)) in end.calls.iter().enumerate() {
        let index = place + usize::from(speaks);
        let delta = json!({ "type": "input_json_delta", "partial_json": arguments(call) });
        events.push(started(index, used(id, &call.name, json!({}))));
        events.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        events.push(stopped(index));
    }
    events.push(json!({
        "type": "message_delta",
        "delta": {
            "stop_reason": reason(end.finish), "stop_sequence": null, "stop_details": null,
            "container": null,
        },
        "usage": usage_of(&end.usage),
    }));
    events.push(json!({ "type": "message_stop" }));
    events
}

fn usage_of(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens.saturating_sub(usage.cached_tokens),
        "output_tokens": usage.output_tokens,
        "cache_creation": null,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "inference_geo": null,
        "output_tokens_details": null,
        "server_tool_use": null,
        "service_tier": "standard",
    })
}
