//! Answers from the results of tools.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    question::{MadeCall, Part, sentences},
    routing::{self, Kind},
};
use crate::retrieval::{bm25::Bm25Index, terms::content_terms};

/// The longest result that is repeated whole, in characters.
const SHORT_RESULT_CHARS: usize = 300;
/// The most sentences that are taken from a long one.
const MAX_SENTENCES: usize = 3;
/// How much the words of the heading above a sentence count beside its own.
const HEADING_WEIGHT: f64 = 0.5;
/// How much each passage counts beside the one before it: a search gives the best first.
const NEXT_PASSAGE: f64 = 0.8;

/// What one call says about one part of the task.
pub(super) fn from_result(part: &Part, made: &MadeCall) -> Option<String> {
    let text = made.success()?.text.trim();
    if text.is_empty() {
        return Some(format!("{} gave an empty result.", made.call.name));
    }
    if routing::kind(&made.call.name) != Kind::Tool {
        // Another agent has answered in words of its own.
        return Some(text.to_owned());
    }
    if is_value(text) {
        return Some(value(part, made, text));
    }
    if let Some(text) = json(text) {
        return Some(format!("{}: {text}", made.call.name));
    }
    match text.chars().count() <= SHORT_RESULT_CHARS && !is_headed(text) {
        true => Some(text.to_owned()),
        false => extract(&part.text, text),
    }
}

/// What went wrong with a call.
pub(super) fn from_failure(made: &MadeCall) -> String {
    let name = &made.call.name;
    match &made.result {
        Some(result) => format!("{name} did not work: {}", result.text.trim()),
        None => format!("{name} gave no result."),
    }
}

/// Whether a result is one number or word.
fn is_value(text: &str) -> bool {
    let text = text.trim_start_matches(['≈', ' ']);
    text.chars().count() <= 60
        && text.split_whitespace().count() == 1
        && !text.starts_with(['{', '['])
}

fn value(part: &Part, made: &MadeCall, text: &str) -> String {
    let arguments = made.call.arguments.value().ok();
    let expression = part.arithmetic.as_deref().filter(|expression| {
        let mut values = arguments
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(|o| o.values());
        values.any(|value| value == expression)
    });
    match expression {
        Some(expression) if text.starts_with('≈') => format!("{expression} {text}"),
        Some(expression) => format!("{expression} = {text}"),
        None => format!("{}: {text}", made.call.name),
    }
}

/// JSON in one line that people can read: the fields of a flat object, anything else as it is.
fn json(text: &str) -> Option<String> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    match serde_json::from_str::<Value>(text).ok()? {
        Value::Object(fields) => {
            let plain = |value: &Value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let fields = fields
                .iter()
                .map(|(name, value)| format!("{name} {}", plain(value)));
            Some(fields.collect::<Vec<_>>().join(", "))
        }
        other => Some(other.to_string()),
    }
}

/// A passage of a search result: its source and its text.
struct Passage<'a> {
    source: Option<&'a str>,
    text: String,
}

/// Whether a result consists of passages with a line `[1] source` above each.
fn is_headed(text: &str) -> bool {
    text.lines().any(|line| source(line).is_some())
}

fn source(line: &str) -> Option<&str> {
    let (number, source) = line.strip_prefix('[')?.split_once("] ")?;
    number.parse::<u32>().ok().map(|_| source.trim())
}

fn passages(text: &str) -> Vec<Passage<'_>> {
    let mut passages = vec![Passage {
        source: None,
        text: String::new(),
    }];
    for line in text.lines() {
        if let Some(source) = source(line) {
            passages.push(Passage {
                source: Some(source),
                text: String::new(),
            });
        } else if let Some(passage) = passages.last_mut() {
            passage.text.push_str(line);
            passage.text.push('\n');
        }
    }
    passages.retain(|passage| !passage.text.trim().is_empty());
    passages
}

/// The sentences of a long text that fit a question best, in the text's order, with where they
/// stand. Nothing, where no sentence has a word of it.
pub(super) fn extract(question: &str, text: &str) -> Option<String> {
    let passages = passages(text);
    let mut pool: Vec<(usize, String)> = Vec::new();
    for (place, passage) in passages.iter().enumerate() {
        let text = unwrapped(&passage.text);
        pool.extend(sentences(&text).into_iter().map(|s| (place, s.to_owned())));
    }
    let index = Bm25Index::new(pool.iter().map(|(_, sentence)| sentence));
    let headings = Bm25Index::new(passages.iter().map(|p| p.source.unwrap_or_default()));
    let mut heading_scores = vec![0.0; passages.len()];
    for hit in headings.search(question, passages.len()) {
        heading_scores[hit.document] = hit.score * HEADING_WEIGHT;
    }
    let mut scores = vec![0.0; pool.len()];
    for hit in index.search(question, pool.len()) {
        scores[hit.document] = hit.score;
    }
    let mut ranked: Vec<(f64, usize)> = Vec::new();
    for (at, (place, _)) in pool.iter().enumerate() {
        let rank = NEXT_PASSAGE.powi(i32::try_from(*place).unwrap_or(i32::MAX));
        let score = (scores[at] + heading_scores[*place]) * rank;
        if score > 0.0 {
            ranked.push((score, at));
        }
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let best = ranked.first()?.0;
    // What fits far worse than the best is noise.
    let chosen = ranked
        .iter()
        .filter(|(score, _)| *score * 2.0 >= best)
        .take(MAX_SENTENCES);
    let mut chosen: Vec<usize> = chosen.map(|(_, at)| *at).collect();
    chosen.sort_unstable();
    let said: Vec<&str> = chosen.iter().map(|at| pool[*at].1.as_str()).collect();
    let places: BTreeSet<usize> = chosen.iter().map(|at| pool[*at].0).collect();
    let sources: Vec<&str> = places
        .iter()
        .filter_map(|place| passages[*place].source)
        .collect();
    Some(match sources.is_empty() {
        true => said.join(" "),
        false => format!("{} ({})", said.join(" "), sources.join("; ")),
    })
}

/// A text whose sentences are no longer broken into lines. Paragraphs, lists, code and tables
/// keep their lines.
fn unwrapped(text: &str) -> String {
    let mut unwrapped = String::new();
    let mut flows = false;
    for line in text.lines() {
        let line = line.trim();
        let is_item = line.starts_with(['-', '*', '|', '#', '>', '`'])
            || line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(". ");
        if flows && !is_item && !line.is_empty() {
            unwrapped.push(' ');
        } else if !unwrapped.is_empty() {
            unwrapped.push('\n');
        }
        unwrapped.push_str(line.strip_prefix("- ").unwrap_or(line));
        flows = !line.is_empty() && !line.starts_with(['|', '#', '`']);
    }
    unwrapped
}

/// How many of a part's words stand in a text, as a share from 0 to 1.
pub(super) fn overlap(part: &Part, text: &str) -> f64 {
    let wanted: BTreeSet<String> = content_terms(&part.text).into_iter().collect();
    let there: BTreeSet<String> = content_terms(text).into_iter().collect();
    wanted.intersection(&there).count() as f64 / wanted.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentences_that_fit_are_taken_with_their_source() {
        let text = "[1] runs.md > Resuming\nStart the program\nagain. Open runs go on from what \
                    was recorded after a crash. Coffee is good.\n\n[2] other.md > Other\n\
                    Elephants run fast.";
        let answer = extract("How do I resume a run after a crash?", text).unwrap_or_default();
        assert!(
            answer.contains("Open runs go on from what was recorded after a crash."),
            "{answer}"
        );
        assert!(
            answer.contains("runs.md > Resuming") && !answer.contains("Coffee is"),
            "{answer}"
        );
        assert_eq!(extract("What do whales eat?", text), None);
    }

    #[test]
    fn lines_of_a_sentence_are_joined_and_lists_are_not() {
        let text = "One\nsentence.\n\n- a\n- b\nof b\n```\ncode\n```";
        assert_eq!(
            unwrapped(text),
            "One sentence.\n\na\nb of b\n```\ncode\n```"
        );
    }
}
