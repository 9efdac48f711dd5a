//! The text of a model, printed for a person at a terminal while it is made.
//!
//! Only the followed run speaks, not its child runs, so texts do not mix. A text that was printed
//! whole is not printed again when it is recorded or becomes the answer.

use std::io::{self, IsTerminal as _};

use ghostlight_actors::vocabulary::{OperationId, RunId};

use super::plain_text;

/// The stream on which texts are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ear {
    /// The person reads the answer there.
    Stdout,
    /// The answer goes elsewhere, and the person reads progress here.
    Stderr,
}

/// The text that is being printed.
#[derive(Debug)]
struct Speech {
    operation: OperationId,
    text: String,
    /// A `\r` that may be the first half of a line end.
    held: bool,
    /// Whether the cursor stands after a part of its text.
    open: bool,
}

/// Prints the text of one run.
#[derive(Debug)]
pub(super) struct Voice {
    run: RunId,
    ear: Ear,
    speech: Option<Speech>,
    /// The last text that was printed to its end.
    spoken: Option<(OperationId, String)>,
}

impl Voice {
    /// The voice of a run; `None` if no person reads.
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

    /// Whether the cursor stands after an unfinished text.
    pub(super) fn is_open(&self) -> bool {
        self.speech.as_ref().is_some_and(|speech| speech.open)
    }

    /// Prints the next piece. `name` begins the line if a text begins, or continues after another
    /// line.
    pub(super) fn speak(&mut self, operation: OperationId, piece: &str, name: &str) {
        let is_same = |speech: &Speech| speech.operation == operation;
        if !self.speech.as_ref().is_some_and(is_same) {
            // Blanks at the beginning of a text are no reason to begin a line.
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

    /// Ends the line, so that other output can follow.
    pub(super) fn pause(&mut self) {
        if let Some(speech) = &mut self.speech
            && std::mem::take(&mut speech.open)
        {
            self.put("\n");
        }
    }

    /// The operation begins again, and its text so far is void.
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

    /// The operation ended with this text. Returns `true` when all of it was printed.
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

    /// Whether this is the last printed text, on the stream of the answer.
    pub(super) fn has_answered(&self, text: &str) -> bool {
        let spoken = self.spoken.as_ref();
        self.ear == Ear::Stdout && spoken.is_some_and(|(_, spoken)| same(spoken, text))
    }

    // If nobody can be told, the run matters more than its text.
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
