//! The text of a model, printed for a person at a terminal while it is made.
//!
//! Only texts of the followed run are printed, not those of its child runs, so texts do not mix. A text that was printed
//! whole is not printed again when it is recorded or becomes the answer.

use std::io::{self, IsTerminal as _};

use ghostlight_actors::vocabulary::{OperationId, RunId};

use super::plain_text;

/// The stream on which texts are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// The person reads the answer there.
    Stdout,
    /// The answer goes elsewhere, and the person reads progress here.
    Stderr,
}

/// The text that is being printed.
#[derive(Debug)]
struct Printing {
    operation: OperationId,
    text: String,
    /// A `\r` that may be the first half of a line end.
    held: bool,
    /// Whether the cursor stands after a part of its text.
    open: bool,
}

/// Prints the text of one run.
#[derive(Debug)]
pub(super) struct StreamedText {
    run: RunId,
    output: Output,
    printing: Option<Printing>,
    /// The last text that was printed to its end.
    printed: Option<(OperationId, String)>,
}

impl StreamedText {
    /// The text of a run; `None` if no person reads.
    pub(super) fn of(run: RunId) -> Option<Self> {
        let output = if io::stdout().is_terminal() {
            Output::Stdout
        } else if io::stderr().is_terminal() {
            Output::Stderr
        } else {
            return None;
        };
        Some(Self {
            run,
            output,
            printing: None,
            printed: None,
        })
    }

    /// Whether this run's text is printed.
    pub(super) fn is_of(&self, run: RunId) -> bool {
        self.run == run
    }

    /// Whether the cursor stands after an unfinished text.
    pub(super) fn is_open(&self) -> bool {
        self.printing.as_ref().is_some_and(|printing| printing.open)
    }

    /// Prints the next piece. `name` begins the line if a text begins, or continues after another
    /// line.
    pub(super) fn print(&mut self, operation: OperationId, piece: &str, name: &str) {
        let is_same = |printing: &Printing| printing.operation == operation;
        if !self.printing.as_ref().is_some_and(is_same) {
            // Blanks at the beginning of a text are no reason to begin a line.
            if piece.trim().is_empty() {
                return;
            }
            self.pause();
            self.printing = Some(Printing {
                operation,
                text: String::new(),
                held: false,
                open: false,
            });
        }
        let Some(printing) = &mut self.printing else {
            return;
        };
        let mut piece = match std::mem::take(&mut printing.held) {
            true => format!("\r{piece}"),
            false => piece.to_owned(),
        };
        if piece.ends_with('\r') {
            piece.pop();
            printing.held = true;
        }
        if printing.text.is_empty() {
            piece = piece.trim_start().to_owned();
        }
        printing.text.push_str(&piece);
        let begins = if printing.open { "" } else { name };
        printing.open = true;
        let text = format!("{begins}{}", plain_text::plain(&piece));
        self.put(&text);
    }

    /// Ends the line, so that other output can follow.
    pub(super) fn pause(&mut self) {
        if let Some(printing) = &mut self.printing
            && std::mem::take(&mut printing.open)
        {
            self.put("\n");
        }
    }

    /// The operation begins again, and its text so far does not count.
    pub(super) fn discard(&mut self, operation: OperationId) {
        if self
            .printing
            .as_ref()
            .is_some_and(|printing| printing.operation == operation)
        {
            self.pause();
            self.printing = None;
        }
    }

    /// The operation ended with this text. Returns `true` when all of it was printed.
    pub(super) fn end(&mut self, operation: OperationId, text: &str) -> bool {
        let is_this = |printing: &mut Printing| printing.operation == operation;
        self.pause();
        let Some(printing) = self.printing.take_if(is_this) else {
            return false;
        };
        let whole = same(&printing.text, text);
        self.printed = whole.then_some((operation, printing.text));
        whole
    }

    /// Whether this is the last printed text, on the stream of the answer.
    pub(super) fn has_answered(&self, text: &str) -> bool {
        let printed = self.printed.as_ref();
        self.output == Output::Stdout && printed.is_some_and(|(_, printed)| same(printed, text))
    }

    // If nobody can be told, the run matters more than its text.
    fn put(&self, text: &str) {
        let put = |out: &mut dyn io::Write| {
            let _ = out.write_all(text.as_bytes());
            let _ = out.flush();
        };
        match self.output {
            Output::Stdout => put(&mut io::stdout()),
            Output::Stderr => put(&mut io::stderr()),
        }
    }
}

fn same(printed: &str, text: &str) -> bool {
    printed.trim() == text.trim()
}
