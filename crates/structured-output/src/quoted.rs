//! Strings: their ends, which have to be guessed if quotes inside are unescaped, and their content.

use std::ops::Range;

use super::cursor::Cursor;
use super::escape;
use super::markup;
use super::reading::{Repair, RepairKind};
use super::scalar;

/// The role of a string in its document. It determines what may follow the string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The key of a member.
    Key,
    /// The value of a member.
    Member,
    /// An element of an array.
    Item,
    /// The whole document.
    Root,
}

/// The place of a string.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) role: Role,
    /// How many arrays are open around it.
    pub(super) arrays: usize,
    /// How many objects are open around it.
    pub(super) objects: usize,
    /// Whether it is in a code fence, whose end also ends an unfinished string.
    pub(super) is_fenced: bool,
}

/// A string after reading.
#[derive(Debug)]
pub(super) struct Quoted {
    pub(super) text: String,
    /// Whether its closing quote was found.
    pub(super) is_closed: bool,
}

/// Whether `character` opens a string.
pub(super) fn opens(character: char) -> bool {
    closing_quotes(character).is_some()
}

fn closing_quotes(opening: char) -> Option<&'static [char]> {
    match opening {
        '"' => Some(&['"']),
        '\'' => Some(&['\'']),
        '\u{201C}' | '\u{201D}' => Some(&['\u{201D}', '\u{201C}', '"']),
        '\u{2018}' | '\u{2019}' => Some(&['\u{2019}', '\u{2018}', '\'']),
        _ => None,
    }
}

/// Reads the string that opens at the cursor, and leaves the cursor after it.
pub(super) fn read(cursor: &mut Cursor<'_>, place: Place, repairs: &mut Vec<Repair>) -> Quoted {
    let opening = cursor.character(cursor.at).unwrap_or('"');
    let bounds = Bounds::find(cursor, opening, place);
    let mut note = |kind, span| repairs.push(Repair { kind, span });
    if opening != '"' {
        note(RepairKind::ForeignQuotes, cursor.at..bounds.after);
    }
    if let Some(quote) = bounds.inner_quote.clone() {
        note(RepairKind::InnerQuote, quote);
    }
    cursor.count(bounds.content.len());
    let raw = cursor.slice(bounds.content.clone());
    let is_cut = bounds.after == cursor.end() && !bounds.is_closed;
    let text = escape::decode(raw, is_cut, |kind, span: Range<usize>| {
        let start = bounds.content.start;
        note(kind, start + span.start..start + span.end);
    });
    cursor.at = bounds.after;
    Quoted {
        text,
        is_closed: bounds.is_closed,
    }
}

/// The range of a string.
struct Bounds {
    content: Range<usize>,
    after: usize,
    is_closed: bool,
    inner_quote: Option<Range<usize>>,
}

impl Bounds {
    fn find(cursor: &Cursor<'_>, opening: char, place: Place) -> Self {
        let closing = closing_quotes(opening).unwrap_or(&['"']);
        let start = cursor.at + opening.len_utf8();
        let mut at = start;
        let mut inner_quote: Option<Range<usize>> = None;
        let mut last_quote = None;
        while let Some(character) = cursor.character(at) {
            let after = at + character.len_utf8();
            if character == '\\' {
                at = after + cursor.character(after).map_or(0, char::len_utf8);
                continue;
            }
            if closing.contains(&character) {
                if closes(cursor, after, place) {
                    return Self {
                        content: start..at,
                        after,
                        is_closed: true,
                        inner_quote,
                    };
                }
                inner_quote.get_or_insert(at..after);
                last_quote = Some(at..after);
            }
            at = after;
        }
        Self::without_end(cursor, start, inner_quote, last_quote, place)
    }

    /// No quote ends the string, so it ends at its last quote, or at the end of the fence or text.
    /// Using the last quote, rather than an earlier one, keeps the work linear: no later string can
    /// come back here.
    fn without_end(
        cursor: &Cursor<'_>,
        start: usize,
        inner_quote: Option<Range<usize>>,
        last_quote: Option<Range<usize>>,
        place: Place,
    ) -> Self {
        if let Some(quote) = last_quote {
            let inner_quote = inner_quote.filter(|inner| *inner != quote);
            return Self {
                content: start..quote.start,
                after: quote.end,
                is_closed: true,
                inner_quote,
            };
        }
        let end = cursor.end();
        cursor.count(end - start);
        let fence = cursor
            .slice(start..end)
            .rfind("\n```")
            .filter(|_| place.is_fenced);
        let after = fence.map_or(end, |offset| start + offset);
        Self {
            content: start..after,
            after,
            is_closed: false,
            inner_quote: None,
        }
    }
}

/// Whether a quote before `after` ends its string: only if the text after it can follow a string
/// there.
///
/// The look-ahead is amortised: it passes over white space and at most one further string of the
/// text, so each byte is read by a bounded number of quotes.
fn closes(cursor: &Cursor<'_>, after: usize, place: Place) -> bool {
    let next = cursor.after_blanks(after);
    let Some(character) = cursor.character(next) else {
        return true;
    };
    match (place.role, character) {
        (Role::Root, _) => false,
        (Role::Key, ':' | '=' | ',' | '}' | ']' | '{' | '[' | '-') => true,
        (Role::Key, '0'..='9') => next > after,
        (_, '/') => matches!(cursor.peek(next + 1), Some(b'/' | b'*')),
        (_, '#') => next > after,
        (_, '`' | '<') => markup::ends_value(cursor, next),
        (Role::Key, _) => opens(character),
        (_, '}') => place.objects > 0 && fits_after_bracket(cursor, next + 1, place),
        (_, ']') => place.arrays > 0 && fits_after_bracket(cursor, next + 1, place),
        (Role::Item, ',') => item_follows(cursor, next + 1, place),
        (Role::Item, '{' | '[') => true,
        (Role::Item, _) => opens(character),
        (Role::Member, ',') => member_follows(cursor, next + 1, place),
        (Role::Member, ';') => member_follows(cursor, next + 1, place),
        (Role::Member, _) => opens(character) && key_follows(cursor, next),
    }
}

fn fits_after_bracket(cursor: &Cursor<'_>, index: usize, place: Place) -> bool {
    if place.arrays + place.objects == 1 {
        return true;
    }
    match cursor.character(cursor.after_blanks(index)) {
        None | Some(',' | '}' | ']' | '{' | '[' | '/' | '#' | '`' | '<') => true,
        Some(character) => opens(character),
    }
}

fn item_follows(cursor: &Cursor<'_>, index: usize, place: Place) -> bool {
    let next = cursor.after_blanks(index);
    match cursor.character(next) {
        None | Some(']' | '{' | '[' | '0'..='9' | '-' | '/' | '#' | ',' | '…') => true,
        Some('}') => place.objects > 0,
        Some('.') => cursor.is_at(next, "..."),
        Some(character) if opens(character) => true,
        Some(_) => {
            let end = cursor.after_run(next, char::is_alphanumeric);
            let word = cursor.slice(next..end);
            scalar::classify(word).is_some()
                || (end == cursor.end() && scalar::complete(word).is_some())
        }
    }
}

fn member_follows(cursor: &Cursor<'_>, index: usize, place: Place) -> bool {
    let next = cursor.after_blanks(index);
    match cursor.character(next) {
        None | Some('}' | '/' | '#' | ',') => true,
        Some(']' | '{') => place.arrays > 0,
        Some(character) if opens(character) => key_follows(cursor, next),
        Some(_) => bare_key_follows(cursor, next),
    }
}

/// Whether the string that opens at `index` is followed by a colon, or is cut off.
pub(super) fn key_follows(cursor: &Cursor<'_>, index: usize) -> bool {
    match end_of_first_string(cursor, index) {
        None => true,
        Some(end) => matches!(cursor.character(cursor.after_blanks(end)), None | Some(':')),
    }
}

/// The index after the string that opens at `index` if its first quote closes it; `None` if the
/// text ends before.
pub(super) fn end_of_first_string(cursor: &Cursor<'_>, index: usize) -> Option<usize> {
    let opening = cursor.character(index)?;
    let closing = closing_quotes(opening)?;
    let mut at = index + opening.len_utf8();
    while let Some(character) = cursor.character(at) {
        at += character.len_utf8();
        if character == '\\' {
            at += cursor.character(at).map_or(0, char::len_utf8);
        } else if closing.contains(&character) {
            return Some(at);
        }
    }
    None
}

/// Whether an unquoted key, followed by a colon, is at `index`.
pub(super) fn bare_key_follows(cursor: &Cursor<'_>, index: usize) -> bool {
    let end = cursor.after_run(index, is_of_name);
    end > index && cursor.character(cursor.after_blanks(end)) == Some(':')
}

/// Whether `character` can be part of an unquoted key.
pub(super) fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$' | '-' | '.')
}
