//! OpenAI's chat completions.

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
    errors::openai,
    said::{Said, tools_of},
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
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    n: Option<u32>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    tool_choice: Option<Value>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

pub(super) async fn create(
    asked: Asked,
    headers: HeaderMap,
    Body(request): Body<Request>,
) -> Result<Response, Problem> {
    if request.n.is_some_and(|n| n != 1) {
        return Err(Problem::invalid("a turn has one answer: leave `n` out"));
    }
    let streaming = request.stream.unwrap_or_default();
    let spoken = Spoken {
        team: request.model.clone(),
        session: session_of(&headers)?,
        messages: request.messages,
        tools: tools_of(request.tools, request.tool_choice.as_ref())?,
        streaming,
    };
    let dialog = begin(&asked, spoken, &headers).await?;
    let row = dialog.run.status().await?;
    let head = json!({
        "id": format!("chatcmpl-{}", row.run),
        "created": row.started_at.0 / 1000,
        "model": request.model,
        "service_tier": "default",
        "system_fingerprint": "fp_ghostlight",
    });
    if streaming {
        let usage = request
            .stream_options
            .unwrap_or_default()
            .include_usage
            .unwrap_or_default();
        let first = chunk(
            &head,
            json!({ "role": "assistant", "content": "", "refusal": null }),
            None,
        );
        let rest = pieces(&asked.state, dialog).flat_map(move |piece| {
            stream::iter(match piece {
                Piece::Text(text) => vec![chunk(&head, json!({ "content": text }), None)],
                Piece::Done(Err(problem)) => vec![openai(&problem).to_string()],
                Piece::Done(Ok(end)) => {
                    let mut last = Vec::new();
                    if let Some(calls) = calls_of(&end, true) {
                        last.push(chunk(&head, json!({ "tool_calls": calls }), None));
                    }
                    last.push(chunk(&head, json!({}), Some(reason(end.finish))));
                    if usage {
                        let mut counted = with_object(&head, "chat.completion.chunk");
                        counted["choices"] = json!([]);
                        counted["usage"] = usage_of(&end.usage);
                        last.push(counted.to_string());
                    }
                    last.push("[DONE]".to_owned());
                    last
                }
            })
        });
        let events = stream::iter([first])
            .chain(rest)
            .map(|data| Event::default().data(data));
        return Ok(respond(&asked.state, events));
    }
    let answered = dialog.answered.as_deref().unwrap_or_default();
    let end = finished(&asked.state, &dialog.run, answered).await?;
    let mut answer = with_object(&head, "chat.completion");
    let mut message = json!({
        "role": "assistant", "content": end.text, "refusal": null, "annotations": [],
    });
    if let Some(calls) = calls_of(&end, false) {
        message["tool_calls"] = calls;
        if end.text.is_empty() {
            message["content"] = Value::Null;
        }
    }
    answer["choices"] = json!([{
        "index": 0,
        "message": message,
        "logprobs": null,
        "finish_reason": reason(end.finish),
    }]);
    answer["usage"] = usage_of(&end.usage);
    Ok(Json(answer).into_response())
}

fn with_object(head: &Value, object: &str) -> Value {
    let mut value = head.clone();
    value["object"] = object.into();
    value
}

fn chunk(head: &Value, delta: Value, reason: Option<&str>) -> String {
    let mut chunk = with_object(head, "chat.completion.chunk");
    let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": reason });
    chunk["choices"] = json!([choice]);
    chunk.to_string()
}

fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::Asks => "stop",
        Finish::Length => "length",
        Finish::Calls => "tool_calls",
    }
}

/// The calls that the client is to make, if any; in a stream each has its index.
fn calls_of(end: &Finished, streamed: bool) -> Option<Value> {
    let calls = end.calls.iter().enumerate().map(|(place, (id, call))| {
        let function = json!({ "name": call.name, "arguments": arguments(call) });
        let mut call = json!({ "id": id, "type": "function", "function": function });
        if streamed {
            call["index"] = place.into();
        }
        call
    });
    (!end.calls.is_empty()).then(|| calls.collect())
}

fn usage_of(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens(),
        "prompt_tokens_details": { "cached_tokens": usage.cached_tokens, "audio_tokens": 0 },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens, "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
        },
    })
}
