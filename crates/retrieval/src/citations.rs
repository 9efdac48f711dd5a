//! The citations of an answer: whether the cited sources exist, and whether they support the sentence.
//!
//! A citation is a label in brackets, such as `[k3f9]`, at the end of the text that it supports: inside of a sentence
//! or after it. A sentence is supported if enough of its terms, and every number in it, occur in the cited sources.
//! That is a check of words: it finds invented labels, numbers and names, and sentences about another subject; it does
//! not understand negation. A model can judge that in addition.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use unicode_segmentation::UnicodeSegmentation as _;

use crate::terms::content_terms;

/// The default share of a sentence's terms that must occur in its sources.
pub const DEFAULT_SUPPORT: f64 = 0.6;
/// A sentence with fewer terms makes no claim: *Here you are.*
const CLAIM_TERMS: usize = 3;
/// The longest label of a citation.
const MAX_LABEL_CHARS: usize = 40;
/// The longest citation, in bytes. Without a bound each of many open brackets would be compared with the whole text after it.
const MAX_CITATION_BYTES: usize = 400;

/// How well the cited sources support a sentence of an answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Support {
    /// The cited sources support it.
    Supported,
    /// A cited source does not support it.
    Unsupported {
        /// The share of its terms that occur in the sources.
        share: f64,
        /// Its numbers that do not occur there.
        numbers: Vec<String>,
    },
    /// It cites a source that does not exist.
    Unknown {
        /// The labels without a source.
        labels: Vec<String>,
    },
    /// It makes a claim and cites nothing.
    Uncited,
    /// It makes no claim.
    NoClaim,
}

/// A checked sentence of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedSentence {
    /// Its range in the answer, in bytes, with the citations after it.
    pub range: Range<usize>,
    /// Its text, without citations.
    pub text: String,
    /// The labels that it cites.
    pub labels: Vec<String>,
    /// The result of the check.
    pub support: Support,
}

/// Checks each sentence of an answer against the sources that it cites. `sources` has the text of each label; `support`
/// is the share of a sentence's terms that must occur in its sources, such as [`DEFAULT_SUPPORT`].
///
/// ```
/// use std::collections::BTreeMap;
/// use ghostlight_retrieval::citations::{DEFAULT_SUPPORT, Support, check};
///
/// let sources = BTreeMap::from([("a1", "Parcels are brought by noon, for 5 euros.")]);
/// let answer = "Parcels are brought by noon [a1]. They cost 7 euros a parcel. [a1]";
/// let checked = check(answer, &sources, DEFAULT_SUPPORT);
/// assert_eq!(checked[0].support, Support::Supported);
/// assert!(matches!(&checked[1].support, Support::Unsupported { numbers, .. } if *numbers == ["7"]));
/// ```
pub fn check<L: AsRef<str> + Ord, T: AsRef<str>>(
    answer: &str,
    sources: &BTreeMap<L, T>,
    support: f64,
) -> Vec<CheckedSentence> {
    let texts: BTreeMap<&str, &str> = sources
        .iter()
        .map(|(label, text)| (label.as_ref(), text.as_ref()))
        .collect();
    let sentences = sentences(answer).into_iter().map(|range| {
        let said = answer.get(range.clone()).unwrap_or_default();
        let (text, labels) = without_citations(said, |label| texts.contains_key(label));
        let support = judged(&text, &labels, &texts, support);
        CheckedSentence {
            range,
            text,
            labels,
            support,
        }
    });
    sentences
        .filter(|sentence| !(sentence.text.trim().is_empty() && sentence.labels.is_empty()))
        .collect()
}

fn judged(text: &str, labels: &[String], sources: &BTreeMap<&str, &str>, support: f64) -> Support {
    let unknown: Vec<String> = labels
        .iter()
        .filter(|label| !sources.contains_key(label.as_str()))
        .cloned()
        .collect();
    if !unknown.is_empty() {
        return Support::Unknown { labels: unknown };
    }
    let terms: BTreeSet<String> = content_terms(text).into_iter().collect();
    let is_claim = terms.len() >= CLAIM_TERMS && !text.trim_end().ends_with(['?', '？', '؟']);
    if labels.is_empty() {
        return match is_claim {
            true => Support::Uncited,
            false => Support::NoClaim,
        };
    }
    let cited = labels
        .iter()
        .filter_map(|label| sources.get(label.as_str()));
    let (mut known, mut known_numbers) = (BTreeSet::new(), BTreeSet::new());
    for source in cited {
        known.extend(content_terms(source));
        known_numbers.extend(numbers(source));
    }
    let missing: Vec<String> = numbers(text)
        .into_iter()
        .filter(|number| !known_numbers.contains(number))
        .collect();
    let share = match terms.is_empty() {
        true => 1.0,
        false => terms.intersection(&known).count() as f64 / terms.len() as f64,
    };
    match share >= support && missing.is_empty() {
        true => Support::Supported,
        false => Support::Unsupported {
            share,
            numbers: missing,
        },
    }
}

/// The ranges of a text's sentences. Citations after a sentence belong to it. An item of a list ends its sentence.
fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut sentences: Vec<Range<usize>> = Vec::new();
    for (line_start, line) in lines(text) {
        let first = sentences.len();
        for (place, sentence) in line.split_sentence_bound_indices() {
            let start = line_start + place;
            let cited = leading_citations(sentence);
            if cited > 0
                && sentences.len() > first
                && let Some(before) = sentences.last_mut()
            {
                before.end = start + cited;
            }
            if cited < sentence.len() {
                sentences.push(start + cited..start + sentence.len());
            }
        }
    }
    sentences.retain(|range| {
        text.get(range.clone())
            .is_some_and(|said| !said.trim().is_empty())
    });
    sentences
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    text.split_inclusive('\n').map(move |line| {
        let place = start;
        start += line.len();
        (place, line)
    })
}

/// How many bytes at the beginning of a text are citations, with the space around them.
fn leading_citations(text: &str) -> usize {
    let mut place = 0;
    loop {
        let rest = text.get(place..).unwrap_or_default();
        let blank = rest.len() - rest.trim_start().len();
        match citation(rest.trim_start()) {
            Some((length, _)) => place += blank + length,
            None => return place,
        }
    }
}

/// The citation at the beginning of a text: its length, and its labels, `[a]` or `[a, b]`.
fn citation(text: &str) -> Option<(usize, Vec<&str>)> {
    let inside = text.strip_prefix('[')?;
    let mut first = inside.bytes().take(MAX_CITATION_BYTES);
    let end = first.position(|byte| byte == b']')?;
    let labels: Vec<&str> = inside
        .get(..end)?
        .split([',', ';'])
        .map(str::trim)
        .collect();
    let is_label = |label: &&str| {
        (1..=MAX_LABEL_CHARS).contains(&label.chars().count())
            && label
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':'))
    };
    // `[text](address)` is a link.
    let is_link = inside.get(end + 1..)?.starts_with('(');
    (labels.iter().all(is_label) && !is_link).then_some((end + 2, labels))
}

/// A sentence without its citations, and their labels. A word in brackets that is not a known label counts as a citation
/// if it has a digit, or is after the sentence.
fn without_citations(said: &str, is_known: impl Fn(&str) -> bool) -> (String, Vec<String>) {
    let (mut text, mut labels) = (String::new(), Vec::new());
    let mut rest = said;
    while let Some(place) = rest.find('[') {
        let (before, from) = rest.split_at(place);
        text.push_str(before);
        match citation(from) {
            Some((length, found))
                if found
                    .iter()
                    .any(|label| is_known(label) || looks_like_one(label)) =>
            {
                labels.extend(found.into_iter().map(str::to_owned));
                rest = from.get(length..).unwrap_or_default();
            }
            _ => {
                text.push('[');
                rest = from.get(1..).unwrap_or_default();
            }
        }
    }
    text.push_str(rest);
    labels.dedup();
    (text.trim().to_owned(), labels)
}

fn looks_like_one(label: &str) -> bool {
    label.chars().any(|c| c.is_ascii_digit())
}

/// The numbers of a text, without the marks between thousands: `1,250.50` and `1250.5` are one.
fn numbers(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '\'' | '’');
    let words = text.split(|c: char| !is_part(c));
    let numbers = words.map(|word| word.trim_matches(|c: char| !c.is_ascii_digit()));
    numbers
        .filter(|number| !number.is_empty())
        .map(|number| {
            let (whole, fraction) = parts(number);
            let whole: String = whole.chars().filter(char::is_ascii_digit).collect();
            let fraction = fraction.trim_end_matches('0');
            match fraction.is_empty() {
                true => whole,
                false => format!("{whole}.{fraction}"),
            }
        })
        .collect()
}

/// The parts before and after the decimal mark: the last mark, unless three digits follow it.
fn parts(number: &str) -> (&str, &str) {
    let Some(mark) = number.rfind(['.', ',']) else {
        return (number, "");
    };
    let (whole, fraction) = (
        number.get(..mark).unwrap_or_default(),
        number.get(mark + 1..).unwrap_or_default(),
    );
    let is_one_group = fraction.len() == 3 && whole.len() <= 3 && !whole.starts_with('0');
    let is_one_of_several = number
        .get(mark..=mark)
        .is_some_and(|mark| whole.contains(mark));
    match is_one_group || is_one_of_several {
        true => (number, ""),
        false => (whole, fraction),
    }
}
