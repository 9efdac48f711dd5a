//! The reading of what a judge wrote.
//!
//! It is lenient about the form (fences, prose around, a word instead of JSON) and strict about the meaning: a reply
//! that could be read in two ways is not read.

use std::sync::LazyLock;

use ghostlight_safety::cut;
use ghostlight_structured_output::{Reading, RepairKind, read_all};
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::form::{Form, Given, Preference};

/// The verdict of a judge, with its reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    pub(crate) given: Given,
    pub(crate) why: String,
}

/// The keys under which a judge's JSON has its reason.
const REASONS: [&str; 6] = [
    "reason",
    "why",
    "explanation",
    "rationale",
    "reasoning",
    "justification",
];
/// The longest reply that is read, in bytes.
const MAX_BYTES: usize = 256 << 10;
/// The longest reason that is kept, in characters.
const MAX_REASON: usize = 600;

/// A verdict of a reply, with its place.
struct Candidate {
    at: usize,
    is_quoted: bool,
    verdict: Verdict,
}

/// Reads a judge's reply; `material` is what it was shown, which it may have quoted.
///
/// A verdict counts where it is the whole reply, stands in a fence or on lines of its own, or ends the reply. What is
/// quoted from the material does not count, unless it is all that was said. All verdicts that count must be the same, and
/// none that differs may follow as a quote.
///
/// # Errors
/// Why no verdict can be read, in words for people and for the judge.
pub(crate) fn read(reply: &str, form: Form, material: &str) -> Result<Verdict, String> {
    if reply.len() > MAX_BYTES {
        return Err(format!(
            "the reply has more than {MAX_BYTES} bytes, so it was not read"
        ));
    }
    let said = without_thoughts(reply)?;
    let said = said.trim();
    if said.is_empty() {
        return Err(String::from("the reply is empty"));
    }
    let mut found = candidates(said, form, &spaceless(material))?;
    found.sort_by_key(|candidate| candidate.at);
    let last_counted = found.iter().rposition(|candidate| !candidate.is_quoted);
    let counted = found.iter().enumerate();
    let counted = counted.filter(|(index, candidate)| {
        !candidate.is_quoted || last_counted.is_some_and(|last| *index > last)
    });
    let mut counted = counted.map(|(_, candidate)| &candidate.verdict);
    let Some(first) = counted.next().filter(|_| last_counted.is_some()) else {
        return Err(String::from("the reply holds no verdict"));
    };
    match counted.find(|other| other.given != first.given) {
        Some(other) => Err(format!(
            "the reply holds two verdicts: {} and {}",
            first.given, other.given
        )),
        None => Ok(first.clone()),
    }
}

/// The reply without its thoughts.
pub(crate) fn without_thoughts(reply: &str) -> Result<String, String> {
    static THOUGHT: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?is)<(think|thinking|thought|thoughts|reasoning)>.*?</(think|thinking|thought|thoughts|reasoning)>").ok()
    });
    static BEGUN: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?i)<(think|thinking|thought|thoughts)>").ok());
    let said = match THOUGHT.as_ref() {
        Some(thought) => thought.replace_all(reply, "\n").into_owned(),
        None => reply.to_owned(),
    };
    // A template may have begun the thought before the reply.
    let said = match said.rfind("</think>") {
        Some(end) => said[end + "</think>".len()..].to_owned(),
        None => said,
    };
    if BEGUN.as_ref().is_some_and(|begun| begun.is_match(&said)) {
        return Err(String::from("the reply ends within a thought"));
    }
    Ok(said)
}

/// All verdicts of a reply.
fn candidates(said: &str, form: Form, material: &str) -> Result<Vec<Candidate>, String> {
    let readings = read_all(said).unwrap_or_default();
    let mut found = Vec::new();
    for reading in &readings {
        found.extend(in_object(said, reading, form, material)?);
    }
    let in_no_object = |at: &usize| {
        !readings
            .iter()
            .any(|reading| reading.value.is_object() && reading.span.contains(at))
    };
    found.extend(in_lines(said, form, material, in_no_object));
    Ok(found)
}

/// The verdict in a JSON object.
fn in_object(
    said: &str,
    reading: &Reading,
    form: Form,
    material: &str,
) -> Result<Option<Candidate>, String> {
    let Value::Object(object) = &reading.value else {
        return Ok(None);
    };
    let span = said.get(reading.span.clone()).unwrap_or_default();
    let is_all = only_markup(said, &reading.span);
    let is_quoted = !is_all && quotes(material, span);
    if !is_all && !is_quoted && !stands_apart(said, &reading.span) {
        return Ok(None);
    }
    let Some((object, value)) = find(object, form, 0) else {
        return Ok(None);
    };
    if named_twice(span, form) {
        return Err(String::from("the verdict names its field twice"));
    }
    let mut repairs = reading.repairs.iter();
    let cut_off = repairs.any(|repair| repair.kind == RepairKind::Truncated);
    // The last number of a reply that was cut off may lack digits.
    if cut_off && said.trim_end().ends_with(|c: char| c.is_ascii_digit()) {
        return Err(String::from("the verdict is cut off"));
    }
    let given = match form.given(value) {
        Err(_) if is_quoted => return Ok(None),
        given => given?,
    };
    let mut reasons = REASONS.iter().filter_map(|key| member(object, key));
    let why = reasons.next().map(text_of).unwrap_or_default();
    Ok(Some(Candidate {
        at: reading.span.start,
        is_quoted,
        verdict: Verdict {
            given,
            why: shortened(&why),
        },
    }))
}

/// The member of this name, whatever its case.
fn member<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let mut members = object.iter();
    members
        .find(|(key, _)| key.trim().eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

/// The verdict's value in an object, or in an object within it, with the object that holds it.
fn find(
    object: &Map<String, Value>,
    form: Form,
    depth: usize,
) -> Option<(&Map<String, Value>, &Value)> {
    let own = form.keys().iter().find_map(|key| member(object, key));
    match own {
        Some(Value::Object(_)) | None if depth < 3 => {
            let mut inner = object.values().filter_map(Value::as_object);
            inner.find_map(|object| find(object, form, depth + 1))
        }
        Some(value) => Some((object, value)),
        None => None,
    }
}

/// Whether a text of JSON has one of the verdict's keys more than once.
fn named_twice(span: &str, form: Form) -> bool {
    let lower = span.to_lowercase();
    let times = form.keys().iter().map(|key| {
        let quoted = [format!("\"{key}\""), format!("'{key}'")];
        let keys = quoted
            .iter()
            .flat_map(|quoted| lower.match_indices(quoted.as_str()));
        keys.filter(|(start, found)| lower[start + found.len()..].trim_start().starts_with(':'))
            .count()
    });
    times.sum::<usize>() > 1
}

/// Whether nothing but marks stands around a value.
fn only_markup(said: &str, span: &std::ops::Range<usize>) -> bool {
    let around = [said.get(..span.start), said.get(span.end..)];
    around.into_iter().flatten().all(|text| {
        let text = text.to_lowercase().replace("json", "");
        !text.contains(char::is_alphanumeric)
    })
}

/// Whether a value stands on lines of its own, as within a fence, or ends the reply.
fn stands_apart(said: &str, span: &std::ops::Range<usize>) -> bool {
    let before = said.get(..span.start).unwrap_or_default();
    let after = said.get(span.end..).unwrap_or_default();
    let line_before = before.rsplit('\n').next().unwrap_or_default();
    let line_after = after.split('\n').next().unwrap_or_default();
    let bare = |text: &str| !text.contains(char::is_alphanumeric);
    let begins = bare(line_before) || label().is_some_and(|label| label.is_match(line_before));
    (begins && bare(line_after)) || bare(after)
}

/// The words that introduce a verdict on its line.
fn label() -> Option<&'static Regex> {
    static LABEL: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)^\W*(?:my |the )?(?:final |overall )?(?:verdict|judg(?:e)?ment|evaluation|answer|output|result|json)(?: is)?\W*$").ok()
    });
    LABEL.as_ref()
}

/// The verdicts on lines of their own.
fn in_lines(
    said: &str,
    form: Form,
    material: &str,
    is_read: impl Fn(&usize) -> bool,
) -> Vec<Candidate> {
    let is_all = said.lines().count() == 1;
    let (mut found, mut next) = (Vec::new(), 0);
    for line in said.split_inclusive('\n') {
        let at = next;
        next += line.len();
        let labelled = form.labelled();
        let captures = labelled.and_then(|labelled| labelled.captures(line.trim_end()));
        let captures = match (captures, is_all, form.alone()) {
            (None, true, Some(alone)) => alone.captures(line),
            (captures, ..) => captures,
        };
        let value = captures.and_then(|captures| captures.name("value"));
        let Some(value) = value.filter(|_| is_read(&at)) else {
            continue;
        };
        if let Ok(given) = form.given(&Value::String(value.as_str().to_owned())) {
            let rest = said.lines().filter(|other| *other != line.trim_end());
            let why: Vec<&str> = rest
                .map(str::trim)
                .filter(|line| !line.is_empty())
                .collect();
            found.push(Candidate {
                at,
                is_quoted: !is_all && quotes(material, line),
                verdict: Verdict {
                    given,
                    why: shortened(&why.join(" ")),
                },
            });
        }
    }
    found
}

/// Whether the material holds this text, whatever its white space; `material` has none. The material is JSON, in which
/// quotes of a text are escaped.
fn quotes(material: &str, text: &str) -> bool {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '>' | '"' | '“'));
    let text = spaceless(text);
    !text.is_empty() && material.contains(&text)
}

/// A text without white space, without what escapes quotes in JSON, and in lower case.
fn spaceless(text: &str) -> String {
    let text = text
        .replace("\\n", "")
        .replace("\\t", "")
        .replace("\\u003c", "<");
    let kept = text
        .chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '\\' | '*' | '_' | '#'));
    kept.flat_map(char::to_lowercase).collect()
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn shortened(text: &str) -> String {
    cut(text.trim(), MAX_REASON).into_owned()
}

impl Form {
    /// Reads the value of a verdict.
    fn given(self, value: &Value) -> Result<Given, String> {
        match self {
            Self::Score { scale } => score(value, scale).map(Given::Score),
            Self::Preference => choice(value).map(Given::Prefers),
        }
    }

    /// A line that holds a verdict with its label.
    fn labelled(self) -> Option<&'static Regex> {
        static SCORE: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(r"(?i)^\W*(?:my |the )?(?:final |overall |total )?(?:score|rating|grade|verdict)(?:\W*[:=]\W*|\W*\s(?:is|of)\s\W*|\s*\[\[)(?P<value>-?\d+(?:\.\d+)?(?:\s*(?:/|out of)\s*\d+)?)[\W_]*$").ok()
        });
        static PREFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(r"(?i)^(?:\W*(?:my |the )?(?:final |overall )?(?:verdict|winner|preferred|preference|better|best)(?: answer| response| one)?(?:\W*[:=]\W*|\W*\sis\s\W*)|\W*\[\[)(?P<value>(?:answer |response )?(?:a|b|tie|tied|draw|equal|c))[\W_]*$").ok()
        });
        match self {
            Self::Score { .. } => SCORE.as_ref(),
            Self::Preference => PREFERENCE.as_ref(),
        }
    }

    /// A reply that is nothing but a verdict.
    fn alone(self) -> Option<&'static Regex> {
        static SCORE: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(r"(?i)^[^\w-]*(?P<value>-?\d+(?:\.\d+)?(?:\s*(?:/|out of)\s*\d+)?)[\W_]*$")
                .ok()
        });
        static PREFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(r"(?i)^[\W_]*(?P<value>(?:answer |response )?(?:a|b|tie|tied|draw|equal))(?: is better| wins)?[\W_]*$").ok()
        });
        match self {
            Self::Score { .. } => SCORE.as_ref(),
            Self::Preference => PREFERENCE.as_ref(),
        }
    }
}

fn score(value: &Value, scale: u32) -> Result<f64, String> {
    let fault = || format!("the score {value} is not one from 1 to {scale}");
    let (score, of) = match value {
        Value::Number(number) => (number.as_f64(), None),
        Value::String(text) => {
            let text = text.trim().to_lowercase().replace("out of", "/");
            match text.split_once('/') {
                Some((score, of)) => {
                    let of = of.trim().parse::<u32>().map_err(|_| fault())?;
                    (score.trim().parse().ok(), Some(of))
                }
                None => (text.parse().ok(), None),
            }
        }
        _ => (None, None),
    };
    let within = |score: &f64| (1.0..=f64::from(scale)).contains(score);
    match score.filter(within) {
        Some(score) if of.is_none_or(|of| of == scale) => Ok(score),
        _ => Err(fault()),
    }
}

fn choice(value: &Value) -> Result<Preference, String> {
    let text = text_of(value).to_lowercase();
    let text = text.trim_matches(|c: char| !c.is_alphanumeric());
    let text = text
        .strip_prefix("answer ")
        .or_else(|| text.strip_prefix("response "))
        .unwrap_or(text);
    match text.trim() {
        "a" => Ok(Preference::First),
        "b" => Ok(Preference::Second),
        "tie" | "tied" | "draw" | "equal" | "c" | "both" | "neither" => Ok(Preference::Tie),
        other => Err(format!("the preference {other:?} is none of A, B and tie")),
    }
}
