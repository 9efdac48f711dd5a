//! Structured output: reading the JSON that language models write.
//!
//! A model that is asked for JSON answers with something close to it: JSON in a code fence,
//! surrounded by prose or thoughts, with Python's literals, a superfluous comma, or cut off by a
//! token limit. This module reads all of that and reports its repairs. The cost of any text, even a
//! hostile one, is linear in its length, and the parser keeps its own stack, within [`ReadOptions`].
//!
//! ```
//! use ghostlight_structured_output::{RepairKind, read};
//!
//! let answer = "Here you are:\n```json\n{'city': \"Oslo\", 'rain': True,}\n```";
//! let reading = read(answer)?;
//! assert_eq!(reading.value, serde_json::json!({"city": "Oslo", "rain": true}));
//! assert!(reading.repairs.iter().any(|repair| repair.kind == RepairKind::TrailingComma));
//! # Ok::<(), ghostlight_structured_output::JsonError>(())
//! ```
//!
//! [`read`] picks one value, [`read_all`] returns each, [`parse`] picks the one that fits a type,
//! and [`complete`] follows a stream. [`OutputSchema`] describes a valid answer: it makes the
//! strict schema that servers accept, and checks answers against it, with error messages that help
//! a model to correct them.
//!
//! # Rules
//!
//! - A text that `serde_json` reads is read by `serde_json`, unchanged, with one exception: **a
//!   number that would lose digits** (an integer beyond 64 bits, a magnitude beyond a double)
//!   becomes a string of its digits, with [`RepairKind::LongNumber`]. [`parse`] still fills a
//!   `u128` or `f64` from well-formed text.
//! - Thoughts (`<think>`, `<thinking>`, `<thought>`, `<reasoning>`) are never searched. Inside a
//!   JSON string such tags, and fences, are data. Thoughts without an opening tag end at their
//!   closing tag.
//! - A member is left out if the text ends before its value. A cut string keeps its beginning, a
//!   cut literal is completed, and a cut number keeps its digits, which may be incomplete:
//!   [`Reading::is_truncated`] reports this.
//! - A backslash that begins no escape stays, and so does anything that looks like an escape in the
//!   same word: `C:\path\new` is a path.
//! - Of equal keys the last wins, as in `serde_json`.

mod candidates;
mod container;
mod cursor;
mod escape;
mod false_start;
mod markup;
mod merging;
mod mismatch;
mod quoted;
mod reading;
mod references;
mod scalar;
mod schema;
mod strict_form;
#[cfg(test)]
mod tests;

use serde::de::DeserializeOwned;

use candidates::Candidate;
use cursor::{Cursor, is_blank};
pub use mismatch::{Mismatch, Mismatches};
pub use reading::{
    JsonError, MAX_DEPTH, MAX_REPAIRS, ParseError, ReadOptions, Reading, Repair, RepairKind,
};
pub use schema::{OutputError, OutputSchema, SchemaError};
pub use strict_form::{NotStrict, strict_form};

/// Reads the intended JSON value of `text`, within the default [`ReadOptions`].
///
/// Among several values it prefers one in a fence for JSON, then the longest, then the last. Use
/// [`read_all`] or [`parse`] to choose otherwise.
///
/// # Errors
///
/// [`JsonError`], if there is no JSON or it is beyond the limits.
pub fn read(text: &str) -> Result<Reading, JsonError> {
    read_within(text, &ReadOptions::default())
}

/// Like [`read`], with other limits.
///
/// # Errors
///
/// [`JsonError`], if there is no JSON or it is beyond the limits.
pub fn read_within(text: &str, limits: &ReadOptions) -> Result<Reading, JsonError> {
    let found = find(text, limits)?;
    let best = found
        .into_iter()
        .max_by_key(Candidate::preference)
        .ok_or(JsonError::NoValue)?;
    Ok(with_text_around(text, best.reading))
}

/// Reads every JSON value in `text`, in order, within the default [`ReadOptions`]; there is at least
/// one.
///
/// The repairs of each value do not include the text around it.
///
/// # Errors
///
/// [`JsonError`], if there is no JSON or it is beyond the limits.
pub fn read_all(text: &str) -> Result<Vec<Reading>, JsonError> {
    read_all_within(text, &ReadOptions::default())
}

/// Like [`read_all`], with other limits.
///
/// # Errors
///
/// [`JsonError`], if there is no JSON or it is beyond the limits.
pub fn read_all_within(text: &str, limits: &ReadOptions) -> Result<Vec<Reading>, JsonError> {
    let found = find(text, limits)?;
    if found.is_empty() {
        return Err(JsonError::NoValue);
    }
    Ok(found
        .into_iter()
        .map(|candidate| candidate.reading)
        .collect())
}

/// Reads `text` as a `T`: the first fitting value in [`read`]'s order of preference.
///
/// A string that itself contains JSON, as in arguments that a model has encoded twice, is tried
/// last.
///
/// # Errors
///
/// [`ParseError::Read`] if there is no JSON, [`ParseError::Shape`] if none of it fits.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ParseError> {
    let limits = ReadOptions::default();
    let mut found = find(text, &limits)?;
    found.sort_by_key(|candidate| std::cmp::Reverse(candidate.preference()));
    let mut likeliest = None;
    for candidate in &found {
        match deserialize(text, &candidate.reading) {
            Ok(wanted) => return Ok(wanted),
            Err(error) => likeliest = likeliest.or(Some(error)),
        }
    }
    let inner = found
        .iter()
        .filter_map(|candidate| candidate.reading.value.as_str());
    for reading in inner.filter_map(|inner| read_within(inner, &limits).ok()) {
        if let Ok(wanted) = T::deserialize(&reading.value) {
            return Ok(wanted);
        }
    }
    let source = likeliest.ok_or(JsonError::NoValue)?;
    Err(ParseError::Shape {
        candidates: found.len(),
        source,
    })
}

fn deserialize<T: DeserializeOwned>(text: &str, reading: &Reading) -> Result<T, serde_json::Error> {
    T::deserialize(&reading.value).or_else(|error| {
        // Only the original text still has a long number as a number.
        let is_long = |repair: &Repair| repair.kind == RepairKind::LongNumber;
        let exact = text
            .get(reading.span.clone())
            .filter(|_| reading.repairs.iter().any(is_long));
        exact
            .and_then(|exact| serde_json::from_str(exact).ok())
            .ok_or(error)
    })
}

/// Reads the first value of a text that is still being written, as far as it has arrived.
///
/// Call it repeatedly with all text so far. The result for a shorter text is a beginning of the
/// result for a longer one, except that the last number may still grow.
///
/// # Errors
///
/// [`JsonError::NoValue`] and [`JsonError::UnfinishedThought`] while no value has begun; other
/// [`JsonError`]s if the text is beyond the default [`ReadOptions`].
pub fn complete(partial_text: &str) -> Result<Reading, JsonError> {
    let limits = ReadOptions::default();
    check_length(partial_text, &limits)?;
    let word = || candidates::begun_word(partial_text);
    let begun = match strict(partial_text, &limits).or_else(word) {
        Some(reading) => Some(reading),
        None => {
            let found = tolerant(partial_text, &limits)?;
            found.into_iter().next().map(|candidate| candidate.reading)
        }
    };
    let reading = begun.ok_or(JsonError::NoValue)?;
    Ok(with_text_around(partial_text, reading))
}

/// The depth to which `serde_json` reads; deeper texts are read by our own reader.
const STRICT_DEPTH: usize = 127;

fn find(text: &str, limits: &ReadOptions) -> Result<Vec<Candidate>, JsonError> {
    check_length(text, limits)?;
    if let Some(reading) = strict(text, limits) {
        return Ok(vec![Candidate {
            reading,
            is_fenced: false,
        }]);
    }
    tolerant(text, limits)
}

fn tolerant(text: &str, limits: &ReadOptions) -> Result<Vec<Candidate>, JsonError> {
    candidates::find(&mut Cursor::new(text, 0..text.len()), limits)
}

fn check_length(text: &str, limits: &ReadOptions) -> Result<(), JsonError> {
    if text.len() > limits.max_bytes {
        return Err(JsonError::TooLong {
            bytes: text.len(),
            limit: limits.max_bytes,
        });
    }
    Ok(())
}

/// The value that `serde_json` reads, if it succeeds within the limits.
fn strict(text: &str, limits: &ReadOptions) -> Option<Reading> {
    if limits.max_depth < STRICT_DEPTH || limits.max_values == 0 || may_lose_digits(text) {
        return None;
    }
    let value = serde_json::from_str(text).ok()?;
    Some(Reading {
        value,
        repairs: Vec::new(),
        span: trimmed(text),
    })
}

/// Whether a number in `text` may have more digits than 64 bits hold; then our own reader decides.
fn may_lose_digits(text: &str) -> bool {
    let mut run = 0;
    text.bytes().any(|byte| {
        run = if byte.is_ascii_digit() { run + 1 } else { 0 };
        run >= 19
    })
}

fn trimmed(text: &str) -> std::ops::Range<usize> {
    let start = text.len() - text.trim_start_matches(is_blank).len();
    let end = text.trim_end_matches(is_blank).len();
    start.min(end)..end
}

/// Adds the repair for omitted text around the value.
fn with_text_around(text: &str, mut reading: Reading) -> Reading {
    let whole = trimmed(text);
    let kind = RepairKind::TextAround;
    if whole.start < reading.span.start {
        reading.repairs.insert(
            0,
            Repair {
                kind,
                span: whole.start..reading.span.start,
            },
        );
    }
    if reading.span.end < whole.end {
        reading.repairs.push(Repair {
            kind,
            span: reading.span.end..whole.end,
        });
    }
    reading
}
