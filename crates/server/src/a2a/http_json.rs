//! The HTTP+JSON binding.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header, request::Parts},
    response::{IntoResponse as _, Response, sse::Event},
};
use futures_util::{Stream, StreamExt as _, stream};
use ghostlight_a2a::protocol::{
    ErrorCode, MEDIA_TYPE, ProtocolError, PushConfig, PushQuery, SendMessage, SendResponse,
    StreamResponse, Task, TaskQuery,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    card, check_version,
    following::{Following, News},
    tasks::Agent,
};
use crate::{
    address::Path,
    api::Asked,
    body::Bytes,
    server::Shared,
    sse::{Place, respond},
};

/// How long a client should wait before it retries a request that was refused for load, in seconds.
const RETRY_AFTER_S: u64 = 1;

type Answered = Result<Response, ProtocolError>;

fn shown(value: &impl Serialize) -> Answered {
    let body = serde_json::to_vec(value);
    let body = body.map_err(|error| ProtocolError::new(ErrorCode::Internal, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, MEDIA_TYPE)], body).into_response())
}

/// An answer or an error, in the form of this binding.
fn told(answered: Answered) -> Response {
    let error = match answered {
        Ok(response) => return response,
        Err(error) => error,
    };
    let status =
        StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, axum::Json(error.http())).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    }
    response
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ProtocolError> {
    let parsed = crate::body::json(body).and_then(serde_json::from_value);
    parsed.map_err(|error| match error.classify() {
        serde_json::error::Category::Data => ProtocolError::invalid(format!("the body: {error}")),
        _ => ProtocolError::new(ErrorCode::Parse, format!("the body is not JSON: {error}")),
    })
}

fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, ProtocolError> {
    let query = axum::extract::Query::<T>::try_from_uri(uri);
    query
        .map(|query| query.0)
        .map_err(|error| ProtocolError::invalid(error.body_text()))
}

/// Takes a message, and answers at once or when it is the client's turn again.
pub(super) async fn sent(agent: &Agent, request: SendMessage) -> Result<Task, ProtocolError> {
    let configuration = request.configuration.clone().unwrap_or_default();
    let mut begun = agent.begin(request, false).await?;
    if configuration.return_immediately {
        begun.following.first(&mut begun.task).await;
        return Ok(begun.task.with_history(configuration.history_length));
    }
    let task = agent.settled(begun).await?;
    Ok(task.with_history(configuration.history_length))
}

/// A request to one agent, with the names in its path.
pub(super) struct ToAgent {
    agent: Agent,
    /// The task, perhaps with a verb behind it.
    task: String,
    receiver: String,
    uri: Uri,
    headers: HeaderMap,
}

#[derive(Deserialize)]
struct Names {
    team: String,
    #[serde(default)]
    run: String,
    #[serde(default)]
    receiver: String,
}

impl FromRequestParts<Shared> for ToAgent {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Response> {
        let asked = Asked::from_request_parts(parts, state).await;
        let asked = asked.map_err(|problem| problem.into_response())?;
        let names = Path::<Names>::from_request_parts(parts, state).await;
        let Path(names) = names.map_err(|problem| problem.into_response())?;
        let agent = check_version(&parts.headers, &parts.uri)
            .and_then(|()| Agent::of(asked, names.team))
            .map_err(|error| told(Err(error)))?;
        Ok(Self {
            agent,
            task: names.run,
            receiver: names.receiver,
            uri: parts.uri.clone(),
            headers: parts.headers.clone(),
        })
    }
}

pub(super) async fn send(to: ToAgent, Bytes(body): Bytes) -> Response {
    let answered = async { shown(&SendResponse::Task(sent(&to.agent, read(&body)?).await?)) };
    told(answered.await)
}

pub(super) async fn stream(to: ToAgent, Bytes(body): Bytes) -> Response {
    let answered = async {
        let begun = to.agent.begin(read(&body)?, true).await?;
        let first = Some((StreamResponse::Task(begun.task), None));
        Ok(frames(&to.agent.asked.state, first, begun.following, frame))
    };
    told(answered.await)
}

pub(super) async fn list(to: ToAgent) -> Response {
    let answered = async { shown(&to.agent.list(query(&to.uri)?).await?) };
    told(answered.await)
}

/// `GET /tasks/{id}`, and the same with `:subscribe`.
pub(super) async fn look(to: ToAgent) -> Response {
    let answered = async {
        match to.task.rsplit_once(':') {
            None => {
                let mut query: TaskQuery = query(&to.uri)?;
                query.id = to.task;
                shown(&to.agent.get(&query).await?)
            }
            Some((task, "subscribe")) => subscribed(&to.agent, task, &to.headers).await,
            Some((_, verb)) => Err(no_verb(verb)),
        }
    };
    told(answered.await)
}

/// `POST /tasks/{id}:cancel` and `:subscribe`.
pub(super) async fn act(to: ToAgent) -> Response {
    let answered = async {
        match to.task.rsplit_once(':') {
            Some((task, "cancel")) => shown(&to.agent.cancel(task).await?),
            Some((task, "subscribe")) => subscribed(&to.agent, task, &to.headers).await,
            Some((_, verb)) => Err(no_verb(verb)),
            None => Err(no_verb("")),
        }
    };
    told(answered.await)
}

fn no_verb(verb: &str) -> ProtocolError {
    let verb: String = verb.chars().take(32).collect();
    let text = format!("a task has no verb {verb:?}: cancel or subscribe");
    ProtocolError::new(ErrorCode::MethodNotFound, text)
}

async fn subscribed(agent: &Agent, task: &str, headers: &HeaderMap) -> Answered {
    let (first, following) = agent.subscribe(task, headers).await?;
    let first = first.map(|(task, place)| (StreamResponse::Task(task), place));
    Ok(frames(&agent.asked.state, first, following, frame))
}

pub(super) async fn pushes(to: ToAgent) -> Response {
    let pushes = to.agent.pushes(&to.task).await;
    told(pushes.and_then(|all| shown(&all)))
}

pub(super) async fn create_push(to: ToAgent, Bytes(body): Bytes) -> Response {
    let answered = async {
        let mut config: PushConfig = read(&body)?;
        config.task_id = to.task;
        shown(&to.agent.create_push(config).await?)
    };
    told(answered.await)
}

pub(super) async fn get_push(to: ToAgent) -> Response {
    let query = PushQuery {
        task_id: to.task,
        id: to.receiver,
    };
    let push = to.agent.get_push(&query).await;
    told(push.and_then(|push| shown(&push)))
}

pub(super) async fn delete_push(to: ToAgent) -> Response {
    let query = PushQuery {
        task_id: to.task,
        id: to.receiver,
    };
    let deleted = to.agent.delete_push(&query).await;
    told(deleted.and_then(|()| shown(&serde_json::json!({}))))
}

pub(super) async fn extended_card(to: ToAgent) -> Response {
    let answered = card::extended(&to.agent, &to.headers).and_then(|card| {
        let mut response = shown(&card)?;
        let kept = HeaderValue::from_static("private, max-age=60");
        response.headers_mut().insert(header::CACHE_CONTROL, kept);
        Ok(response)
    });
    told(answered)
}

/// Streams the updates of a task. The id of an event is its place, so a client resumes behind the last id that it has;
/// updates without a record have no id.
pub(super) fn frames(
    state: &Shared,
    first: Option<(StreamResponse, Option<Place>)>,
    following: Following,
    frame: impl Fn(Result<StreamResponse, ProtocolError>) -> Event + Send + 'static,
) -> Response {
    let events = updates(first, following).map(move |told| match told {
        Ok((told, Some(place))) => frame(Ok(told)).id(place.to_string()),
        Ok((told, None)) => frame(Ok(told)),
        Err(error) => frame(Err(error)),
    });
    respond(state, events)
}

/// The updates of a task, each with the place of the event that it completes.
pub(super) fn updates(
    first: Option<(StreamResponse, Option<Place>)>,
    following: Following,
) -> impl Stream<Item = Result<(StreamResponse, Option<Place>), ProtocolError>> + Send + 'static {
    let rest = stream::unfold(following, |mut following| async move {
        loop {
            match following.next().await? {
                Ok((News::Told(update), place)) => return Some((Ok((update, place)), following)),
                Ok((News::Heard(_), _)) => {}
                Err(error) => return Some((Err(error), following)),
            }
        }
    });
    stream::iter(first.map(Ok)).chain(rest)
}

fn frame(told: Result<StreamResponse, ProtocolError>) -> Event {
    match told {
        Ok(told) => Event::default().data(serde_json::to_string(&told).unwrap_or_default()),
        Err(error) => Event::default()
            .event("error")
            .data(error.http().to_string()),
    }
}
