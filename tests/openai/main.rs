//! The model of OpenAI-compatible servers: against a server of our own with control over each
//! byte, and against one that none of us wrote.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod aimock;
mod attempt;
mod batch_server;
mod batch_troubles;
mod batch_world;
mod batches;
mod behaviors;
mod encoding;
mod fake;
mod profiles;
mod real_server;
mod runs;
mod secrecy;
mod servers;
mod small_model;
mod small_server;
mod streams;
mod tls;
mod usage;

use std::sync::{Arc, Mutex};

use ghostlight::models::OpenAi;
use ghostlight_actors::{
    contract::{Model, ModelContext, ModelError},
    vocabulary::{Delta, Message, ModelRequest, ModelResponse, Preview, Transcript},
};

/// A request of one user message.
fn ask(text: &str) -> ModelRequest {
    ModelRequest::new(Transcript::from_iter([Message::user(text)]))
}

/// Asks once.
async fn respond(model: &OpenAi, request: ModelRequest) -> Result<ModelResponse, ModelError> {
    model.respond(request, ModelContext::detached()).await
}

/// Asks once for a stream, and gives the deltas that were shown as well.
async fn stream(
    model: &OpenAi,
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
