//! Event streams over HTTP (server-sent events).

use std::{convert::Infallible, sync::Arc};

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{
        IntoResponse as _, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use futures_util::{Stream, StreamExt as _};

use crate::{metrics::Metrics, problem::Problem, server::Shared};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The position after which a reader wants to go on.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(id) = headers.get(LAST_EVENT_ID) else {
        return Ok(None);
    };
    let id = id.to_str().ok().map(str::trim).unwrap_or("?");
    // A reader that got no event yet sends nothing.
    if id.is_empty() {
        return Ok(None);
    }
    let position = id.parse().map_err(|_| {
        Problem::invalid("`Last-Event-ID` is the id of the last event that was read, a number")
    })?;
    Ok(Some(position))
}

/// Whether a reader wants a stream.
pub(crate) fn wants_stream(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter();
    accepts
        .filter_map(|accept| accept.to_str().ok())
        .any(|accept| accept.contains("text/event-stream"))
}

/// Counts a stream as long as it is open.
struct Open(Arc<Metrics>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.streaming(-1);
    }
}

/// A response of these events, which ends when they do or the server stops.
pub(crate) fn respond(
    state: &Shared,
    events: impl Stream<Item = Event> + Send + 'static,
) -> Response {
    state.metrics.streaming(1);
    let open = Open(state.metrics.clone());
    let events = events
        .take_until(state.stopping.clone().cancelled_owned())
        .map(move |event| {
            let _ = &open;
            Ok::<_, Infallible>(event)
        });
    let heartbeat = KeepAlive::new().interval(state.limits.heartbeat);
    let mut response = Sse::new(events).keep_alive(heartbeat).into_response();
    // Proxies that gather a response would hold events back.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    response
        .headers_mut()
        .insert(unbuffered, HeaderValue::from_static("no"));
    response
}
