//! The markup around JSON in an answer: blocks of thoughts and code fences.

use super::cursor::Cursor;

/// A line of three backticks opens and closes a block of code in Markdown.
pub(super) const FENCE: &str = "```";

/// The names of the tags around a model's thoughts.
const THOUGHT_TAGS: [&str; 4] = ["think", "thinking", "thought", "reasoning"];

/// The opening tag of thoughts at `index`: its name, and the index after it.
pub(super) fn opening_thought(cursor: &Cursor<'_>, index: usize) -> Option<(&'static str, usize)> {
    thought_tag(cursor, index, "<")
}

/// The closing tag of thoughts at `index`: its name, and the index after it.
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

/// The index after the tag that closes the thoughts `name`, searched from `index` on.
pub(super) fn end_of_thought(cursor: &Cursor<'_>, index: usize, name: &str) -> Option<usize> {
    (index..cursor.end()).find_map(|at| match cursor.peek(at) {
        Some(b'<') => closing_thought(cursor, at)
            .filter(|(n, _)| *n == name)
            .map(|(_, end)| end),
        _ => None,
    })
}

/// The start of the answer in a text whose thoughts have a closing tag and no opening tag.
///
/// Servers whose chat template already ends in `<think>` return such texts. In a text that begins
/// like JSON, a closing tag is part of the JSON.
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

/// Whether the current value must have ended before `index`, because a fence or a block of thoughts
/// ends there.
pub(super) fn ends_value(cursor: &Cursor<'_>, index: usize) -> bool {
    match cursor.peek(index) {
        Some(b'`') => cursor.is_at(index, FENCE),
        Some(b'<') => closing_thought(cursor, index).is_some(),
        _ => false,
    }
}
