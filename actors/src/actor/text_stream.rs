//! The messages of agents, as plain text.

use std::{collections::VecDeque, fmt};

use super::{EventStream, SystemError};
use crate::vocabulary::{Delta, Event, EventRecord, OperationId, Preview, RunId, RunResult};

/// The text between two messages.
const BREAK: &str = "\n\n";

/// The messages of a run's agents, piece by piece as their models give them: see
/// [`Run::text_stream`].
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
    ready: VecDeque<TextDelta>,
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

/// A piece of an agent's message. Printed, it is its text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextDelta {
    /// The agent that says it.
    pub agent: String,
    /// The text. All pieces put together are the messages, with a blank line between any two.
    pub text: String,
    /// Whether the message begins anew with this piece: the model's attempt failed after it had
    /// said something, and what was shown of this message does not count.
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
            ready: VecDeque::new(),
        }
    }

    /// The next piece; `None` when the run has ended, in whatever way:
    /// [`Run::outcome`](super::Run::outcome) tells which.
    ///
    /// It may be dropped while it waits (in `select!`) without losing a piece.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn next(&mut self) -> Option<Result<TextDelta, SystemError>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(Ok(piece));
            }
            match self.events.next().await? {
                Ok(record) => self.take(record),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }

    fn take(&mut self, record: EventRecord) {
        if record.run != self.run {
            return;
        }
        let agent = record.agent().to_owned();
        match record.event {
            Event::Preview(Preview::ModelStarted {
                operation, attempt, ..
            }) => self.started(operation, attempt),
            Event::Preview(Preview::Delta {
                operation,
                attempt,
                delta: Delta::Text(text),
            }) => self.delta(agent, operation, attempt, text),
            Event::ModelCalled {
                operation, text, ..
            } => self.whole(agent, operation, text),
            Event::OperationFailed { operation, .. } | Event::OperationDropped { operation }
                if self.is_front(operation) =>
            {
                self.front = None;
            }
            Event::RunEnded { end, .. } => match end {
                RunResult::Continued(next) => (self.run, self.front) = (next, None),
                // The answer differs from the last message: no model gave it in these words.
                RunResult::Answered(text) if text != self.last => self.message(agent, text),
                _ => {}
            },
            _ => {}
        }
    }

    fn is_front(&self, operation: OperationId) -> bool {
        let front = self.front.as_ref();
        front.is_some_and(|front| front.operation == operation)
    }

    /// A model call begins. Answers of parallel calls are not mixed: the first is shown piece by
    /// piece, the others as soon as they are whole.
    fn started(&mut self, operation: OperationId, attempt: u32) {
        match &mut self.front {
            None => {
                self.front = Some(Shown {
                    operation,
                    attempt,
                    text: String::new(),
                    restarts: false,
                    missed: self.events.missed().previews,
                });
            }
            Some(front) if front.operation == operation => {
                front.attempt = attempt;
                front.restarts |= !std::mem::take(&mut front.text).is_empty();
                front.missed = self.events.missed().previews;
            }
            Some(_) => {}
        }
    }

    /// Shows a piece that is not recorded yet. A piece after one that was missed is left out: the
    /// whole answer brings the rest.
    fn delta(&mut self, agent: String, operation: OperationId, attempt: u32, text: String) {
        let missed = self.events.missed().previews;
        let Some(front) = &mut self.front else { return };
        let is_next = front.operation == operation && front.attempt == attempt;
        if !is_next || front.missed != missed || text.is_empty() {
            return;
        }
        let restarts = std::mem::take(&mut front.restarts);
        let begins = front.text.is_empty() && !restarts;
        front.text.push_str(&text);
        match begins {
            true => self.begin(agent, text),
            false => self.ready.push_back(TextDelta {
                agent,
                text,
                restarts,
            }),
        }
    }

    /// Shows the rest of the recorded answer, if all that was shown belongs to it.
    fn whole(&mut self, agent: String, operation: OperationId, text: String) {
        let front = self.front.take_if(|front| front.operation == operation);
        let Some(front) = front.filter(|front| front.restarts || !front.text.is_empty()) else {
            self.message(agent, text);
            return;
        };
        let rest = text.strip_prefix(&front.text);
        let restarts = front.restarts || rest.is_none();
        let rest = rest.unwrap_or(&text).to_owned();
        if restarts || !rest.is_empty() {
            self.ready.push_back(TextDelta {
                agent,
                text: rest,
                restarts,
            });
        }
        self.last = text;
    }

    fn message(&mut self, agent: String, text: String) {
        if !text.is_empty() {
            self.last.clone_from(&text);
            self.begin(agent, text);
        }
    }

    fn begin(&mut self, agent: String, text: String) {
        let text = match std::mem::replace(&mut self.said, true) {
            true => format!("{BREAK}{text}"),
            false => text,
        };
        self.ready.push_back(TextDelta {
            agent,
            text,
            restarts: false,
        });
    }
}

impl fmt::Debug for TextStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextStream")
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}
