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
/// How much a row of a table counts beside a sentence: it says little without its head.
const TABLE_ROW: f64 = 0.5;
/// How well a sentence must fit beside the best one.
const MIN_SHARE_OF_BEST: f64 = 0.5;
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

/// The sentences of a long text that fit a question best, with where they stand: those of the
/// passage that has the best one, in its order. Nothing, where no sentence fits.
pub(super) fn extract(question: &str, text: &str) -> Option<String> {
    let passages = passages(text);
    let headings = Bm25Index::new(passages.iter().map(|p| p.source.unwrap_or_default()));
    let mut heading_scores = vec![0.0; passages.len()];
    for hit in headings.search(question, passages.len()) {
        heading_scores[hit.document] = hit.score * HEADING_WEIGHT;
    }
    let mut pool: Vec<Sentence> = Vec::new();
    for (passage, heading_score) in heading_scores.into_iter().enumerate() {
        let unwrapped = unwrapped(&passages[passage].text);
        pool.extend(sentences(&unwrapped).into_iter().map(|sentence| Sentence {
            passage,
            text: sentence.to_owned(),
            says: false,
            score: heading_score,
        }));
    }
    let index = Bm25Index::new(pool.iter().map(|sentence| &sentence.text));
    for hit in index.search(question, pool.len()) {
        pool[hit.document].says = true;
        pool[hit.document].score += hit.score;
    }
    for sentence in &mut pool {
        let place = i32::try_from(sentence.passage).unwrap_or(i32::MAX);
        sentence.score *= NEXT_PASSAGE.powi(place);
        if sentence.text.starts_with('|') {
            sentence.score *= TABLE_ROW;
        }
    }
    quoted(&pool, &passages)
}

/// A sentence with how well it fits.
struct Sentence {
    passage: usize,
    text: String,
    /// Whether it has a word of the question itself, and not only the heading above it.
    says: bool,
    score: f64,
}

fn quoted(pool: &[Sentence], passages: &[Passage<'_>]) -> Option<String> {
    let mut ranked: Vec<usize> = (0..pool.len()).filter(|at| pool[*at].score > 0.0).collect();
    // The sort is stable: of equals the first stays first.
    ranked.sort_by(|a, b| pool[*b].score.total_cmp(&pool[*a].score));
    let best = *ranked.first()?;
    let passage = pool[best].passage;
    let fits = |at: &&usize| {
        let sentence = &pool[**at];
        let enough = sentence.score >= pool[best].score * MIN_SHARE_OF_BEST;
        sentence.passage == passage && sentence.says && enough
    };
    let mut chosen: Vec<usize> = ranked
        .iter()
        .filter(fits)
        .take(MAX_SENTENCES)
        .copied()
        .collect();
    if chosen.len() <= 1 {
        // What stands beside a sentence often says what it means.
        let beside = [Some(best), best.checked_add(1), best.checked_sub(1)]
            .into_iter()
            .flatten();
        let here = |at: &usize| pool.get(*at).is_some_and(|s| s.passage == passage);
        chosen = beside.filter(here).take(2).collect();
    }
    chosen.sort_unstable();
    let said: Vec<&str> = chosen.iter().map(|at| pool[*at].text.as_str()).collect();
    Some(match passages[passage].source {
        Some(source) => format!("{} ({})", said.join(" "), brief_source(source)),
        None => said.join(" "),
    })
}

/// The file and the nearest heading of a source such as `a.md > Guide > Runs > Resuming`.
fn brief_source(source: &str) -> String {
    match (source.split(" > ").next(), source.rsplit(" > ").next()) {
        (Some(file), Some(heading)) if file != heading => format!("{file} > {heading}"),
        _ => source.to_owned(),
    }
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
                    was recorded after a crash..\n\n[2] other.md > Other\n\
                    Elephants run fast.";
        let answer = extract("How do I resume a run after a crash?", text).unwrap_or_default();
        assert!(
            answer.contains("Open runs go on from what was recorded after a crash."),
            "{answer}"
        );
        assert!(
            answer.ends_with("(runs.md > Resuming)") && !answer.contains("Elephants"),
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
