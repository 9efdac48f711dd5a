//! The events of a stream.

use std::{pin::Pin, time::Duration};

use futures_util::{Stream, StreamExt as _};
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
        events: EventReader,
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
            events: EventReader::default(),
        }
    }

    /// The next event; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<StreamResponse>, ClientError> {
        match self {
            Self::Events {
                pieces,
                binding,
                events,
            } => loop {
                if let Some(data) = events.next() {
                    return told(&data, *binding).map(Some);
                }
                match in_time(pieces.next()).await? {
                    Some(piece) => events.add(&piece?)?,
                    None => return Ok(None),
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
    let value: Value = serde_json::from_str(data).map_err(malformed)?;
    let value = match binding {
        Binding::JsonRpc => result_of(value)?,
        _ => match refusal(&value) {
            Some(refused) => return Err(refused),
            None => value,
        },
    };
    serde_json::from_value(value).map_err(malformed)
}

/// A parser of server-sent events, limited to the part that the protocol needs: their data.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    /// The bytes that are not a whole line yet.
    left: Vec<u8>,
    data: String,
    ready: std::collections::VecDeque<String>,
    /// Whether the line before ended with a carriage return, to which a line feed may belong.
    after_return: bool,
}

impl EventReader {
    fn next(&mut self) -> Option<String> {
        self.ready.pop_front()
    }

    fn add(&mut self, piece: &[u8]) -> Result<(), ClientError> {
        for byte in piece {
            let is_end = match byte {
                b'\n' if std::mem::take(&mut self.after_return) => continue,
                b'\r' | b'\n' => true,
                _ => false,
            };
            self.after_return = *byte == b'\r';
            if is_end {
                self.line();
            } else {
                self.left.push(*byte);
            }
            if self.left.len() + self.data.len() > MAX_EVENT {
                return Err(ClientError::TooLarge(MAX_EVENT));
            }
        }
        Ok(())
    }

    fn line(&mut self) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.left)).into_owned();
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            // An event without data is not an event.
            if !data.is_empty() {
                self.ready.push_back(data);
            }
        } else if let Some(data) = line.strip_prefix("data:") {
            if !self.data.is_empty() {
                self.data.push('\n');
            }
            self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let mut reader = EventReader::default();
        pieces.iter().for_each(|piece| reader.add(piece).unwrap());
        std::iter::from_fn(|| reader.next()).collect()
    }

    #[test]
    fn events_are_their_data() {
        for (text, events) in [
            ("data: a\n\n", vec!["a"]),
            ("data:a\r\n\r\ndata: b\r\rdata: c\n\n", vec!["a", "b", "c"]),
            (
                "id: 7\nevent: x\ndata: a\ndata: b\n\n: ping\n\n",
                vec!["a\nb"],
            ),
            ("data: whole\n\ndata: half", vec!["whole"]),
            ("\n\n\n", vec![]),
        ] {
            assert_eq!(read(&[text.as_bytes()]), events, "{text:?}");
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut reader = EventReader::default();
        assert!(reader.add(&vec![b'x'; MAX_EVENT]).is_ok());
        assert!(matches!(reader.add(b"x"), Err(ClientError::TooLarge(_))));
    }

    proptest! {
        #[test]
        fn cut_anywhere_a_stream_is_the_same_events(
            texts in prop::collection::vec("[a-zäß ]{1,9}", 1..6),
            cut in 1_usize..7,
        ) {
            let stream: String = texts.iter().map(|text| format!("data: {text}\r\n\r\n")).collect();
            let pieces: Vec<&[u8]> = stream.as_bytes().chunks(cut).collect();
            prop_assert_eq!(read(&pieces), texts);
        }
    }
}
