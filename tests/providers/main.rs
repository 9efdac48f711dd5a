//! Anthropic's and Google's models, against a server of our own with control over each byte that
//! misbehaves as theirs are documented to; and models in the place of others.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod anthropic;
mod argument_names;
mod attached;
#[path = "../openai/batch_world.rs"]
mod batch_world;
mod batches;
#[cfg(feature = "bedrock")]
mod bedrock;
mod cached_contents;
mod caching;
mod embeddings;
#[path = "../openai/fake.rs"]
#[allow(dead_code)]
mod fake;
mod fallback;
mod fallback_streams;
mod gemini;
mod keys;
mod legal;
mod live;
mod lost_responses;
mod message_batches;
mod misplaced;
mod oddities;
mod own;
mod own_provider;
mod responses;
mod words;

use std::sync::{Arc, Mutex};

use ghostlight_actors::{
    contract::{Model, ModelContext, ModelError},
    vocabulary::{
        Delta, Message, ModelRequest, ModelResponse, Part, Preview, Role, ToolCall, ToolDefinition,
        ToolResult, ToolStatus, Transcript,
    },
};
use serde_json::json;

/// A request of one user message.
fn ask(text: &str) -> ModelRequest {
    ModelRequest::new(Transcript::from_iter([Message::user(text)]))
}

/// A tool with one number.
fn double() -> ToolDefinition {
    ToolDefinition::new("double", "Doubles a number.").parameters(json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
    }))
}

/// A message of the model with these parts.
fn said(parts: Vec<Part>) -> Message {
    Message {
        role: Role::Assistant,
        author: None,
        parts,
        synthetic: false,
    }
}

/// A conversation in which a tool was called, with its result.
fn after_a_call(call: &ToolCall) -> Transcript {
    let result = ToolResult::new(call, ToolStatus::Success, "14");
    Transcript::from_iter([
        Message::user("Double 7."),
        said(vec![Part::ToolCall(call.clone())]),
        Message::results([result]),
    ])
}

/// Asks once.
async fn respond(model: &impl Model, request: ModelRequest) -> Result<ModelResponse, ModelError> {
    model.respond(request, ModelContext::detached()).await
}

/// Asks once for a stream, and gives the deltas that were shown as well.
async fn stream(
    model: &impl Model,
    request: ModelRequest,
) -> (Result<ModelResponse, ModelError>, Vec<Delta>) {
    let shown: Arc<Mutex<Vec<Delta>>> = Arc::default();
    let sink = shown.clone();
    let cx = ModelContext::detached().previews(Arc::new(move |preview| {
        if let Preview::Delta { delta, .. } = preview {
            sink.lock().unwrap().push(delta);
        }
    }));
    let response = model.respond(request.streaming(), cx).await;
    let deltas = std::mem::take(&mut *shown.lock().unwrap());
    (response, deltas)
}

/// The choice is the program's.
#[test]
fn constructing_a_model_chooses_no_cryptography_for_the_process() {
    let _gemini = ghostlight::models::Gemini::new("gemini-2.5-flash");
    let _embedder = ghostlight::models::OpenAiEmbedder::new("text-embedding-3-small", 8);
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
}
