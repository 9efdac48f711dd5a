//! Brackets in prose and code that begin no JSON.

use super::cursor::{Cursor, is_blank};
use super::quoted;
use super::scalar;

/// The index at which to continue if the bracket here begins no JSON, as in `{name}` in a template
/// or `[text](link)`.
///
/// Only the first key or element is examined, and skipped brackets are not tried again, so that the
/// cost of a text full of brackets stays linear.
pub(super) fn after_false_start(cursor: &Cursor<'_>) -> Option<usize> {
    let is_object = cursor.here() == Some(b'{');
    let next = cursor.after_blanks(cursor.at + 1);
    let character = cursor.character(next)?;
    let begins = match character {
        '}' => is_object,
        '/' => matches!(cursor.peek(next + 1), Some(b'/' | b'*')),
        '#' => is_object && next > cursor.at + 1,
        _ if quoted::opens(character) => !is_object || first_key_is_sound(cursor, next),
        _ if is_object => {
            let end = cursor.after_run(next, quoted::is_of_name);
            let is_cut = end == cursor.end();
            end > next && (is_cut || quoted::bare_key_follows(cursor, next))
        }
        ']' | '{' => true,
        '[' => return after_false_nest(cursor, next),
        _ => first_word_is_sound(cursor, next),
    };
    (!begins).then_some(next.max(cursor.at + 1))
}

fn first_key_is_sound(cursor: &Cursor<'_>, index: usize) -> bool {
    quoted::end_of_first_string(cursor, index).is_none_or(|end| {
        let next = cursor.character(cursor.after_blanks(end));
        matches!(next, None | Some(':' | '=' | ',' | '}'))
    })
}

fn first_word_is_sound(cursor: &Cursor<'_>, index: usize) -> bool {
    let end = scalar::end_of_word(cursor, index);
    let word = cursor.slice(index..end);
    let is_begun = || word == "-" || scalar::complete(word).is_some();
    scalar::classify(word).is_some() || (end == cursor.end() && is_begun())
}

/// Like [`after_false_start`], for `[[`: the text after the whole run of brackets decides.
fn after_false_nest(cursor: &Cursor<'_>, index: usize) -> Option<usize> {
    let end = cursor.after_run(index, |c| c == '[' || is_blank(c));
    let begins = match cursor.character(end) {
        None | Some(']' | '{' | '/') => true,
        Some(character) => quoted::opens(character) || first_word_is_sound(cursor, end),
    };
    (!begins).then_some(end)
}
