//! The line that a person types between the turns: with editing and history or, without a terminal,
//! the lines of stdin.

use std::{
    io::{self, BufRead as _, IsTerminal as _},
    path::PathBuf,
    sync::mpsc,
    thread,
};

use rustyline::{
    Config, Context, Editor, Helper,
    completion::Completer,
    error::ReadlineError,
    highlight::Highlighter,
    hint::Hinter,
    history::FileHistory,
    validate::{ValidationContext, ValidationResult, Validator},
};
use tokio::sync::oneshot;

use super::slash::NAMES;

/// The longest accepted line of a pipe, in bytes.
const MAX_LINE: usize = 4 << 20;
/// The most lines of the history.
const HISTORY: usize = 1000;
const PROMPT: &str = "> ";

/// The result of waiting for a line.
#[derive(Debug)]
pub(super) enum Typed {
    /// A text, possibly of several lines.
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of the pipe.
    End,
    /// Reading failed.
    Failed(String),
}

/// Reads on a thread of its own, since reading a terminal cannot be interrupted.
#[derive(Debug)]
pub(super) struct Reading {
    wanted: mpsc::Sender<oneshot::Sender<Typed>>,
    /// Whether a person types at a terminal.
    pub(super) terminal: bool,
    /// The terminal's earlier settings, in case the chat ends while a line is being edited.
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl Reading {
    /// Starts the thread, which reads when asked. This file keeps the lines.
    pub(super) fn new(history: Option<PathBuf>) -> io::Result<Self> {
        let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let (wanted, wishes) = mpsc::channel::<oneshot::Sender<Typed>>();
        let read = move || {
            let mut source = Source::new(terminal, history);
            for wish in wishes {
                // The chat may have ended meanwhile.
                let _ = wish.send(source.next());
            }
        };
        thread::Builder::new()
            .name("ghostlight-chat".into())
            .spawn(read)?;
        Ok(Self {
            wanted,
            terminal,
            #[cfg(unix)]
            before: rustix::termios::tcgetattr(io::stdin()).ok(),
        })
    }

    /// Waits for the next line.
    pub(super) async fn line(&self) -> Typed {
        let (sender, line) = oneshot::channel();
        if self.wanted.send(sender).is_err() {
            return Typed::End;
        }
        line.await.unwrap_or(Typed::End)
    }

    /// Restores the terminal, even while a line is being edited.
    pub(super) fn let_go(&self) {
        #[cfg(unix)]
        if let Some(before) = &self.before {
            use rustix::termios::{OptionalActions, tcsetattr};
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

enum Source {
    Editor(Box<Editor<Multiline, FileHistory>>, Option<PathBuf>),
    Lines,
}

impl Source {
    fn new(terminal: bool, history: Option<PathBuf>) -> Self {
        let editor = terminal.then(|| editor(history.as_ref()).ok()).flatten();
        match editor {
            Some(editor) => Self::Editor(Box::new(editor), history),
            None => Self::Lines,
        }
    }

    fn next(&mut self) -> Typed {
        match self {
            Self::Editor(editor, history) => match editor.readline(PROMPT) {
                Ok(text) => {
                    // A history that cannot be written is dropped.
                    if editor.add_history_entry(text.as_str()).unwrap_or(false)
                        && let Some(path) = history
                    {
                        let _ = editor.append_history(path);
                    }
                    Typed::Text(joined(&text))
                }
                Err(ReadlineError::Interrupted) => Typed::Interrupted,
                Err(ReadlineError::Eof) => Typed::End,
                Err(error) => Typed::Failed(error.to_string()),
            },
            Self::Lines => lines(),
        }
    }
}

/// A line of a pipe, with its continuation lines.
fn lines() -> Typed {
    let mut text = String::new();
    loop {
        let mut bytes = Vec::new();
        let mut stdin = io::Read::take(io::stdin().lock(), MAX_LINE as u64 + 1);
        match stdin.read_until(b'\n', &mut bytes) {
            Ok(0) if text.is_empty() => return Typed::End,
            Ok(_) if bytes.len() > MAX_LINE || text.len() > MAX_LINE => {
                return Typed::Failed(format!("a line on stdin has more than {MAX_LINE} bytes"));
            }
            Ok(0) => return Typed::Text(joined(&text)),
            Ok(_) => {}
            Err(error) => return Typed::Failed(error.to_string()),
        }
        text.push_str(&String::from_utf8_lossy(&bytes));
        let line = text.trim_end_matches(['\n', '\r']);
        if !line.ends_with('\\') {
            return Typed::Text(joined(line));
        }
    }
}

/// A text whose lines ended with `\`, without these characters.
fn joined(text: &str) -> String {
    text.replace("\\\r\n", "\n").replace("\\\n", "\n")
}

fn editor(history: Option<&PathBuf>) -> rustyline::Result<Editor<Multiline, FileHistory>> {
    let config = Config::builder()
        .max_history_size(HISTORY)?
        .history_ignore_dups(true)?
        .history_ignore_space(true)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Multiline));
    if let Some(path) = history {
        // The file does not exist before the first line.
        let _ = editor.load_history(path);
    }
    Ok(editor)
}

/// A line that ends with `\` continues on the next one, and the names of commands are completed.
struct Multiline;

impl Helper for Multiline {}

impl Highlighter for Multiline {}

impl Hinter for Multiline {
    type Hint = String;
}

impl Validator for Multiline {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match context.input().ends_with('\\') {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

impl Completer for Multiline {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let begun = line.get(..at).unwrap_or_default();
        let fits = |name: &&&str| begun.starts_with('/') && name.starts_with(begun);
        let names = NAMES.iter().filter(fits);
        Ok((0, names.map(|name| (*name).to_owned()).collect()))
    }
}
