//! The JSON-RPC binding.

use axum::{
    Json,
    http::{HeaderMap, Uri},
    response::{IntoResponse as _, Response, sse::Event},
};
use ghostlight_a2a::protocol::{ProtocolError, RpcRequest, StreamResponse};
use serde_json::{Value, json};

use super::{
    check_version,
    http_json::frames,
    methods::{Done, carry_out},
    tasks::Agent,
};
use crate::{address::Path, api::Asked, body::Bytes, problem::Problem};

/// Answers one request. A fault of the request is told in the body; the HTTP status is 200 then, too.
pub(super) async fn answer(
    asked: Asked,
    Path(team): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    Bytes(body): Bytes,
) -> Result<Response, Problem> {
    let request = match RpcRequest::read(&body) {
        Ok(request) => request,
        Err((id, error)) => return Ok(failed(&id, &error)),
    };
    let id = request.id.clone();
    let state = asked.state.clone();
    let answered = async {
        check_version(&headers, &uri)?;
        let agent = Agent::of(asked, team)?;
        let RpcRequest { id, method, params } = request;
        Ok(match carry_out(&agent, method, params, &headers).await? {
            Done::Answer(result) => {
                Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response()
            }
            Done::Stream(first, following) => frames(&state, first, following, frame(id)),
        })
    };
    Ok(answered.await.unwrap_or_else(|error| failed(&id, &error)))
}

fn failed(id: &Value, error: &ProtocolError) -> Response {
    Json(json!({ "jsonrpc": "2.0", "id": id, "error": error.rpc() })).into_response()
}

/// Each event of a stream is an answer of its own.
fn frame(id: Value) -> impl Fn(Result<StreamResponse, ProtocolError>) -> Event + Send + 'static {
    move |told| {
        let answer = match told {
            Ok(told) => json!({ "jsonrpc": "2.0", "id": id, "result": told }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error.rpc() }),
        };
        Event::default().data(answer.to_string())
    }
}
