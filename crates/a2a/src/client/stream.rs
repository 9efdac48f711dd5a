//! The events of a stream.

use std::{collections::VecDeque, pin::Pin, time::Duration};

use futures_util::{Stream, StreamExt as _};
use ghostlight_safety::{EventParser, ServerEvent};
use reqwest::Response;
use serde_json::Value;
use tonic::Streaming;

use super::{
    Binding, ClientError, channel,
    exchange::{causes, refusal, result_of},
};
use crate::protocol::StreamResponse;

/// The most bytes of one event.
const MAX_EVENT: usize = 4 << 20;
/// A stream that is silent for this long counts as lost: agents send a sign of life more often.
const SILENCE: Duration = Duration::from_secs(120);

pub(super) type Pieces = Pin<Box<dyn Stream<Item = Result<Vec<u8>, ClientError>> + Send>>;

/// An open stream.
pub(super) enum Following {
    /// Server-sent events.
    Events {
        pieces: Pieces,
        binding: Binding,
        parser: EventParser,
        ready: VecDeque<ServerEvent>,
    },
    /// Messages of gRPC.
    Messages(Streaming<Value>),
}

impl Following {
    pub(super) fn messages(stream: Streaming<Value>) -> Self {
        Self::Messages(stream)
    }

    pub(super) fn events(response: Response, binding: Binding) -> Self {
        let pieces = response.bytes_stream().map(|piece| {
            piece
                .map(|piece| piece.to_vec())
                .map_err(|error| ClientError::Lost(causes(&error)))
        });
        Self::Events {
            pieces: Box::pin(pieces),
            binding,
            parser: EventParser::default(),
            ready: VecDeque::new(),
        }
    }

    /// The next event; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<StreamResponse>, ClientError> {
        match self {
            Self::Events {
                pieces,
                binding,
                parser,
                ready,
            } => loop {
                // An event without data is not an event.
                while let Some(event) = ready.pop_front() {
                    if !event.data.is_empty() {
                        let data = String::from_utf8_lossy(&event.data);
                        return told(&data, *binding).map(Some);
                    }
                }
                match in_time(pieces.next()).await? {
                    Some(piece) => parser.push(&piece?, ready),
                    None => return Ok(None),
                }
                if parser.held() > MAX_EVENT {
                    return Err(ClientError::TooLarge(MAX_EVENT));
                }
            },
            Self::Messages(stream) => match in_time(stream.message()).await? {
                Ok(Some(told)) => serde_json::from_value(told).map(Some).map_err(malformed),
                Ok(None) => Ok(None),
                Err(status) => Err(channel::error(&status)),
            },
        }
    }
}

async fn in_time<T>(next: impl Future<Output = T>) -> Result<T, ClientError> {
    let next = tokio::time::timeout(SILENCE, next).await;
    next.map_err(|_| ClientError::Lost("its stream says nothing".to_owned()))
}

fn malformed(error: serde_json::Error) -> ClientError {
    ClientError::Malformed(error.to_string())
}

fn told(data: &str, binding: Binding) -> Result<StreamResponse, ClientError> {
    let value = ghostlight_safety::unambiguous_json(data).map_err(malformed)?;
    let value = match binding {
        Binding::JsonRpc => result_of(value)?,
        _ => match refusal(&value) {
            Some(refused) => return Err(refused),
            None => value,
        },
    };
    serde_json::from_value(value).map_err(malformed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[test]
    fn an_event_that_names_something_twice_is_none() {
        let two = r#"{"task": {"id": "a", "id": "b"}}"#;
        let error = told(two, Binding::HttpJson).unwrap_err();
        assert!(error.to_string().contains("id stands twice"), "{error}");
    }

    fn of_pieces(pieces: Vec<Vec<u8>>) -> Following {
        Following::Events {
            pieces: stream::iter(pieces.into_iter().map(Ok)).boxed(),
            binding: Binding::HttpJson,
            parser: EventParser::default(),
            ready: VecDeque::new(),
        }
    }

    #[tokio::test]
    async fn an_event_without_end_is_refused() {
        let bearable = vec![b'x'; MAX_EVENT];
        let end = of_pieces(vec![bearable.clone()]).next().await;
        assert!(matches!(end, Ok(None)));
        let refused = of_pieces(vec![bearable, vec![b'x']]).next().await;
        assert!(matches!(refused, Err(ClientError::TooLarge(_))));
    }

    #[tokio::test]
    async fn an_event_without_data_is_passed_over() {
        let task =
            r#"data: {"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}"#;
        let text = format!("data:\n\n{task}\n\n").into_bytes();
        let told = of_pieces(vec![text]).next().await.unwrap();
        assert!(told.is_some());
    }
}
