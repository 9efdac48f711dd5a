//! The messages of agents, as plain text.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::stream::Stream;

use super::{EventStream, SystemError};
use crate::vocabulary::{Delta, Event, EventRecord, OperationId, Preview, RunId, RunResult};

/// The text between two messages.
const BREAK: &str = "\n\n";

/// The messages of a run's agents, piece by piece as their models give them: see
/// [`Run::text_stream`]. It is a [`Stream`], for the adapters of `futures` and `tokio-stream`;
/// [`next`](Self::next) needs none of them.
///
/// [`Run::text_stream`]: super::Run::text_stream
pub struct TextStream {
    events: EventStream,
    run: RunId,
    /// The model call whose answer is being shown.
    front: Option<Shown>,
    /// Whether a message was shown before.
    said: bool,
    /// The last whole message.
    last: String,
}

/// The part of a model's answer that was shown.
#[derive(Debug)]
struct Shown {
    operation: OperationId,
    attempt: u32,
    text: String,
    /// Whether an earlier attempt was shown, which does not count.
    restarts: bool,
    /// How many previews the stream had missed when the attempt began.
    missed: u64,
}

/// A text, and whether the message begins anew with it.
type Piece = (String, bool);

/// A piece of an agent's message. Printed, it is its text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextDelta {
    /// The agent that says it.
    pub agent: String,
    /// The text. All pieces put together are the messages, with a blank line between any two.
    pub text: String,
    /// Whether the message begins anew with this piece: the model's attempt failed after it had
    /// said something, and what was shown of this message does not count. The blank line before the
    /// message still does.
    pub restarts: bool,
}

impl fmt::Display for TextDelta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TextStream {
    pub(super) fn new(run: RunId, events: EventStream) -> Self {
        Self {
            events,
            run,
            front: None,
            said: false,
            last: String::new(),
        }
    }

    /// The next piece; `None` when the run has ended, in whatever way:
    /// [`Run::outcome`](super::Run::outcome) tells which.
    ///
    /// It may be dropped while it waits (in `select!`) without losing a piece.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn next(&mut self) -> Option<Result<TextDelta, SystemError>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    fn take(&mut self, record: EventRecord) -> Option<TextDelta> {
        if record.run == self.events.top() && record.run != self.run {
            // Another run took the turn.
            (self.run, self.front) = (record.run, None);
        }
        if record.run != self.run {
            return None;
        }
        let agent = record.agent().to_owned();
        let piece = match record.event {
            Event::Preview(Preview::ModelStarted {
                operation, attempt, ..
            }) => self.started(operation, attempt),
            Event::Preview(Preview::Delta {
                operation,
                attempt,
                delta: Delta::Text(text),
            }) => self.delta(operation, attempt, text),
            Event::ModelCalled {
                operation, text, ..
            } => self.whole(operation, text),
            Event::OperationFailed { operation, .. } | Event::OperationDropped { operation } => {
                self.front.take_if(|front| front.operation == operation);
                None
            }
            Event::RunEnded { end, .. } => match end {
                RunResult::Continued(next) => {
                    (self.run, self.front) = (next, None);
                    None
                }
                // The answer differs from the last message: no model gave it in these words.
                RunResult::Answered(text) if text != self.last => self.message(text),
                _ => None,
            },
            _ => None,
        };
        let (text, restarts) = piece?;
        Some(TextDelta {
            agent,
            text,
            restarts,
        })
    }

    /// A model call begins. Answers of parallel calls are not mixed: the first is shown piece by
    /// piece, the others as soon as they are whole.
    fn started(&mut self, operation: OperationId, attempt: u32) -> Option<Piece> {
        let missed = self.events.missed().previews;
        let front = self.front.get_or_insert_with(|| Shown {
            operation,
            attempt,
            text: String::new(),
            restarts: false,
            missed,
        });
        if front.operation == operation {
            (front.attempt, front.missed) = (attempt, missed);
            front.restarts |= !std::mem::take(&mut front.text).is_empty();
        }
        None
    }

    /// Shows a piece that is not recorded yet. A piece after one that was missed is left out: the
    /// whole answer brings the rest.
    fn delta(&mut self, operation: OperationId, attempt: u32, text: String) -> Option<Piece> {
        let missed = self.events.missed().previews;
        let front = self.front.as_mut()?;
        let is_next = front.operation == operation && front.attempt == attempt;
        if !is_next || front.missed != missed || text.is_empty() {
            return None;
        }
        let restarts = std::mem::take(&mut front.restarts);
        let begins = front.text.is_empty() && !restarts;
        front.text.push_str(&text);
        Some(match begins {
            true => self.begin(text),
            false => (text, restarts),
        })
    }

    /// Shows the rest of the recorded answer, if all that was shown belongs to it.
    fn whole(&mut self, operation: OperationId, text: String) -> Option<Piece> {
        let front = self.front.take_if(|front| front.operation == operation);
        let Some(front) = front.filter(|front| front.restarts || !front.text.is_empty()) else {
            return self.message(text);
        };
        let rest = text.strip_prefix(&front.text);
        let restarts = front.restarts || rest.is_none();
        let rest = rest.unwrap_or(&text).to_owned();
        self.last = text;
        (restarts || !rest.is_empty()).then_some((rest, restarts))
    }

    fn message(&mut self, text: String) -> Option<Piece> {
        if text.is_empty() {
            return None;
        }
        self.last.clone_from(&text);
        Some(self.begin(text))
    }

    fn begin(&mut self, text: String) -> Piece {
        let text = match std::mem::replace(&mut self.said, true) {
            true => format!("{BREAK}{text}"),
            false => text,
        };
        (text, false)
    }
}

impl Stream for TextStream {
    type Item = Result<TextDelta, SystemError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = self.get_mut();
        loop {
            let Some(record) = ready!(Pin::new(&mut stream.events).poll_next(cx)) else {
                return Poll::Ready(None);
            };
            match record.map(|record| stream.take(record)) {
                Ok(Some(piece)) => return Poll::Ready(Some(Ok(piece))),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
    }
}

opaque!(TextStream { run });
