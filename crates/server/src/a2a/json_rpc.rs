//! The JSON-RPC binding.

use axum::{
    Json,
    http::{HeaderMap, Uri},
    response::{IntoResponse as _, Response, sse::Event},
};
use ghostlight_a2a::protocol::{
    ErrorCode, Method, ProtocolError, PushQuery, RpcRequest, SendResponse, StreamResponse,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    check_version,
    http_json::{frames, sent},
    tasks::Agent,
};
use crate::{address::Path, api::Asked, body::Bytes, problem::Problem, server::Shared};

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
        dispatch(&state, &agent, request, &headers).await
    };
    Ok(answered.await.unwrap_or_else(|error| failed(&id, &error)))
}

fn failed(id: &Value, error: &ProtocolError) -> Response {
    Json(json!({ "jsonrpc": "2.0", "id": id, "error": error.rpc() })).into_response()
}

fn params<T: DeserializeOwned>(params: Value) -> Result<T, ProtocolError> {
    serde_json::from_value(params)
        .map_err(|error| ProtocolError::invalid(format!("`params`: {error}")))
}

async fn dispatch(
    state: &Shared,
    agent: &Agent,
    request: RpcRequest,
    headers: &HeaderMap,
) -> Result<Response, ProtocolError> {
    let RpcRequest {
        id,
        method,
        params: given,
    } = request;
    let result = match method {
        Method::SendMessage => json!(SendResponse::Task(sent(agent, params(given)?).await?)),
        Method::GetTask => json!(agent.get(&params(given)?).await?),
        Method::ListTasks => json!(agent.list(params(given)?).await?),
        Method::CancelTask => json!(agent.cancel(&task_of(given)?).await?),
        Method::SendStreamingMessage => {
            let begun = agent.begin(params(given)?, true).await?;
            let first = Some((StreamResponse::Task(begun.task), None));
            return Ok(frames(state, first, begun.following, frame(id)));
        }
        Method::SubscribeToTask => {
            let (first, following) = agent.subscribe(&task_of(given)?, headers).await?;
            let first = first.map(|(task, place)| (StreamResponse::Task(task), place));
            return Ok(frames(state, first, following, frame(id)));
        }
        Method::CreatePushConfig => json!(agent.create_push(params(given)?).await?),
        Method::GetPushConfig => json!(agent.get_push(&params(given)?).await?),
        Method::ListPushConfigs => {
            let query: PushQuery = params(given)?;
            json!(agent.pushes(&query.task_id).await?)
        }
        Method::DeletePushConfig => {
            agent.delete_push(&params(given)?).await?;
            json!({})
        }
        Method::GetExtendedAgentCard => return Err(super::http_json::extended_card()),
        _ => {
            return Err(ProtocolError::new(
                ErrorCode::MethodNotFound,
                "the method is not offered",
            ));
        }
    };
    Ok(Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response())
}

fn task_of(given: Value) -> Result<String, ProtocolError> {
    let query: ghostlight_a2a::protocol::TaskQuery = params(given)?;
    Ok(query.id)
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
