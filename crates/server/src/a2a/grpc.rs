//! The gRPC binding. An agent is named by the tenant of a request, as its card says; where there is one agent, no tenant is
//! needed.

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, Uri},
    middleware::Next,
    response::Response,
};
use futures_util::{Stream, StreamExt as _, future, stream};
use ghostlight_a2a::{
    grpc::{Codec, EVENT, status_of},
    protocol::{ErrorCode, Method, ProtocolError, StreamResponse},
};
use serde_json::{Map, Value, json};
use tonic::{Code, Status, server::Grpc};
use tower::service_fn;

use super::{
    check_version,
    following::Following,
    http_json::updates,
    methods::{Done, carry_out},
    tasks::Agent,
};
use crate::{
    address::Path,
    api::Asked,
    body::{Message, is_grpc},
    problem::Problem,
    server::Shared,
    sse::{self, Place},
};

/// Carries out the method that the path names.
pub(super) async fn answer(
    asked: Asked,
    Path(name): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    Message(body): Message,
) -> Response {
    let Some(method) = Method::of(&name) else {
        return Status::unimplemented("there is no such method").into_http();
    };
    let most = asked.state.limits.max_body_bytes;
    let mut request = Request::new(Body::from(body));
    *request.headers_mut() = headers.clone();
    // A single answer is a stream of one message: on the wire they are the same.
    let service = service_fn(move |request: tonic::Request<Value>| {
        let (asked, uri, headers) = (asked.clone(), uri.clone(), headers.clone());
        async move {
            let done = async {
                check_version(&headers, &uri)?;
                let state = asked.state.clone();
                let params = request.into_inner();
                let agent = agent(asked, &params)?;
                let done = carry_out(&agent, method, params, &headers).await?;
                Ok(match done {
                    Done::Answer(answer) => stream::once(future::ready(Ok(answer))).boxed(),
                    Done::Stream(first, following) => told(&state, first, following).boxed(),
                })
            };
            done.await
                .map(tonic::Response::new)
                .map_err(|error: ProtocolError| status_of(&error))
        }
    });
    let mut grpc = Grpc::new(Codec::of_server(method)).max_decoding_message_size(most);
    let answered = grpc.server_streaming(service, request).await;
    answered.map(Body::new)
}

/// The agent that a request names as its tenant.
fn agent(asked: Asked, params: &Value) -> Result<Agent, ProtocolError> {
    let named = params.get("tenant").and_then(Value::as_str);
    let team = match named.unwrap_or_default() {
        "" => match asked.state.teams().as_slice() {
            [only] => only.name.clone(),
            _ => {
                let text = "several agents are here: name one as `tenant`, as its card does";
                return Err(ProtocolError::invalid(text));
            }
        },
        named => named.to_owned(),
    };
    Agent::of(asked, team)
}

/// The updates of a task. Each has its event's place in its metadata. When the server stops the stream ends with an error,
/// so that no client takes this for the end of the task.
fn told(
    state: &Shared,
    first: Option<(StreamResponse, Option<Place>)>,
    following: Following,
) -> impl Stream<Item = Result<Value, Status>> + Send + use<> {
    let told = updates(first, following).map(|told| match told {
        Ok((update, place)) => Ok(json!(placed(update, place))),
        Err(error) => Err(status_of(&error)),
    });
    let stopping = state.stopping.clone();
    let end = stream::once(async move {
        let text = "the server stops: subscribe again when it is back";
        stopping
            .is_cancelled()
            .then(|| Err(status_of(&ProtocolError::new(ErrorCode::Unavailable, text))))
    });
    sse::counted(state, told).chain(end.filter_map(future::ready))
}

fn placed(mut update: StreamResponse, place: Option<Place>) -> StreamResponse {
    let metadata = match &mut update {
        StreamResponse::Task(task) => &mut task.metadata,
        StreamResponse::Message(message) => &mut message.metadata,
        StreamResponse::StatusUpdate(update) => &mut update.metadata,
        StreamResponse::ArtifactUpdate(update) => &mut update.metadata,
    };
    if let Some(place) = place {
        let metadata = metadata.get_or_insert_with(Map::new);
        metadata.insert(EVENT.to_owned(), place.to_string().into());
    }
    update
}

/// Gives clients of gRPC the problems of the server as statuses.
pub(crate) async fn in_its_form(request: Request, next: Next) -> Response {
    let is_grpc = is_grpc(request.headers());
    let response = next.run(request).await;
    let Some(problem) = response.extensions().get::<Problem>().filter(|_| is_grpc) else {
        return response;
    };
    let code = match problem.status().as_u16() {
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 | 405 => Code::Unimplemented,
        408 | 504 => Code::DeadlineExceeded,
        413 | 429 => Code::ResourceExhausted,
        503 => Code::Unavailable,
        400..=499 => Code::InvalidArgument,
        _ => Code::Internal,
    };
    Status::new(code, problem.detail()).into_http()
}
