//! The requests to a server over Streamable HTTP.
//!
//! The SDK's own client drops the words of most refusals, and passes errors on that name no request, which then waits
//! until its time is over. Here an answer ends the request that it answers, whatever its status and form.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use futures_util::StreamExt as _;
use reqwest::{
    Client, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE},
};
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId,
        ServerJsonRpcMessage, ServerResult,
    },
    transport::{
        common::{
            client_side_sse::BoxedSseResponse,
            http_header::{EVENT_STREAM_MIME_TYPE, HEADER_SESSION_ID, JSON_MIME_TYPE},
        },
        streamable_http_client::{
            AuthRequiredError, InsufficientScopeError, StreamableHttpClient, StreamableHttpError,
            StreamableHttpPostResponse, StreamableHttpResponseLimits,
        },
    },
};
use serde_json::Value;
use sse_stream::{Sse, SseStream};

use super::lenient;

/// The most bytes of a refusal that are read, and the most characters of it that are told.
const REFUSAL_BYTES: usize = 64 << 10;
const WORDS: usize = 1_000;

pub(super) type WireError = StreamableHttpError<reqwest::Error>;

/// The requests of one connection.
#[derive(Clone)]
pub(super) struct Wire {
    client: Client,
    server: Arc<str>,
}

impl StreamableHttpClient for Wire {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, WireError> {
        let limits = StreamableHttpResponseLimits::default();
        self.post(uri, message, session, token, headers, limits)
            .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, WireError> {
        self.post(uri, message, session, token, headers, limits)
            .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), WireError> {
        self.client
            .delete_session(uri, session, token, headers)
            .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, WireError> {
        let events = self.client.get_stream(uri, session, last, token, headers);
        Ok(events.await?.map(|event| event.map(screened)).boxed())
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        max: usize,
    ) -> Result<BoxedSseResponse, WireError> {
        let client = &self.client;
        let events =
            client.get_stream_with_max_sse_event_size(uri, session, last, token, headers, max);
        Ok(events.await?.map(|event| event.map(screened)).boxed())
    }
}

impl Wire {
    pub(super) fn new(client: Client, server: &str) -> Self {
        Self {
            client,
            server: server.into(),
        }
    }

    async fn post(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, WireError> {
        let mut request = self
            .client
            .post(uri.as_ref())
            .header(ACCEPT, "text/event-stream, application/json");
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        for (name, value) in headers {
            if is_reserved(&name) {
                return Err(WireError::ReservedHeaderConflict(name.to_string()));
            }
            request = request.header(name, value);
        }
        let in_session = session.is_some();
        if let Some(session) = session {
            request = request.header(HEADER_SESSION_ID, session.as_ref());
        }
        let asked = match &message {
            JsonRpcMessage::Request(request) => Some(&request.id),
            _ => None,
        };
        let response = request.json(&message).send().await?;
        let status = response.status();
        if let Some(challenged) = challenged(&response) {
            return Err(challenged?);
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && in_session {
            return Err(WireError::SessionExpired);
        }
        if !status.is_success() {
            let is_discovery = matches!(
                &message,
                JsonRpcMessage::Request(request)
                    if matches!(request.request, ClientRequest::DiscoverRequest(_))
            );
            return refusal(response, asked, in_session, is_discovery).await;
        }
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            Some(value.to_str().ok()?.to_owned())
        };
        let (kind, begun) = (header(CONTENT_TYPE.as_str()), header(HEADER_SESSION_ID));
        let is = |wanted: &str| kind.as_deref().is_some_and(|kind| is_media(kind, wanted));
        match asked {
            Some(asked) if is(EVENT_STREAM_MIME_TYPE) => {
                let (server, most) = (self.server.clone(), limits.max_sse_event_size);
                let stream = events(response, asked.clone(), server, most);
                Ok(StreamableHttpPostResponse::Sse(stream, begun))
            }
            Some(asked) if is(JSON_MIME_TYPE) => {
                let max_size = limits.max_json_response_size;
                let (body, is_whole) = body(response, max_size).await?;
                if !is_whole {
                    return Err(WireError::ResponseBodyTooLarge { max_size });
                }
                match read(&lenient::screened(&body), asked) {
                    Ok(message) => {
                        let message = lenient::mended(message, &self.server);
                        Ok(StreamableHttpPostResponse::Json(message, begun))
                    }
                    Err(error) => Err(WireError::UnexpectedServerResponse(
                        format!("its answer cannot be read ({error}): {}", words(&body)).into(),
                    )),
                }
            }
            Some(_) => Err(WireError::UnexpectedContentType(kind)),
            // Nothing waits for an answer to a notification.
            None => Ok(StreamableHttpPostResponse::Accepted),
        }
    }
}

/// Whether the SDK sets this header itself.
fn is_reserved(name: &HeaderName) -> bool {
    ["accept", "mcp-session-id", "last-event-id"].contains(&name.as_str())
}

fn is_media(given: &str, wanted: &str) -> bool {
    let essence = given.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(wanted)
}

/// The error of an answer that demands an authorization.
fn challenged(response: &Response) -> Option<Result<WireError, WireError>> {
    let status = response.status();
    let challenge = response.headers().get(WWW_AUTHENTICATE)?;
    let challenge = challenge.to_str().map(str::to_owned).map_err(|_| {
        WireError::UnexpectedServerResponse("its demand for an authorization cannot be read".into())
    });
    match status {
        StatusCode::UNAUTHORIZED => Some(
            challenge.map(|challenge| WireError::AuthRequired(AuthRequiredError::new(challenge))),
        ),
        StatusCode::FORBIDDEN => Some(challenge.map(|challenge| {
            WireError::InsufficientScope(InsufficientScopeError::new(challenge, None))
        })),
        _ => None,
    }
}

/// The end of a request that the server did not serve. What the server says itself is its answer; a status of the
/// 400s says that nothing was done, and one of the 500s does not.
async fn refusal(
    response: Response,
    asked: Option<&RequestId>,
    in_session: bool,
    is_discovery: bool,
) -> Result<StreamableHttpPostResponse, WireError> {
    let status = response.status();
    let body = match body(response, REFUSAL_BYTES).await {
        Ok((body, _)) => body,
        Err(_) => Vec::new(),
    };
    let said = words(&body);
    let is_answer = asked.is_some_and(|asked| names(&body, asked));
    // MCP has 404 for a session that is over; many servers say it by 400.
    if status == StatusCode::BAD_REQUEST
        && in_session
        && !is_answer
        && said.to_lowercase().contains("session")
    {
        return Err(WireError::SessionExpired);
    }
    let is_unauthorized = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if let Some(asked) = asked {
        // A server of an older revision is not told by that it lets nobody in.
        let may_answer = !(is_discovery && is_unauthorized);
        if may_answer && let Ok(message @ JsonRpcMessage::Error(_)) = read(&body, asked) {
            return Ok(StreamableHttpPostResponse::Json(message, None));
        }
        if may_answer && status.is_client_error() {
            let error = ErrorData::invalid_request(answers(status, &said), None);
            let message = ServerJsonRpcMessage::error(error, Some(asked.clone()));
            return Ok(StreamableHttpPostResponse::Json(message, None));
        }
    }
    Err(WireError::UnexpectedServerResponse(
        answers(status, &said).into(),
    ))
}

fn answers(status: StatusCode, said: &str) -> String {
    match said.is_empty() {
        true => format!("it answers {status}"),
        false => format!("it answers {status}: {said}"),
    }
}

/// The words of a body, bounded and sanitised.
fn words(body: &[u8]) -> String {
    ghostlight_safety::sanitize_line(&String::from_utf8_lossy(body), WORDS)
}

/// At most this many bytes of a body, and whether they are all.
async fn body(response: Response, most: usize) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let (mut body, mut stream) = (Vec::new(), response.bytes_stream());
    while let Some(chunk) = stream.next().await {
        let chunk = chunk?;
        let left = most - body.len();
        if chunk.len() > left {
            body.extend_from_slice(&chunk[..left]);
            return Ok((body, false));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((body, true))
}

/// The messages of an answer that is a stream of events.
fn events(response: Response, asked: RequestId, server: Arc<str>, most: usize) -> BoxedSseResponse {
    let (mut held, mut is_blank) = (0, true);
    let bytes = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(std::io::Error::other)?;
        for byte in &chunk {
            match byte {
                // An event ends with an empty line.
                b'\n' if is_blank => held = 0,
                b'\n' => is_blank = true,
                b'\r' => {}
                _ => is_blank = false,
            }
            held += 1;
            if held > most {
                let text = format!("an event of the server has more than {most} bytes");
                return Err(std::io::Error::other(text));
            }
        }
        Ok(chunk)
    });
    let events = SseStream::from_bytes_stream(bytes).map(move |event| {
        let mut event = screened(event?);
        if let Some(data) = &mut event.data
            && let Ok(message) = read(data.as_bytes(), &asked)
            && is_odd(&message)
            && let Ok(answer) = serde_json::to_string(&lenient::mended(message, &server))
        {
            *data = answer;
        }
        Ok(event)
    });
    events.boxed()
}

/// An event whose message may be read.
fn screened(mut event: Sse) -> Sse {
    if let Some(data) = &mut event.data
        && let Cow::Owned(instead) = lenient::screened(data.as_bytes())
    {
        // It is JSON, so it is text; where there is nothing in its place, the event has no data.
        event.data = String::from_utf8(instead)
            .ok()
            .filter(|data| !data.is_empty());
    }
    event
}

/// Whether the SDK would not read a message as it is read here.
fn is_odd(message: &ServerJsonRpcMessage) -> bool {
    match message {
        JsonRpcMessage::Error(_) => true,
        JsonRpcMessage::Response(answer) => matches!(answer.result, ServerResult::CustomResult(_)),
        _ => false,
    }
}

/// A message in the answer to a request. An error that names no request is about this one.
fn read(text: &[u8], asked: &RequestId) -> Result<ServerJsonRpcMessage, serde_json::Error> {
    let fault = match serde_json::from_slice(text) {
        Ok(JsonRpcMessage::Error(mut error)) => {
            if !error.id.as_ref().is_some_and(is_a_request) {
                error.id = Some(asked.clone());
            }
            return Ok(JsonRpcMessage::Error(error));
        }
        Ok(message) => return Ok(message),
        Err(fault) => fault,
    };
    // An error of another form than that of JSON-RPC.
    let value: Value = serde_json::from_slice(text)?;
    let said = match value.get("error").filter(|_| value.get("method").is_none()) {
        None | Some(Value::Null) => return Err(fault),
        Some(Value::String(said)) => said.clone(),
        Some(said) => match said.get("message").and_then(Value::as_str) {
            Some(message) => message.to_owned(),
            None => said.to_string(),
        },
    };
    let error = ErrorData::internal_error(words(said.as_bytes()), None);
    Ok(ServerJsonRpcMessage::error(error, Some(asked.clone())))
}

/// Whether an id can be one of ours, which are numbers.
pub(super) fn is_a_request(id: &RequestId) -> bool {
    match id {
        RequestId::Number(_) => true,
        RequestId::String(text) => text.parse::<i64>().is_ok(),
    }
}

/// Whether a body is an answer to the request by its id.
fn names(body: &[u8], asked: &RequestId) -> bool {
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return false;
    };
    let id = serde_json::to_value(asked).unwrap_or_default();
    body.get("id").is_some_and(|given| *given == id)
}
