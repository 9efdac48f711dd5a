//! The text of a model while it is being made, as a person at a terminal reads it.
//!
//! Only the run that is followed speaks, not the runs below it: one text at a time. What was spoken whole is
//! not written once more when it is recorded or is the answer.

use std::io::{self, IsTerminal as _};

use ghostlight_actors::vocabulary::{OperationId, RunId};

use super::plain_text;

/// Where texts are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ear {
    /// The answer is read there.
    Stdout,
    /// The answer goes elsewhere, and progress is read there.
    Stderr,
}

/// What is being spoken.
#[derive(Debug)]
struct Speech {
    operation: OperationId,
    text: String,
    /// A `\r` that may be half of the end of a line.
    held: bool,
    /// Whether the cursor stands behind some of its text.
    open: bool,
}

/// Speaks the text of one run.
#[derive(Debug)]
pub(super) struct Voice {
    run: RunId,
    ear: Ear,
    speech: Option<Speech>,
    /// What was spoken to its end last.
    spoken: Option<(OperationId, String)>,
}

impl Voice {
    /// The voice of a run; `None` where nobody reads along.
    pub(super) fn of(run: RunId) -> Option<Self> {
        let ear = if io::stdout().is_terminal() {
            Ear::Stdout
        } else if io::stderr().is_terminal() {
            Ear::Stderr
        } else {
            return None;
        };
        Some(Self {
            run,
            ear,
            speech: None,
            spoken: None,
        })
    }

    /// Whether this run speaks.
    pub(super) fn is_of(&self, run: RunId) -> bool {
        self.run == run
    }

    /// Whether the cursor stands behind a text that is not at its end.
    pub(super) fn is_open(&self) -> bool {
        self.speech.as_ref().is_some_and(|speech| speech.open)
    }

    /// Speaks the next piece. `name` begins the line where a text begins or goes on behind another line.
    pub(super) fn speak(&mut self, operation: OperationId, piece: &str, name: &str) {
        let is_same = |speech: &Speech| speech.operation == operation;
        if !self.speech.as_ref().is_some_and(is_same) {
            // Blanks at its beginning are no reason to begin a line.
            if piece.trim().is_empty() {
                return;
            }
            self.pause();
            self.speech = Some(Speech {
                operation,
                text: String::new(),
                held: false,
                open: false,
            });
        }
        let Some(speech) = &mut self.speech else {
            return;
        };
        let mut piece = match std::mem::take(&mut speech.held) {
            true => format!("\r{piece}"),
            false => piece.to_owned(),
        };
        if piece.ends_with('\r') {
            piece.pop();
            speech.held = true;
        }
        if speech.text.is_empty() {
            piece = piece.trim_start().to_owned();
        }
        speech.text.push_str(&piece);
        let begins = if speech.open { "" } else { name };
        speech.open = true;
        let text = format!("{begins}{}", plain_text::plain(&piece));
        self.put(&text);
    }

    /// Ends the line, so that something else can be written.
    pub(super) fn pause(&mut self) {
        if let Some(speech) = &mut self.speech
            && std::mem::take(&mut speech.open)
        {
            self.put("\n");
        }
    }

    /// The operation begins again: what it said is void.
    pub(super) fn void(&mut self, operation: OperationId) {
        if self
            .speech
            .as_ref()
            .is_some_and(|speech| speech.operation == operation)
        {
            self.pause();
            self.speech = None;
        }
    }

    /// The operation ended with this text. `true` when all of it was spoken.
    pub(super) fn end(&mut self, operation: OperationId, text: &str) -> bool {
        let is_this = |speech: &mut Speech| speech.operation == operation;
        self.pause();
        let Some(speech) = self.speech.take_if(is_this) else {
            return false;
        };
        let whole = same(&speech.text, text);
        self.spoken = whole.then_some((operation, speech.text));
        whole
    }

    /// Whether this is what was spoken last where the answer is read.
    pub(super) fn has_answered(&self, text: &str) -> bool {
        let spoken = self.spoken.as_ref();
        self.ear == Ear::Stdout && spoken.is_some_and(|(_, spoken)| same(spoken, text))
    }

    // Where nobody can be told, the run matters more than its text.
    fn put(&self, text: &str) {
        let put = |out: &mut dyn io::Write| {
            let _ = out.write_all(text.as_bytes());
            let _ = out.flush();
        };
        match self.ear {
            Ear::Stdout => put(&mut io::stdout()),
            Ear::Stderr => put(&mut io::stderr()),
        }
    }
}

fn same(spoken: &str, text: &str) -> bool {
    spoken.trim() == text.trim()
}
