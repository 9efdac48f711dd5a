//! Says what is wrong with settings, and where.
//!
//! Settings are read by the behavior, policy, tool or model that they are for. Its error is a text without a place, but
//! most texts name the key, or show the value.

use super::{
    document::{Content, Node, Place},
    fault::instead,
    reading::in_words,
};

/// A refusal of settings, in the terms of team files.
pub(super) struct Refusal {
    pub(super) place: Option<Place>,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

/// Finds in the entry of a team file what the code that reads its settings refused. `own` are the entry's keys that
/// are not settings.
pub(super) fn explain(entry: &Node, own: &[&str], reason: &str) -> Refusal {
    let refusal = |place, message| Refusal {
        place,
        message,
        help: None,
    };
    if let Some((key, rest)) = after("unknown field `", reason) {
        let known = rest.split('`').skip(1).step_by(2);
        return Refusal {
            help: Some(instead(key, known.chain(own.iter().copied()))),
            ..refusal(key_named(entry, key), format!("unknown key `{key}`"))
        };
    }
    if let Some((key, _)) = after("missing field `", reason) {
        return refusal(None, format!("the key `{key}` is missing"));
    }
    let mistyped = reason
        .strip_prefix("invalid type: ")
        .or_else(|| reason.strip_prefix("invalid value: "))
        .and_then(|rest| rest.rsplit_once(", expected "));
    if let Some((found, expected)) = mistyped {
        let (value, found) = found_in_words(found);
        let place = value.and_then(|value| place_of_value(entry, value));
        let message = format!("expected {}, found {found}", in_words(expected));
        return refusal(place, message);
    }
    refusal(key_told(entry, own, reason), reason.to_owned())
}

/// The text up to the next backtick, and what follows it.
fn after<'a>(beginning: &str, reason: &'a str) -> Option<(&'a str, &'a str)> {
    reason.strip_prefix(beginning)?.split_once('`')
}

/// Serde's words for what it found: the value itself if they hold it, and the words of a team file.
fn found_in_words(found: &str) -> (Option<&str>, String) {
    let text = found
        .strip_prefix("string \"")
        .and_then(|text| text.strip_suffix('"'));
    if let Some(text) = text {
        return (Some(text), format!("the text {text:?}"));
    }
    match (found.split('`').nth(1), found) {
        (Some(value), _) => (Some(value), value.to_owned()),
        (None, "map") => (None, "a mapping".to_owned()),
        (None, "sequence") => (None, "a list".to_owned()),
        (None, "null" | "unit value") => (None, "nothing".to_owned()),
        (None, other) => (None, other.to_owned()),
    }
}

/// The first key of the settings that a reason names: in backticks, or else as a word.
fn key_told(entry: &Node, own: &[&str], reason: &str) -> Option<Place> {
    let marked = reason.split('`').skip(1).step_by(2);
    let words = reason.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    marked
        .chain(words)
        .filter(|word| !own.contains(word) && !["name", "kind", "provider"].contains(word))
        .find_map(|word| key_named(entry, word))
}

fn key_named(node: &Node, name: &str) -> Option<Place> {
    match &node.content {
        Content::Mapping(entries) => {
            let here = node.entry(name).map(|(key, _)| key.place);
            here.or_else(|| entries.iter().find_map(|(_, value)| key_named(value, name)))
        }
        Content::List(items) => items.iter().find_map(|item| key_named(item, name)),
        _ => None,
    }
}

fn place_of_value(node: &Node, value: &str) -> Option<Place> {
    match &node.content {
        Content::Mapping(entries) => entries
            .iter()
            .find_map(|(_, below)| place_of_value(below, value)),
        Content::List(items) => items.iter().find_map(|item| place_of_value(item, value)),
        _ => (node.text() == Some(value)).then_some(node.place),
    }
}
