//! The methods of the protocol, the same for the bindings that name them in requests.

use axum::http::HeaderMap;
use ghostlight_a2a::protocol::{
    ErrorCode, Method, ProtocolError, PushQuery, SendResponse, StreamResponse, TaskQuery,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{card, following::Following, http_json::sent, tasks::Agent};
use crate::sse::Place;

/// The result of a method.
#[allow(clippy::large_enum_variant)]
pub(super) enum Done {
    /// Its result.
    Answer(Value),
    /// The updates of a task, the first of which may be there already.
    Stream(Option<(StreamResponse, Option<Place>)>, Following),
}

fn params<T: DeserializeOwned>(params: Value) -> Result<T, ProtocolError> {
    serde_json::from_value(params)
        .map_err(|error| ProtocolError::invalid(format!("`params`: {error}")))
}

/// Carries out a method.
pub(super) async fn carry_out(
    agent: &Agent,
    method: Method,
    given: Value,
    headers: &HeaderMap,
) -> Result<Done, ProtocolError> {
    let result = match method {
        Method::SendMessage => json!(SendResponse::Task(sent(agent, params(given)?).await?)),
        Method::GetTask => json!(agent.get(&params(given)?).await?),
        Method::ListTasks => json!(agent.list(params(given)?).await?),
        Method::CancelTask => json!(agent.cancel(&task_of(given)?).await?),
        Method::SendStreamingMessage => {
            let begun = agent.begin(params(given)?, true).await?;
            let first = Some((StreamResponse::Task(begun.task), None));
            return Ok(Done::Stream(first, begun.following));
        }
        Method::SubscribeToTask => {
            let (first, following) = agent.subscribe(&task_of(given)?, headers).await?;
            let first = first.map(|(task, place)| (StreamResponse::Task(task), place));
            return Ok(Done::Stream(first, following));
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
        Method::GetExtendedAgentCard => json!(card::extended(agent, headers)?),
        _ => {
            return Err(ProtocolError::new(
                ErrorCode::MethodNotFound,
                "the method is not offered",
            ));
        }
    };
    Ok(Done::Answer(result))
}

fn task_of(given: Value) -> Result<String, ProtocolError> {
    let query: TaskQuery = params(given)?;
    Ok(query.id)
}
