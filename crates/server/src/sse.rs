//! Event streams over HTTP (server-sent events).

use std::{convert::Infallible, fmt, str::FromStr, sync::Arc};

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{
        IntoResponse as _, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use futures_util::{Stream, StreamExt as _};
use ghostlight_actors::vocabulary::EventRecord;

use crate::{metrics::Metrics, problem::Problem, server::Shared};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The place of a recorded event: its entry's position in the store's order of commits, and its number among the events
/// of that entry. As text it is the position, followed by a dot and the number unless it is the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) position: u64,
    pub(crate) part: u32,
}

impl Place {
    /// The place of an event; `None` for a preview.
    pub(crate) fn of(record: &EventRecord) -> Option<Self> {
        let part = record.part;
        record.position.map(|position| Self { position, part })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            0 => write!(f, "{}", self.position),
            part => write!(f, "{}.{part}", self.position),
        }
    }
}

impl FromStr for Place {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let (position, part) = text.split_once('.').unwrap_or((text, "0"));
        match (position.parse(), part.parse()) {
            (Ok(position), Ok(part)) => Ok(Self { position, part }),
            _ => Err(Problem::invalid(
                "the id of an event is its position, such as 17, or 17.1 for the second event of that position",
            )),
        }
    }
}

/// The event behind which a reader resumes.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Result<Option<Place>, Problem> {
    let Some(id) = headers.get(LAST_EVENT_ID) else {
        return Ok(None);
    };
    let id = id.to_str().ok().map(str::trim).unwrap_or("?");
    // A reader without any event yet sends an empty id.
    if id.is_empty() {
        return Ok(None);
    }
    id.parse().map(Some)
}

/// Whether a client asks for a stream.
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

/// The items of a stream until the server stops. It is counted as long as it is open.
pub(crate) fn counted<S: Stream + Send + 'static>(
    state: &Shared,
    items: S,
) -> impl Stream<Item = S::Item> + Send + use<S> {
    state.metrics.streaming(1);
    let open = Open(state.metrics.clone());
    items
        .take_until(state.stopping.clone().cancelled_owned())
        .map(move |item| {
            let _ = &open;
            item
        })
}

/// A response with these events, which ends with them or when the server stops.
pub(crate) fn respond(
    state: &Shared,
    events: impl Stream<Item = Event> + Send + 'static,
) -> Response {
    let events = counted(state, events).map(Ok::<_, Infallible>);
    let heartbeat = KeepAlive::new().interval(state.limits.heartbeat);
    let mut response = Sse::new(events).keep_alive(heartbeat).into_response();
    // Proxies that buffer a response would delay its events.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    response
        .headers_mut()
        .insert(unbuffered, HeaderValue::from_static("no"));
    response
}
