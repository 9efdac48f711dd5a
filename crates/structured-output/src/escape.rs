//! The meaning of backslashes in a string, even if its writer did not escape them for JSON.

use std::ops::Range;

use super::reading::RepairKind;

/// An escape, by the text after its backslash.
#[derive(Debug, PartialEq, Eq)]
enum Escape {
    /// A character, and its length in the text in bytes, including the backslash.
    Character(char, usize),
    /// A control character from `\b`, `\f`, `\n`, `\r` or `\t`: two bytes.
    Control(char),
    /// A quote that needs no escape in JSON, or a line continuation: tolerated, two bytes.
    Tolerated(char),
    /// Half a surrogate pair: six bytes.
    LoneSurrogate,
    /// The text ends before the escape does.
    Cut,
    /// Not an escape of JSON.
    Unknown,
}

impl Escape {
    /// Reads the escape at the start of `text`, which begins with a backslash.
    fn read(text: &str, is_cut: bool) -> Self {
        let mut rest = text.chars();
        rest.next();
        match rest.next() {
            Some(character @ ('"' | '\\' | '/')) => Self::Character(character, 2),
            Some('b') => Self::Control('\u{8}'),
            Some('f') => Self::Control('\u{C}'),
            Some('n') => Self::Control('\n'),
            Some('r') => Self::Control('\r'),
            Some('t') => Self::Control('\t'),
            Some(character @ ('\'' | '\n')) => Self::Tolerated(character),
            Some('u') => Self::unicode(text, is_cut),
            None if is_cut => Self::Cut,
            _ => Self::Unknown,
        }
    }

    fn unicode(text: &str, is_cut: bool) -> Self {
        let Some(unit) = hex_unit(text) else {
            let begun = text.len() < 6 && text.bytes().skip(2).all(|byte| byte.is_ascii_hexdigit());
            return if is_cut && begun {
                Self::Cut
            } else {
                Self::Unknown
            };
        };
        if let Some(character) = char::from_u32(unit) {
            return Self::Character(character, 6);
        }
        let second = text.get(6..).unwrap_or_default();
        let low = hex_unit(second).filter(|low| (0xDC00..0xE000).contains(low));
        match low.filter(|_| unit < 0xDC00) {
            Some(low) => {
                let scalar = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                char::from_u32(scalar).map_or(Self::LoneSurrogate, |c| Self::Character(c, 12))
            }
            None if is_cut && unit < 0xDC00 && is_begun_unit(second) => Self::Cut,
            None => Self::LoneSurrogate,
        }
    }
}

/// The value of the escape at the start of `text`: a backslash, `u`, and four hexadecimal digits.
fn hex_unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex
        .then(|| u32::from_str_radix(digits, 16).ok())
        .flatten()
}

/// Whether `text` could still become such an escape.
fn is_begun_unit(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() < 6
        && bytes.next().is_none_or(|byte| byte == b'\\')
        && bytes.next().is_none_or(|byte| byte == b'u')
        && bytes.all(|byte| byte.is_ascii_hexdigit())
}

/// Decodes the content of a string. `is_cut` says that the text ends inside the string. `note` is
/// called with each repair and its place in `raw`, at most once for each kind.
///
/// A backslash that begins no escape shows that the writer did not mean escapes at all, as in
/// `C:\path\new` or `\alpha\beta`. Such a backslash stays, and so does everything in the same word
/// that looks like a control escape, where a word ends at white space. Elsewhere in such a string
/// only `\b` and `\f` before a letter stay, because models write `\n` on purpose but hardly ever
/// those.
pub(super) fn decode(
    raw: &str,
    is_cut: bool,
    note: impl FnMut(RepairKind, Range<usize>),
) -> String {
    if !raw.bytes().any(|byte| byte == b'\\' || byte < 0x20) {
        return raw.to_owned();
    }
    let mut decoder = Decoder {
        raw,
        is_cut,
        is_careless: has_unknown_escape(raw, is_cut),
        text: String::with_capacity(raw.len()),
        noted: Vec::new(),
        note,
    };
    let mut at = 0;
    while at < raw.len() {
        at = decoder.word(at);
    }
    decoder.text
}

fn has_unknown_escape(raw: &str, is_cut: bool) -> bool {
    let mut at = 0;
    while let Some(offset) = raw.get(at..).and_then(|rest| rest.find('\\')) {
        let text = raw.get(at + offset..).unwrap_or_default();
        match Escape::read(text, is_cut) {
            Escape::Unknown => return true,
            Escape::Cut => return false,
            _ => at += offset + 2,
        }
    }
    false
}

struct Decoder<'r, N> {
    raw: &'r str,
    is_cut: bool,
    is_careless: bool,
    text: String,
    noted: Vec<RepairKind>,
    note: N,
}

impl<N: FnMut(RepairKind, Range<usize>)> Decoder<'_, N> {
    /// Decodes the word that begins at `start` and the white space after it; returns the end.
    fn word(&mut self, start: usize) -> usize {
        let rest = self.raw.get(start..).unwrap_or_default();
        let word = rest.split(char::is_whitespace).next().unwrap_or_default();
        let is_literal = self.is_careless && has_unknown_escape(word, false);
        let end = start + word.len();
        let mut at = start;
        while at < end {
            at = self.character(at, is_literal);
        }
        // An escape may have taken the white space that ended the word.
        if let Some(blank) = self
            .raw
            .get(at..)
            .and_then(|rest| rest.chars().next())
            .filter(|_| at == end)
        {
            if blank < ' ' {
                self.note(RepairKind::ControlCharacter, at..at + 1);
            }
            self.text.push(blank);
            at += blank.len_utf8();
        }
        at
    }

    /// Decodes one character or escape; returns its end.
    fn character(&mut self, at: usize, is_literal: bool) -> usize {
        let rest = self.raw.get(at..).unwrap_or_default();
        let Some(character) = rest.chars().next() else {
            return self.raw.len();
        };
        if character != '\\' {
            if character < ' ' {
                self.note(RepairKind::ControlCharacter, at..at + 1);
            }
            self.text.push(character);
            return at + character.len_utf8();
        }
        let (character, length, kind) = match Escape::read(rest, self.is_cut) {
            Escape::Character(character, length) => (character, length, None),
            Escape::Control(control) if self.is_meant(rest, is_literal) => (control, 2, None),
            Escape::Tolerated(character) => (character, 2, Some(RepairKind::InvalidEscape)),
            Escape::LoneSurrogate => ('\u{FFFD}', 6, Some(RepairKind::LoneSurrogate)),
            Escape::Control(_) | Escape::Unknown => ('\\', 1, Some(RepairKind::InvalidEscape)),
            Escape::Cut => return self.raw.len(),
        };
        if let Some(kind) = kind {
            self.note(kind, at..at + length);
        }
        self.text.push(character);
        at + length
    }

    /// Whether the text at the start of `rest` is meant as a control escape.
    fn is_meant(&self, rest: &str, is_literal: bool) -> bool {
        let bytes = rest.as_bytes();
        let is_rare = matches!(bytes.get(1), Some(b'b' | b'f'));
        let before_letter = bytes.get(2).is_some_and(u8::is_ascii_alphabetic);
        !is_literal && (!self.is_careless || !is_rare || !before_letter)
    }

    fn note(&mut self, kind: RepairKind, span: Range<usize>) {
        if !self.noted.contains(&kind) {
            self.noted.push(kind);
            (self.note)(kind, span);
        }
    }
}
