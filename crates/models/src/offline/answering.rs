//! Answers from the results of tools.

use ghostlight_actors::definition::DELEGATE_PREFIX;

use super::turn::{MadeCall, Question};
use ghostlight_retrieval::bm25::Bm25Index;

/// The longest result that is repeated whole, in characters.
const SHORT_RESULT_CHARS: usize = 300;
/// How many sentences of a longer result are repeated.
const SENTENCES: usize = 3;
/// The weight of each passage relative to the one before it: a search returns the best first.
const NEXT_PASSAGE: f64 = 0.8;

/// The answer to a question from the result of a call, or what went wrong with the call.
pub(super) fn from_call(question: &Question, made: &MadeCall) -> Result<String, String> {
    let name = &made.call.name;
    let Some(success) = made.success() else {
        let told = made
            .result
            .as_ref()
            .map_or("no result", |result| result.text.trim());
        return Err(format!("{name} did not work: {told}"));
    };
    let text = success.text.trim();
    if text.is_empty() {
        return Ok(format!("{name} gave an empty result."));
    }
    // The result is the answer of another agent, in its own words.
    if name.starts_with(DELEGATE_PREFIX) {
        return Ok(text.to_owned());
    }
    if text.split_whitespace().count() == 1 && text.len() <= SHORT_RESULT_CHARS {
        let arguments = made.call.arguments.text();
        let expression = question.arithmetic.as_ref();
        return Ok(
            match expression.filter(|of| arguments.contains(of.as_str())) {
                Some(expression) => format!("{expression} = {text}"),
                None => format!("{name}: {text}"),
            },
        );
    }
    if text.chars().count() <= SHORT_RESULT_CHARS && !text.lines().any(|l| source(l).is_some()) {
        return Ok(text.to_owned());
    }
    excerpt(&question.text, text).ok_or_else(|| format!("{name} found nothing about it."))
}

/// A passage of a search result: its source, and its text without tables and code.
#[derive(Default)]
struct Passage<'a> {
    source: &'a str,
    text: String,
}

/// The source in a line such as `[1] runs.md > Resuming`, which stands above a passage.
fn source(line: &str) -> Option<&str> {
    let (label, source) = line.strip_prefix('[')?.split_once("] ")?;
    let plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| source.trim())
}

fn passages(text: &str) -> Vec<Passage<'_>> {
    let mut passages = vec![Passage::default()];
    let mut code = false;
    for line in text.lines() {
        if let Some(source) = source(line) {
            let text = String::new();
            passages.push(Passage { source, text });
            code = false;
            continue;
        }
        // Some searches mark each line of a document.
        let line = line.strip_prefix("| ").unwrap_or(line).trim();
        if line.starts_with("```") {
            code = !code;
        } else if !code
            && !line.starts_with(['#', '|'])
            && !line.ends_with('|')
            && let Some(passage) = passages.last_mut()
        {
            passage.text.push_str(line);
            passage.text.push(' ');
        }
    }
    passages
}

/// The first sentences of the passage that fits a question best, with the passage's source. `None`
/// if no passage shares a word with the question.
fn excerpt(question: &str, text: &str) -> Option<String> {
    let passages = passages(text);
    let index = Bm25Index::new(
        passages
            .iter()
            .map(|of| format!("{} {}", of.source, of.text)),
    );
    let hits = index.search(question, passages.len()).into_iter();
    let told = hits.filter(|hit| !passages[hit.document].text.trim().is_empty());
    let score = |place: usize, score: f64| {
        score * NEXT_PASSAGE.powi(i32::try_from(place).unwrap_or(i32::MAX))
    };
    let best = told.max_by(|a, b| {
        let (a, b) = (score(a.document, a.score), score(b.document, b.score));
        a.total_cmp(&b)
    })?;
    let passage = &passages[best.document];
    let text = first_sentences(passage.text.trim());
    Some(match passage.source {
        "" => text.to_owned(),
        source => format!("{text} ({})", brief_source(source)),
    })
}

fn first_sentences(text: &str) -> &str {
    let mut ends = text.match_indices(". ");
    let end = ends.nth(SENTENCES - 1);
    end.map_or(text, |(at, _)| &text[..=at])
}

/// The file and the nearest heading of a source such as `a.md > Guide > Runs > Resuming`.
fn brief_source(source: &str) -> String {
    match (source.split_once(" > "), source.rsplit_once(" > ")) {
        (Some((file, _)), Some((_, heading))) => format!("{file} > {heading}"),
        _ => source.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_passage_that_fits_is_quoted_with_its_source() {
        let text = "[1] other.md > Other\nElephants run fast.\n\n[2] runs.md > Runs > Resuming\n\
                    | state | |\n```sh\nrun\n```\nStart the program\nagain. Open runs resume after \
                    a crash. One. Two.";
        assert_eq!(
            excerpt("How do I resume a run after a crash?", text).as_deref(),
            Some(
                "Start the program again. Open runs resume after a crash. One. (runs.md > Resuming)"
            )
        );
        assert_eq!(excerpt("What do whales eat?", text), None);
        let marked = "[ab1c] runs.md > Runs (line 5)\n| Runs are\n| resumed.\n| | a | table |";
        assert_eq!(
            excerpt("resume", marked).as_deref(),
            Some("Runs are resumed. (runs.md > Runs (line 5))")
        );
    }
}
