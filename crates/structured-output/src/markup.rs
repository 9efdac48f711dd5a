//! What stands around JSON in an answer: blocks of thoughts and code fences.

use super::cursor::Cursor;

/// A line of three backticks opens and closes a block of code in Markdown.
pub(super) const FENCE: &str = "```";

/// The names of the tags between which models put their thoughts.
const THOUGHT_TAGS: [&str; 4] = ["think", "thinking", "thought", "reasoning"];

/// The tag of thoughts that opens at `index`: its name, and the index after it.
pub(super) fn opening_thought(cursor: &Cursor<'_>, index: usize) -> Option<(&'static str, usize)> {
    thought_tag(cursor, index, "<")
}

/// The tag of thoughts that closes at `index`: its name, and the index after it.
pub(super) fn closing_thought(cursor: &Cursor<'_>, index: usize) -> Option<(&'static str, usize)> {
    thought_tag(cursor, index, "</")
}

fn thought_tag(cursor: &Cursor<'_>, index: usize, open: &str) -> Option<(&'static str, usize)> {
    if !cursor.is_at(index, open) {
        return None;
    }
    let start = index + open.len();
    THOUGHT_TAGS.into_iter().find_map(|name| {
        let end = start + name.len();
        let is_named = cursor.slice(start..end).eq_ignore_ascii_case(name);
        (is_named && cursor.peek(end) == Some(b'>')).then_some((name, end + 1))
    })
}

/// The index after the tag that closes the thoughts `name`, from `index` on.
pub(super) fn end_of_thought(cursor: &Cursor<'_>, index: usize, name: &str) -> Option<usize> {
    (index..cursor.end()).find_map(|at| match cursor.peek(at) {
        Some(b'<') => closing_thought(cursor, at)
            .filter(|(n, _)| *n == name)
            .map(|(_, end)| end),
        _ => None,
    })
}

/// Where the answer begins in a text whose thoughts are closed but were never opened.
///
/// Servers whose chat template already ends in `<think>` return such texts. A closing tag in a text
/// that begins like JSON is taken for a part of it.
pub(super) fn after_unopened_thought(cursor: &Cursor<'_>) -> usize {
    let start = cursor.after_blanks(cursor.at);
    if matches!(cursor.peek(start), None | Some(b'{' | b'[' | b'"')) {
        return cursor.at;
    }
    let first_tag = (start..cursor.end()).find_map(|at| match cursor.peek(at) {
        Some(b'<') => match opening_thought(cursor, at) {
            Some(_) => Some(None),
            None => closing_thought(cursor, at).map(|(_, after)| Some(after)),
        },
        _ => None,
    });
    first_tag.flatten().unwrap_or(cursor.at)
}

/// Whether the value that is being read must have ended before `index`, because a fence or a block
/// of thoughts ends there.
pub(super) fn ends_value(cursor: &Cursor<'_>, index: usize) -> bool {
    match cursor.peek(index) {
        Some(b'`') => cursor.is_at(index, FENCE),
        Some(b'<') => closing_thought(cursor, index).is_some(),
        _ => false,
    }
}
