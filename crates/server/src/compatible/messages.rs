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
    dialog::{Content, Finish, Piece, Said, Spoken, begin, finished, pieces},
    errors::anthropic,
    no_tools, session_of,
};
use crate::{api::Asked, body::Json as Body, problem::Problem, sse::respond};

/// A request. Fields that it does not name are the team's to decide, and are passed over.
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
}

pub(super) async fn create(
    asked: Asked,
    headers: HeaderMap,
    Body(request): Body<Request>,
) -> Result<Response, Problem> {
    no_tools(&request.tools)?;
    let streaming = request.stream.unwrap_or_default();
    let mut messages = request.messages;
    if let Some(content) = request.system {
        let role = "system".to_owned();
        messages.insert(0, Said { role, content });
    }
    let spoken = Spoken {
        team: request.model.clone(),
        session: session_of(&headers)?,
        messages,
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
        "usage": usage_of(&Usage::default()),
    });
    if streaming {
        let first = [
            json!({ "type": "message_start", "message": message }),
            json!({
                "type": "content_block_start", "index": 0,
                "content_block": { "type": "text", "text": "", "citations": null },
            }),
            json!({ "type": "ping" }),
        ];
        let rest = pieces(&asked.state, dialog).flat_map(|piece| {
            stream::iter(match piece {
                Piece::Text(text) => vec![json!({
                    "type": "content_block_delta", "index": 0,
                    "delta": { "type": "text_delta", "text": text },
                })],
                Piece::Done(Err(problem)) => vec![anthropic(&problem)],
                Piece::Done(Ok(end)) => vec![
                    json!({ "type": "content_block_stop", "index": 0 }),
                    json!({
                        "type": "message_delta",
                        "delta": { "stop_reason": reason(end.finish), "stop_sequence": null },
                        "usage": usage_of(&end.usage),
                    }),
                    json!({ "type": "message_stop" }),
                ],
            })
        });
        let events = stream::iter(first).chain(rest).map(|event| {
            let name = event["type"].as_str().unwrap_or_default();
            Event::default().event(name).data(event.to_string())
        });
        return Ok(respond(&asked.state, events));
    }
    let end = finished(&asked.state, &dialog.run).await?;
    message["content"] = json!([{ "type": "text", "text": end.text, "citations": null }]);
    message["stop_reason"] = reason(end.finish).into();
    message["usage"] = usage_of(&end.usage);
    Ok(Json(message).into_response())
}

fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::Asks => "end_turn",
        Finish::Length => "max_tokens",
    }
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
