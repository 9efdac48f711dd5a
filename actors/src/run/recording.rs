//! A recorded tree of runs as plain data, and as text.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::{
    contract::{Line, StoredLine, TreeLine},
    definition::Pinned,
    vocabulary::{Digest, Entry, FORMAT, OLDEST, RunId, SessionId, Timestamp, Transcript},
};

/// All that is recorded of a root run and the runs below it, with what is needed to replay it: the
/// definitions to which they are pinned, and the session's journal before it.
///
/// As text it is a line of JSON each, the first of which says what follows and in which format.
/// Entries stand there as they stand in a store, byte for byte, so such a file can be kept beside
/// the code as a regression test: [`replay`](super::replay()) runs today's code against it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Recording {
    /// The format of the text from which it was read; this program's, where it was read from a
    /// store.
    pub format: u32,
    /// The root run.
    pub root: RunId,
    /// Its session.
    pub session: Option<SessionId>,
    /// The entries of the session's journal that make up the run's history.
    pub history: Vec<Line>,
    /// The encoded definitions, by content hash.
    pub definitions: BTreeMap<Digest, Box<str>>,
    /// The contents of the artifacts that the runs loaded, by content hash.
    pub contents: BTreeMap<Digest, Arc<[u8]>>,
    /// The entries of all runs of the tree, in the order of their commits.
    pub lines: Vec<TreeLine>,
}

/// A text that is no recording, or not one that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// A line does not read.
    #[error("line {line} of the recording cannot be read: {reason}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The fault.
        reason: String,
    },
    /// A later version wrote it.
    #[error("the recording has format {found}, this program reads up to {known}: use a newer one")]
    TooNew {
        /// Its format.
        found: u32,
        /// The latest format that is known.
        known: u32,
    },
    /// A program from before the first format that is read wrote it.
    #[error(
        "the recording has format {found}, this program reads format {oldest} and later: replay it with the program that \
         wrote it"
    )]
    TooOld {
        /// Its format.
        found: u32,
        /// The first format that is read.
        oldest: u32,
    },
    /// An entry does not read.
    #[error("entry {entry} of run {run} cannot be read: {reason}")]
    Entry {
        /// The run.
        run: RunId,
        /// The entry.
        entry: u64,
        /// The fault.
        reason: String,
    },
    /// Something that the run needs is not in it.
    #[error("the recording of run {run} lacks {what}")]
    Lacks {
        /// The run.
        run: RunId,
        /// The name of the missing thing.
        what: String,
    },
    /// The system has nothing left for a runtime, on which functions are replayed.
    #[error("there is no runtime to replay on: {reason}; try again when fewer files are open")]
    Runtime {
        /// The system's message.
        reason: String,
    },
}

impl RecordingError {
    fn too_new(found: u32) -> Self {
        let known = FORMAT;
        Self::TooNew { found, known }
    }
}

/// A line of the text of a recording.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Written {
    Recording {
        format: u32,
        root: RunId,
        session: Option<SessionId>,
    },
    Definition {
        hash: Digest,
        pinned: Box<RawValue>,
    },
    Content {
        hash: Digest,
        base64: String,
    },
    History {
        at: Timestamp,
        entry: Box<RawValue>,
    },
    Entry {
        run: RunId,
        sequence: u64,
        position: u64,
        at: Timestamp,
        entry: Box<RawValue>,
    },
}

impl Written {
    /// The first line.
    pub(crate) fn head(root: RunId, session: Option<SessionId>) -> Self {
        let format = FORMAT;
        Self::Recording {
            format,
            root,
            session,
        }
    }

    pub(crate) fn definition(hash: Digest, pinned: &str) -> Self {
        let pinned = raw(pinned);
        Self::Definition { hash, pinned }
    }

    pub(crate) fn content(hash: Digest, content: &[u8]) -> Self {
        let base64 = BASE64.encode(content);
        Self::Content { hash, base64 }
    }

    pub(crate) fn history(line: &Line) -> Self {
        let (at, entry) = (line.at, raw(&line.text));
        Self::History { at, entry }
    }

    pub(crate) fn entry(TreeLine { run, stored }: &TreeLine) -> Self {
        Self::Entry {
            run: *run,
            sequence: stored.sequence,
            position: stored.position,
            at: stored.line.at,
            entry: raw(&stored.line.text),
        }
    }

    /// The line, as JSON.
    pub(crate) fn json(&self) -> String {
        // Plain data with text keys, so encoding cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Recording {
    /// The format of journals and of this text that this program writes. It changes when an entry
    /// that an older program wrote would be read differently.
    pub const FORMAT: u32 = FORMAT;

    /// A recording of nothing yet.
    pub fn new(root: RunId) -> Self {
        Self {
            format: FORMAT,
            root,
            session: None,
            history: Vec::new(),
            definitions: BTreeMap::new(),
            contents: BTreeMap::new(),
            lines: Vec::new(),
        }
    }

    /// The runs of the tree, in the order in which they began.
    pub fn runs(&self) -> Vec<RunId> {
        let first = |line: &&TreeLine| line.stored.sequence == 0;
        self.lines
            .iter()
            .filter(first)
            .map(|line| line.run)
            .collect()
    }

    /// The journal of one of the runs.
    pub fn journal(&self, run: RunId) -> Vec<StoredLine> {
        let of_run = self.lines.iter().filter(|line| line.run == run);
        of_run.map(|line| line.stored.clone()).collect()
    }

    /// Whether every run of the tree has ended.
    pub fn has_ended(&self) -> bool {
        let ends = |run: RunId| {
            let last = self.lines.iter().rfind(|line| line.run == run);
            last.is_some_and(|line| line.stored.line.text.starts_with("{\"run_ended\""))
        };
        self.runs().into_iter().all(ends)
    }

    /// The conversation of the session before the run.
    ///
    /// # Errors
    /// When an entry of the history does not read.
    pub fn transcript(&self) -> Result<Transcript, RecordingError> {
        // The runs of the turns that count: a turn that a rewind took back may end later.
        let (mut transcript, mut turns) = (Transcript::new(), Vec::new());
        for (number, line) in self.history.iter().enumerate() {
            let entry = line.decode().map_err(|error| RecordingError::Lacks {
                run: self.root,
                what: format!("a history that reads (its entry {number}: {error})"),
            })?;
            match entry {
                Entry::TurnStarted(turn) => turns.push(turn.run),
                Entry::TurnContinued { run, next, .. } => {
                    if let Some(turn) = turns.iter_mut().rfind(|turn| **turn == run) {
                        *turn = next;
                    }
                }
                Entry::TurnEnded(end) if turns.iter().rev().any(|turn| *turn == end.run) => {
                    transcript.extend(end.messages);
                }
                Entry::SessionRewound {
                    turns: kept,
                    messages,
                    ..
                } => {
                    let all = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
                    turns.truncate(all(kept));
                    transcript = transcript.truncated(all(messages));
                }
                _ => {}
            }
        }
        Ok(transcript)
    }

    /// The definition of this hash.
    ///
    /// # Errors
    /// When it is not there or does not read.
    pub fn pinned(&self, run: RunId, definition: Digest) -> Result<Pinned, RecordingError> {
        let lacks = |what: String| RecordingError::Lacks { run, what };
        let text = self.definitions.get(&definition);
        let text = text.ok_or_else(|| lacks(format!("the definition {definition}")))?;
        Pinned::decode(text.as_bytes())
            .map_err(|error| lacks(format!("a definition that reads ({error})")))
    }

    /// The text: JSON lines.
    pub fn to_json_lines(&self) -> String {
        let mut text = String::new();
        let mut write = |line: Written| {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{}", line.json());
        };
        write(Written::Recording {
            format: self.format,
            root: self.root,
            session: self.session.clone(),
        });
        for (hash, pinned) in &self.definitions {
            write(Written::definition(*hash, pinned));
        }
        for (hash, content) in &self.contents {
            write(Written::content(*hash, content));
        }
        self.history
            .iter()
            .map(Written::history)
            .for_each(&mut write);
        self.lines.iter().map(Written::entry).for_each(&mut write);
        text
    }

    /// Reads the text.
    ///
    /// # Errors
    /// [`RecordingError::TooNew`], and [`RecordingError::Line`] for the first line that does not
    /// read or stands where it cannot.
    pub fn from_json_lines(text: &str) -> Result<Self, RecordingError> {
        let mut recording: Option<Self> = None;
        for (number, line) in text.lines().enumerate() {
            let wrong = |reason: String| RecordingError::Line {
                line: number + 1,
                reason,
            };
            if line.trim().is_empty() {
                continue;
            }
            let written = serde_json::from_str(line).map_err(|error| {
                // A later format may have fields that this program does not know.
                let head: Value = serde_json::from_str(line).unwrap_or_default();
                let format = head["recording"]["format"].as_u64();
                let format = format.and_then(|format| u32::try_from(format).ok());
                let later = format.filter(|format| *format > Self::FORMAT);
                later.map_or_else(|| wrong(error.to_string()), RecordingError::too_new)
            })?;
            match (&mut recording, written) {
                (
                    None,
                    Written::Recording {
                        format,
                        root,
                        session,
                    },
                ) => {
                    if format > Self::FORMAT {
                        return Err(RecordingError::too_new(format));
                    }
                    if format < OLDEST {
                        return Err(RecordingError::TooOld {
                            found: format,
                            oldest: OLDEST,
                        });
                    }
                    let empty = Self::new(root);
                    recording = Some(Self {
                        format,
                        session,
                        ..empty
                    });
                }
                (None, _) => return Err(wrong("the text does not begin as a recording".into())),
                (Some(_), Written::Recording { .. }) => {
                    return Err(wrong("a second recording begins; keep one a file".into()));
                }
                (Some(recording), written) => recording.add(written).map_err(wrong)?,
            }
        }
        recording.ok_or(RecordingError::Line {
            line: 1,
            reason: "the text is empty".to_owned(),
        })
    }

    fn add(&mut self, written: Written) -> Result<(), String> {
        match written {
            Written::Recording { .. } => {}
            Written::Definition { hash, pinned } => {
                self.definitions.insert(hash, pinned.get().into());
            }
            Written::Content { hash, base64 } => {
                let content = BASE64.decode(base64).map_err(|error| error.to_string())?;
                if Digest::of(&content) != hash {
                    return Err(format!("the content is not that of {hash}"));
                }
                self.contents.insert(hash, content.into());
            }
            Written::History { at, entry } => self.history.push(Line {
                at,
                text: entry.get().into(),
            }),
            Written::Entry {
                run,
                sequence,
                position,
                at,
                entry,
            } => {
                let text = entry.get().into();
                let line = Line { at, text };
                let stored = StoredLine {
                    sequence,
                    position,
                    line,
                };
                self.lines.push(TreeLine { run, stored });
            }
        }
        Ok(())
    }
}

/// Decodes an entry of a run.
pub(crate) fn decode(run: RunId, stored: &StoredLine) -> Result<Entry, RecordingError> {
    stored.line.decode().map_err(|error| RecordingError::Entry {
        run,
        entry: stored.sequence,
        reason: error.to_string(),
    })
}

/// Text that was read as JSON before, as it is.
fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
