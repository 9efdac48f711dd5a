//! The result of reading: the value, its repairs, its place in the text, and the possible errors.

use std::ops::Range;

use serde_json::Value;

/// The deepest nesting that [`ReadOptions::max_depth`] may allow.
///
/// A [`Value`] is dropped, cloned and printed recursively, so a deeper one could overflow the stack
/// of any user, however carefully it was read.
pub const MAX_DEPTH: usize = 1_024;

/// How many repairs one [`Reading`] keeps; [`RepairKind::Truncated`] is kept in any case.
///
/// Without a bound, a text full of faults would take many times its own size in memory.
pub const MAX_REPAIRS: usize = 1_000;

/// Limits on a text; beyond them it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// The longest text, in bytes. Default: 8 MiB.
    pub max_bytes: usize,
    /// The deepest nesting of arrays and objects; at most [`MAX_DEPTH`]. Default: 128.
    pub max_depth: usize,
    /// How many separate JSON values the text may hold. Default: 65,536.
    pub max_values: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            max_bytes: 8 * 1024 * 1024,
            max_depth: 128,
            max_values: 65_536,
        }
    }
}

impl ReadOptions {
    /// Sets the longest text, in bytes.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the deepest nesting of arrays and objects.
    #[must_use]
    pub fn max_depth(mut self, depth: usize) -> Self {
        self.max_depth = depth;
        self
    }

    /// Sets how many separate JSON values the text may hold.
    #[must_use]
    pub fn max_values(mut self, values: usize) -> Self {
        self.max_values = values;
        self
    }
}

/// A JSON value found in a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The intended value.
    pub value: Value,
    /// The repairs, in the order of the text; empty for well-formed JSON.
    pub repairs: Vec<Repair>,
    /// The range of the value in the text, in bytes.
    pub span: Range<usize>,
}

impl Reading {
    /// Whether the text ended inside the value, so that its tail is missing.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.repairs
            .iter()
            .any(|repair| repair.kind == RepairKind::Truncated)
    }
}

/// One repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// The fault.
    pub kind: RepairKind,
    /// The place in the text, in bytes; empty where something was missing.
    pub span: Range<usize>,
}

/// The faults that the reader repairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RepairKind {
    /// Text before or after the value (prose, thoughts, a code fence) was left out.
    TextAround,
    /// The text ended inside the value: open levels were closed, and a key without a value was
    /// dropped.
    Truncated,
    /// A bracket was not closed although the text continued.
    MissingClose,
    /// A comma stood before a closing bracket.
    TrailingComma,
    /// Two elements or members stood side by side.
    MissingComma,
    /// A key had no colon, or another sign in its place.
    MissingColon,
    /// A key had no value; it was given `null`.
    MissingValue,
    /// Characters that fit nowhere, such as a superfluous comma, were left out.
    Skipped,
    /// A comment was left out.
    Comment,
    /// `True`, `None`, `NaN`, `undefined` and the like were read as JSON's literals.
    ForeignLiteral,
    /// A number in a form that JSON does not know, such as `+1`, `.5` or `5.`.
    ForeignNumber,
    /// A number beyond 64 bits (or beyond a double) was kept as text, so that no digit is lost.
    LongNumber,
    /// A string in single or typographic quotes.
    ForeignQuotes,
    /// A key without quotes.
    UnquotedKey,
    /// A text without quotes.
    UnquotedText,
    /// A line break or another control character stood in a string as it is.
    ControlCharacter,
    /// A string held its own quote unescaped.
    InnerQuote,
    /// A backslash that begins no JSON escape was kept or interpreted.
    InvalidEscape,
    /// Half a surrogate pair became U+FFFD.
    LoneSurrogate,
}

/// Why a text could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// Nothing in the text is a JSON value.
    #[error("no JSON value in the text: ask for an object or array and nothing else")]
    NoValue,
    /// The text ends inside a block of thoughts, and no JSON stands outside of it.
    #[error(
        "the text ends inside the thoughts that open at byte {at}, before any JSON: allow more \
         output tokens, or less thinking"
    )]
    UnfinishedThought {
        /// Where the block opens, in bytes.
        at: usize,
    },
    /// Arrays and objects are nested beyond [`ReadOptions::max_depth`].
    #[error("JSON is nested deeper than {limit} levels at byte {at}: ask for a flatter shape")]
    TooDeep {
        /// Where the first level beyond the limit opens, in bytes.
        at: usize,
        /// The limit.
        limit: usize,
    },
    /// The text is longer than [`ReadOptions::max_bytes`].
    #[error("the text has {bytes} bytes, more than the {limit} that may be read")]
    TooLong {
        /// The length of the text.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The text holds more values than [`ReadOptions::max_values`].
    #[error("the text holds more than {limit} JSON values; the next one begins at byte {at}")]
    TooManyValues {
        /// Where the first value beyond the limit begins, in bytes.
        at: usize,
        /// The limit.
        limit: usize,
    },
}

/// Why a text could not be read as the wanted type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// No JSON value could be read at all.
    #[error(transparent)]
    Read(#[from] JsonError),
    /// There is JSON, but none of it has the wanted shape.
    #[error("none of {candidates} JSON value(s) has the wanted shape; the likeliest: {source}")]
    Shape {
        /// How many values were tried.
        candidates: usize,
        /// The fault of the likeliest value.
        source: serde_json::Error,
    },
}
