//! A position in the text, with a count of the bytes that were read.

use std::cell::Cell;
use std::ops::Range;

/// A position in a text. All reading goes through [`Cursor::peek`], which counts, so that tests can
/// verify linear work without measuring time.
#[derive(Debug)]
pub(super) struct Cursor<'t> {
    text: &'t str,
    pub(super) at: usize,
    end: usize,
    steps: Cell<u64>,
}

impl<'t> Cursor<'t> {
    /// A cursor over `range` of `text`, which lies on character boundaries.
    pub(super) fn new(text: &'t str, range: Range<usize>) -> Self {
        Self {
            text,
            at: range.start,
            end: range.end,
            steps: Cell::new(0),
        }
    }

    /// The byte at `index`; `None` at the end.
    pub(super) fn peek(&self, index: usize) -> Option<u8> {
        self.steps.set(self.steps.get() + 1);
        if index < self.end {
            self.text.as_bytes().get(index).copied()
        } else {
            None
        }
    }

    /// The byte at the cursor.
    pub(super) fn here(&self) -> Option<u8> {
        self.peek(self.at)
    }

    /// Whether `token` is at `index`.
    pub(super) fn is_at(&self, index: usize, token: &str) -> bool {
        token
            .bytes()
            .enumerate()
            .all(|(offset, byte)| self.peek(index + offset) == Some(byte))
    }

    /// The character that begins at `index`; the replacement character if `index` is inside a
    /// character.
    pub(super) fn character(&self, index: usize) -> Option<char> {
        match self.peek(index)? {
            byte if byte.is_ascii() => Some(char::from(byte)),
            _ => self
                .text
                .get(index..self.end)
                .map_or(Some('\u{FFFD}'), |rest| rest.chars().next()),
        }
    }

    /// The index of the first character from `index` on that is not white space.
    pub(super) fn after_blanks(&self, mut index: usize) -> usize {
        while let Some(character) = self.character(index) {
            if !is_blank(character) {
                break;
            }
            index += character.len_utf8();
        }
        index
    }

    /// The index after the run of characters from `index` on that `wanted` accepts.
    pub(super) fn after_run(&self, mut index: usize, wanted: impl Fn(char) -> bool) -> usize {
        while let Some(character) = self.character(index) {
            if !wanted(character) {
                break;
            }
            index += character.len_utf8();
        }
        index
    }

    /// The text of `range`; empty if the range is not on character boundaries.
    pub(super) fn slice(&self, range: Range<usize>) -> &'t str {
        self.text.get(range).unwrap_or_default()
    }

    /// Counts `bytes` that are read without [`Cursor::peek`].
    pub(super) fn count(&self, bytes: usize) {
        self.steps.set(self.steps.get() + bytes as u64);
    }

    /// The end of the text for this cursor.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// How many bytes were read; a byte that was read twice counts twice.
    #[cfg(test)]
    pub(super) fn steps(&self) -> u64 {
        self.steps.get()
    }
}

/// Whether a character is white space, including kinds that JSON does not allow, and zero-width
/// marks.
pub(super) fn is_blank(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{FEFF}' | '\u{200B}')
}
