//! The screen while a team works: lines on stderr and, on a terminal, a progress line below them.

use std::{
    collections::HashMap,
    io::{self, IsTerminal as _, Stderr, Write as _},
    time::{Duration, Instant},
};

use ghostlight_actors::vocabulary::{Delta, Event, EventRecord, OperationId, Preview, RunId};

use super::{
    plain_text,
    streamed_text::StreamedText,
    style,
    timeline::{TimelineLine, Tone},
};

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// After how long without events the waiting time is shown.
const STILL: Duration = Duration::from_millis(500);
/// How much is shown of a text that is being made.
const TAIL: usize = 60;

/// Colours and effects, as SGR codes.
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const RESET: &str = "\x1b[0m";

/// Standard error, with a progress line at its end if it is a terminal.
#[derive(Debug)]
pub(super) struct Screen {
    out: Stderr,
    terminal: bool,
    /// Whether progress is unwanted.
    quiet: bool,
    colours: bool,
    /// The width of the agents' column.
    width: usize,
    frame: usize,
    /// Whether the last line is the progress line.
    drawn: bool,
    /// Whether a person is being asked; the typed text must not be drawn over.
    asking: bool,
    acts: Vec<Act>,
    /// The display names of the agents that carry runs, which previews do not contain.
    authors: HashMap<RunId, String>,
    /// The text of the followed run, while it is made.
    streamed: Option<StreamedText>,
    /// When the last event came.
    stirred: Instant,
}

/// Something in progress.
#[derive(Debug)]
struct Act {
    run: RunId,
    operation: OperationId,
    agent: String,
    what: String,
    text: String,
    since: Instant,
}

impl Act {
    /// A description of it, with the number of other acts in progress.
    fn in_words(&self, others: usize) -> String {
        let others = match others {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let seconds = self.since.elapsed().as_secs();
        let time = match seconds {
            0 => String::new(),
            seconds => format!(" {seconds} s"),
        };
        let tail = plain_text::tail(&self.text, TAIL);
        let colon = if tail.is_empty() { "" } else { ": " };
        format!("{} {}{time}{others}{colon}{tail}", self.agent, self.what)
    }

    /// Adds to its text, of which only the end is shown.
    fn say(&mut self, text: &str) {
        self.text.push_str(text);
        if self.text.len() > 64 * TAIL {
            let cut = self.text.len() - 16 * TAIL;
            self.text.drain(..self.text.ceil_char_boundary(cut));
        }
    }
}

impl Screen {
    pub(super) fn new(width: usize) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let terminal = io::stderr().is_terminal() && !dumb;
        let style = style::chosen();
        Self {
            out: io::stderr(),
            terminal: terminal && !style.quiet,
            quiet: style.quiet,
            colours: style.colours(terminal),
            width,
            frame: 0,
            drawn: false,
            asking: false,
            acts: Vec::new(),
            authors: HashMap::new(),
            streamed: None,
            stirred: Instant::now(),
        }
    }

    /// Whether a progress line is shown, which has to be redrawn.
    pub(super) fn is_live(&self) -> bool {
        self.terminal
    }

    /// Prints the text of this run while it is made, if a person reads it.
    pub(super) fn listen_to(&mut self, run: RunId) {
        self.streamed = StreamedText::of(run).filter(|_| self.terminal || self.quiet);
    }

    /// Whether this text was already printed while it was made.
    pub(super) fn has_answered(&self, text: &str) -> bool {
        let streamed = self.streamed.as_ref();
        streamed.is_some_and(|streamed| streamed.has_answered(text))
    }

    /// Whether the event contains only text that was already printed while it was made.
    pub(super) fn has_spoken(&mut self, record: &EventRecord) -> bool {
        match (&mut self.streamed, &record.event) {
            (
                Some(streamed),
                Event::ModelCalled {
                    operation, text, ..
                },
            ) if streamed.is_of(record.run) => streamed.end(*operation, text),
            _ => false,
        }
    }

    /// Writes a line about an event.
    pub(super) fn line(&mut self, line: &TimelineLine) {
        if self.quiet && !matches!(line.tone, Tone::Question | Tone::Alarm) {
            return;
        }
        let (name, text) = line.padded(self.width);
        let colour = match line.tone {
            Tone::Plain => "",
            Tone::Quiet => DIM,
            Tone::Question => YELLOW,
            Tone::Alarm => RED,
            Tone::Good => GREEN,
        };
        let text = match (self.colours, colour) {
            (true, "") => format!("{BOLD}{name}{RESET} {text}"),
            (true, colour) => format!("{BOLD}{name}{RESET} {colour}{text}{RESET}"),
            (false, _) => format!("{name} {text}"),
        };
        self.write(&text);
    }

    /// Writes an unimportant line of the command's own, unless progress is unwanted.
    pub(super) fn remark(&mut self, text: &str) {
        if !self.quiet {
            self.note(text);
        }
    }

    /// Writes a line of the command's own.
    pub(super) fn note(&mut self, text: &str) {
        let text = plain_text::plain(text);
        let text = if self.colours {
            format!("{DIM}{text}{RESET}")
        } else {
            text.into_owned()
        };
        self.write(&text);
    }

    /// Asks a person; the cursor stays after the text.
    pub(super) fn ask(&mut self, text: &str) {
        self.clear();
        self.asking = true;
        let text = plain_text::plain(text);
        let text = if self.colours {
            format!("{YELLOW}{text}{RESET} ")
        } else {
            format!("{text} ")
        };
        self.put(&text);
    }

    /// Ends a prompt: the person answered, or an answer is no longer needed.
    pub(super) fn asked(&mut self) {
        self.asking = false;
    }

    // Nobody can be told that standard error is closed; the run matters more than its display.
    fn put(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
    }

    fn write(&mut self, text: &str) {
        self.stirred = Instant::now();
        self.clear();
        self.put(&format!("{text}\n"));
    }

    /// Removes the progress line before other output.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            self.put("\r\x1b[K");
        }
        if let Some(streamed) = &mut self.streamed {
            streamed.pause();
        }
    }

    /// Begins a new line, also after the `^C` that a terminal shows.
    pub(super) fn begin_line(&mut self) {
        self.drawn |= self.terminal;
        self.clear();
    }

    /// Draws the progress line.
    pub(super) fn draw(&mut self) {
        let speaking = self.streamed.as_ref().is_some_and(StreamedText::is_open);
        if !self.terminal || self.asking || speaking {
            return;
        }
        let text = match self.acts.last() {
            Some(act) => act.in_words(self.acts.len() - 1),
            // A step of a function, a timer or another process takes its time.
            None if self.stirred.elapsed() >= STILL => {
                format!("waits {} s", self.stirred.elapsed().as_secs())
            }
            None => return self.clear(),
        };
        let text = format!("{} {text}", FRAMES[self.frame]);
        self.frame = (self.frame + 1) % FRAMES.len();
        self.drawn = true;
        // Without wrapping, so that one line is one line however wide its characters are.
        let (dim, reset) = if self.colours { (DIM, RESET) } else { ("", "") };
        self.put(&format!("\r\x1b[K\x1b[?7l{dim}{text}{reset}\x1b[?7h"));
    }

    /// Updates from an event what is in progress.
    pub(super) fn follow(&mut self, record: &EventRecord) {
        let run = record.run;
        if record.sequence.is_some() {
            match &record.display_name {
                Some(name) => drop(self.authors.insert(run, name.clone())),
                None => drop(self.authors.remove(&run)),
            }
        }
        match &record.event {
            Event::Preview(preview) => self.preview(record, preview),
            Event::ModelCalled { operation, .. }
            | Event::OperationFailed { operation, .. }
            | Event::ToolCalled { operation, .. }
            | Event::OperationDropped { operation } => {
                let operation = *operation;
                self.acts
                    .retain(|act| (act.run, act.operation) != (run, operation));
                let is_answer = matches!(record.event, Event::ModelCalled { .. });
                if let Some(streamed) = self
                    .streamed
                    .as_mut()
                    .filter(|streamed| streamed.is_of(run))
                    && !is_answer
                {
                    streamed.discard(operation);
                }
            }
            Event::RunEnded { .. } | Event::Parked { .. } | Event::Restarted { .. } => {
                self.acts.retain(|act| act.run != run);
            }
            _ => {}
        }
    }

    fn preview(&mut self, record: &EventRecord, preview: &Preview) {
        match preview {
            Preview::ModelStarted {
                operation, model, ..
            } => {
                let what = format!("waits for model {}", plain_text::line(model, 40));
                self.discard(record.run, *operation);
                self.begin(record, *operation, what);
            }
            Preview::ToolStarted { operation, call } => {
                let what = format!("waits for {}", plain_text::line(&call.name, 40));
                self.begin(record, *operation, what);
            }
            Preview::Delta {
                operation, delta, ..
            } => {
                if let Delta::Text(text) = delta
                    && self.print(record, *operation, text)
                {
                    return;
                }
                if let (Some(act), Delta::Text(text) | Delta::Reasoning(text)) =
                    (self.act(record.run, *operation), delta)
                {
                    act.say(text);
                }
            }
            Preview::ModelRetry {
                operation, error, ..
            } => {
                let what = format!("tries again, because {}", plain_text::line(error, 80));
                self.discard(record.run, *operation);
                self.begin(record, *operation, what);
            }
            Preview::ToolProgress {
                operation,
                fraction,
                message,
            } => {
                if let Some(act) = self.act(record.run, *operation) {
                    let percent = fraction.map(|share| format!("{:.0}% ", share * 100.0));
                    act.text = format!("{}{message}", percent.unwrap_or_default());
                }
            }
            Preview::ToolOutput { operation, text } => {
                if let Some(act) = self.act(record.run, *operation) {
                    act.say(text);
                }
            }
            _ => {}
        }
    }

    /// Prints a piece of a text. Returns `false` if nobody reads it, or a person is being asked.
    fn print(&mut self, record: &EventRecord, operation: OperationId, text: &str) -> bool {
        let is_this = |streamed: &&mut StreamedText| streamed.is_of(record.run);
        if self.asking || self.streamed.as_mut().filter(is_this).is_none() {
            return false;
        }
        if std::mem::take(&mut self.drawn) {
            self.put("\r\x1b[K");
        }
        self.stirred = Instant::now();
        let agent = self.author(record);
        let width = self.width;
        let name = match self.colours {
            true => format!("{BOLD}{agent:width$}{RESET} "),
            false => format!("{agent:width$} "),
        };
        if let Some(streamed) = &mut self.streamed {
            streamed.print(operation, text, &name);
        }
        true
    }

    /// The display name of the event's agent.
    fn author(&self, record: &EventRecord) -> String {
        let known = self.authors.get(&record.run);
        plain_text::line(known.map_or(record.author(), String::as_str), 64)
    }

    /// Marks the text of this operation as void.
    fn discard(&mut self, run: RunId, operation: OperationId) {
        if let Some(streamed) = self
            .streamed
            .as_mut()
            .filter(|streamed| streamed.is_of(run))
        {
            streamed.discard(operation);
        }
    }

    fn act(&mut self, run: RunId, operation: OperationId) -> Option<&mut Act> {
        let mut acts = self.acts.iter_mut();
        acts.find(|act| (act.run, act.operation) == (run, operation))
    }

    fn begin(&mut self, record: &EventRecord, operation: OperationId, what: String) {
        let run = record.run;
        let agent = self.author(record);
        self.acts
            .retain(|act| (act.run, act.operation) != (run, operation));
        self.acts.push(Act {
            run,
            operation,
            agent,
            what,
            text: String::new(),
            since: Instant::now(),
        });
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear();
    }
}
