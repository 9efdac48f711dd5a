//! Finds the JSON values in an answer.

use std::ops::Range;

use serde_json::Value;

use super::container::{self, Attempt};
use super::cursor::{Cursor, is_blank};
use super::markup;
use super::quoted::{self, Place, Role};
use super::reading::{JsonError, ReadOptions, Reading, Repair, RepairKind};
use super::scalar;

/// A value, and whether it was in a code fence for JSON.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) reading: Reading,
    pub(super) is_fenced: bool,
}

impl Candidate {
    /// The order of preference. First come values in a fence for JSON, which is how models mark
    /// their answer. Then longer values, because examples and citations are shorter than answers.
    /// Then later values, because models correct themselves as they go on.
    pub(super) fn preference(&self) -> (bool, usize, usize) {
        (
            self.is_fenced,
            self.reading.span.len(),
            self.reading.span.start,
        )
    }
}

/// An open code block.
struct Fence {
    content: usize,
    is_json: bool,
    /// How many values had been found when it opened.
    found_before: usize,
}

/// Finds every JSON value outside of thoughts: arrays and objects anywhere, other values only if
/// they are the whole content of a fence for JSON, or the whole answer.
pub(super) fn find(
    cursor: &mut Cursor<'_>,
    limits: &ReadOptions,
) -> Result<Vec<Candidate>, JsonError> {
    // The content of one pair of quotes is one string, whatever it contains.
    let whole = cursor.at..cursor.end();
    if cursor.peek(cursor.after_blanks(cursor.at)) == Some(b'"')
        && let Some(reading) = lone_scalar(cursor, whole)
    {
        return Ok(vec![Candidate {
            reading,
            is_fenced: false,
        }]);
    }
    cursor.at = markup::after_unopened_thought(cursor);
    let mut scan = Scan {
        cursor,
        limits,
        found: Vec::new(),
        fence: None,
        answer: 0,
        unfinished: None,
    };
    scan.answer = scan.cursor.at;
    scan.run()?;
    scan.end_fence();
    if scan.found.is_empty() && scan.unfinished.is_none() {
        let rest = scan.answer..scan.cursor.end();
        scan.found
            .extend(lone_scalar(scan.cursor, rest).map(|reading| Candidate {
                reading,
                is_fenced: false,
            }));
    }
    match scan.unfinished {
        Some(at) if scan.found.is_empty() => Err(JsonError::UnfinishedThought { at }),
        _ => Ok(scan.found),
    }
}

struct Scan<'c, 't> {
    cursor: &'c mut Cursor<'t>,
    limits: &'c ReadOptions,
    found: Vec<Candidate>,
    fence: Option<Fence>,
    /// The start of the text after the last thoughts.
    answer: usize,
    /// The start of thoughts that are not closed.
    unfinished: Option<usize>,
}

impl Scan<'_, '_> {
    fn run(&mut self) -> Result<(), JsonError> {
        while let Some(byte) = self.cursor.here() {
            let at = self.cursor.at;
            match byte {
                b'{' | b'[' => self.container()?,
                b'`' if self.cursor.is_at(at, markup::FENCE) => self.fence(),
                b'<' => self.markup(),
                _ => self.cursor.at += 1,
            }
        }
        Ok(())
    }

    fn container(&mut self) -> Result<(), JsonError> {
        let is_fenced = self.fence.as_ref().is_some_and(|fence| fence.is_json);
        match container::read(self.cursor, self.limits, self.fence.is_some())? {
            Attempt::Nothing(resume) => self.cursor.at = resume,
            Attempt::Value(reading) => {
                let limit = self.limits.max_values;
                if self.found.len() >= limit {
                    return Err(JsonError::TooManyValues {
                        at: reading.span.start,
                        limit,
                    });
                }
                self.found.push(Candidate { reading, is_fenced });
            }
        }
        Ok(())
    }

    fn markup(&mut self) {
        let at = self.cursor.at;
        let Some((name, after)) = markup::opening_thought(self.cursor, at) else {
            self.cursor.at += 1;
            return;
        };
        if let Some(end) = markup::end_of_thought(self.cursor, after, name) {
            self.cursor.at = end;
            self.answer = end;
        } else {
            self.unfinished = Some(at);
            self.cursor.at = self.cursor.end();
        }
    }

    /// Skips a fence, and the language name after an opening fence.
    fn fence(&mut self) {
        let after = self
            .cursor
            .after_run(self.cursor.at, |character| character == '`');
        if self.fence.is_some() {
            self.end_fence();
            self.cursor.at = after;
            return;
        }
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '-' | '.');
        let content = self.cursor.after_run(after, is_of_name);
        let language = self.cursor.slice(after..content).to_ascii_lowercase();
        let is_json = language.is_empty() || language.starts_with("json");
        self.fence = Some(Fence {
            content,
            is_json,
            found_before: self.found.len(),
        });
        self.cursor.at = content;
    }

    fn end_fence(&mut self) {
        let Some(fence) = self.fence.take() else {
            return;
        };
        if fence.is_json && self.found.len() == fence.found_before {
            let reading = lone_scalar(self.cursor, fence.content..self.cursor.at);
            let is_fenced = true;
            self.found
                .extend(reading.map(|reading| Candidate { reading, is_fenced }));
        }
    }
}

/// The string, number or literal that fills `range`, apart from white space.
fn lone_scalar(cursor: &Cursor<'_>, range: Range<usize>) -> Option<Reading> {
    let text = cursor.slice(0..range.end);
    let start = cursor.after_blanks(range.start).min(range.end);
    let end = start + text.get(start..)?.trim_end_matches(is_blank).len();
    cursor.count(range.len());
    let mut inside = Cursor::new(text, start..end);
    let first = inside.character(start)?;
    let mut repairs = Vec::new();
    let value = if quoted::opens(first) {
        let place = Place {
            role: Role::Root,
            arrays: 0,
            objects: 0,
            is_fenced: false,
        };
        let string = quoted::read(&mut inside, place, &mut repairs);
        // Prose can begin with a quote, too; the quotes of a value enclose all of it.
        let is_guessed = repairs
            .iter()
            .any(|repair| repair.kind == RepairKind::InnerQuote)
            || (!string.is_closed && first != '"');
        if is_guessed || inside.at != end {
            return None;
        }
        if !string.is_closed {
            repairs.push(Repair {
                kind: RepairKind::Truncated,
                span: end..end,
            });
        }
        Value::String(string.text)
    } else {
        let (value, kind) = scalar::classify(text.get(start..end)?)?;
        repairs.extend(kind.map(|kind| Repair {
            kind,
            span: start..end,
        }));
        value
    };
    Some(Reading {
        value,
        repairs,
        span: start..end,
    })
}

/// The literal or number that fills `text` and may be cut off, as in a stream.
pub(super) fn begun_word(text: &str) -> Option<Reading> {
    let word = text.trim_matches(is_blank);
    let start = text.len() - text.trim_start_matches(is_blank).len();
    let end = start + word.len();
    let (value, kind) = scalar::complete(word)?;
    let mut repairs: Vec<Repair> = kind
        .map(|kind| Repair {
            kind,
            span: start..end,
        })
        .into_iter()
        .collect();
    if kind != Some(RepairKind::ForeignLiteral) {
        repairs.push(Repair {
            kind: RepairKind::Truncated,
            span: end..end,
        });
    }
    Some(Reading {
        value,
        repairs,
        span: start..end,
    })
}
