//! The comparison of an answer with the expected one.

use ghostlight_safety::cut;
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Score, Scorer, ScorerFault};
use crate::{checkers::questions, recording::Recording, suite::Sample};

/// The comparison of an answer with the expected one.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AnswerSpec {
    /// Its name; `answer` where it is left out.
    pub name: Option<String>,
    /// The form in which the answer is read.
    #[serde(rename = "as")]
    pub form: AnswerForm,
    /// For `number`: by how much the answer may differ.
    pub tolerance: f64,
    /// The expected answer of samples that have none of their own.
    pub expected: Option<Value>,
    /// For `json`: the JSON Schema that the answer must fit.
    pub schema: Option<Value>,
}

/// The form in which an answer is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnswerForm {
    /// A text that is the same, but for case, white space at its ends and repeated white space.
    #[default]
    Exact,
    /// The text behind the last `final answer:`, `answer:` or `####`, or else the last line, which is the same but for
    /// case, white space, marks around it and a full stop at its end.
    Final,
    /// A text that contains the expected one, or each of a list, as whole words, whatever their case.
    Contains,
    /// A text that a regular expression matches.
    Pattern,
    /// A number. It is the only one of the answer, or the last one.
    Number,
    /// JSON, which is compared field by field: the score is the share of the expected fields that are equal.
    Json,
    /// A number, a list or a text, as GAIA's official scorer compares them. Behind `FINAL ANSWER:`, where the answer has
    /// that.
    Gaia,
    /// The final number of an answer to a question of GSM8K: behind `####`, or else the last one.
    Gsm8k,
}

pub(super) struct AnswerScorer {
    name: String,
    spec: AnswerSpec,
    schema: Option<jsonschema::Validator>,
}

impl AnswerScorer {
    pub(super) fn new(spec: &AnswerSpec) -> Result<Self, ScorerFault> {
        let name = spec.name.clone().unwrap_or_else(|| String::from("answer"));
        let fault = |reason: String| {
            let scorer = name.clone();
            Err(ScorerFault { scorer, reason })
        };
        if !spec.tolerance.is_finite() || spec.tolerance < 0.0 {
            return fault(format!(
                "`tolerance` is {}; it must be at least 0",
                spec.tolerance
            ));
        }
        if spec.tolerance > 0.0 && spec.form != AnswerForm::Number {
            return fault(String::from(
                "`tolerance` has no effect unless the answer is read `as: number`",
            ));
        }
        if spec.schema.is_some() && spec.form != AnswerForm::Json {
            return fault(String::from(
                "`schema` has no effect unless the answer is read `as: json`",
            ));
        }
        let schema = match spec
            .schema
            .as_ref()
            .map(jsonschema::validator_for)
            .transpose()
        {
            Ok(schema) => schema,
            Err(error) => return fault(format!("`schema` is not a JSON Schema: {error}")),
        };
        if let (AnswerForm::Pattern, Some(Value::String(pattern))) = (spec.form, &spec.expected)
            && let Err(error) = Regex::new(pattern)
        {
            return fault(format!("`expected` is not a regular expression: {error}"));
        }
        Ok(Self {
            name,
            spec: spec.clone(),
            schema,
        })
    }
}

impl Scorer for AnswerScorer {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, recording: &Recording, sample: &Sample) -> Score {
        let Some(answer) = recording.answer() else {
            return Score::fail("there is no answer");
        };
        let expected = sample.expected.as_ref().or(self.spec.expected.as_ref());
        match (self.spec.form, expected) {
            (AnswerForm::Json, expected) => self.json(answer, expected),
            (_, None) => Score::fail("the sample has no `expected`, and neither has the scorer"),
            (AnswerForm::Exact, Some(expected)) => exact(answer, expected),
            (AnswerForm::Final, Some(expected)) => last(answer, expected),
            (AnswerForm::Contains, Some(expected)) => contains(answer, expected),
            (AnswerForm::Pattern, Some(expected)) => pattern(answer, expected),
            (AnswerForm::Number, Some(expected)) => number(answer, expected, self.spec.tolerance),
            (AnswerForm::Gaia, Some(expected)) => gaia(answer, expected),
            (AnswerForm::Gsm8k, Some(expected)) => gsm8k(answer, expected),
        }
    }
}

impl AnswerScorer {
    fn json(&self, answer: &str, expected: Option<&Value>) -> Score {
        let found: Value = match serde_json::from_str(answer.trim()) {
            Ok(found) => found,
            Err(error) => return Score::fail(format!("the answer is not JSON: {error}")),
        };
        if let Some(error) = self
            .schema
            .as_ref()
            .and_then(|schema| schema.validate(&found).err())
        {
            let place = error.instance_path().to_string();
            return Score::fail(format!(
                "the answer does not fit the schema at {place:?}: {error}"
            ));
        }
        match (expected, &self.schema) {
            (Some(expected), _) => fields(&found, expected),
            (None, Some(_)) => Score::pass("the answer fits the schema"),
            (None, None) => Score::fail("there is neither an expected answer nor a schema"),
        }
    }
}

/// A text for comparison: lower case, with single spaces.
pub(super) fn folded(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    words.join(" ")
}

pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn exact(answer: &str, expected: &Value) -> Score {
    let expected = text_of(expected);
    match folded(answer) == folded(&expected) {
        true => Score::pass("the answer is the expected one"),
        false => Score::fail(format!("the answer is not {expected:?}")),
    }
}

fn last(answer: &str, expected: &Value) -> Score {
    let found = final_answer(answer).unwrap_or_else(|| {
        let mut lines = answer.lines().map(str::trim);
        lines.rfind(|line| !line.is_empty()).unwrap_or_default()
    });
    let plain = |text: &str| {
        let is_mark = |c: char| c.is_whitespace() || matches!(c, '*' | '_' | '`' | '"' | '$' | '.');
        folded(text.trim_matches(is_mark)).replace(',', "")
    };
    let expected = text_of(expected);
    match plain(found) == plain(&expected) {
        true => Score::pass("the final answer is the expected one"),
        false => Score::fail(format!(
            "the final answer is {:?}, and not {expected:?}",
            cut(found, 80)
        )),
    }
}

/// The rest of the line behind the last mark of a final answer.
pub(super) fn final_answer(answer: &str) -> Option<&str> {
    // Case is folded byte by byte, so that places are the same in both.
    let lower = answer.to_ascii_lowercase();
    let marks = ["answer:", "answer is:", "####"];
    let ends = marks
        .iter()
        .filter_map(|mark| Some(lower.rfind(mark)? + mark.len()));
    let rest = answer.get(ends.max()?..)?;
    let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '*');
    Some(rest.lines().next().unwrap_or_default().trim())
}

fn contains(answer: &str, expected: &Value) -> Score {
    let wanted: Vec<String> = match expected {
        Value::Array(all) => all.iter().map(text_of).collect(),
        one => vec![text_of(one)],
    };
    if wanted.iter().all(|text| text.trim().is_empty()) {
        return Score::fail("the expected text is empty, so every answer would contain it");
    }
    let answer = folded(answer);
    let missing: Vec<&String> = wanted
        .iter()
        .filter(|text| !holds_words(&answer, &folded(text)))
        .collect();
    let share = 1.0 - missing.len() as f64 / wanted.len() as f64;
    match missing.as_slice() {
        [] => Score::pass("the answer contains what is expected"),
        missing => Score::of(share, format!("the answer lacks {missing:?}")),
    }
}

/// Whether a text stands in another one as whole words: "17" is not in "2017".
pub(super) fn holds_words(text: &str, wanted: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let (first, last) = (wanted.chars().next(), wanted.chars().next_back());
    let mut places = text.char_indices().map(|(place, _)| place);
    // A place within one that joins other words may be right, as in "ba a a" for "a a".
    places.any(|start| {
        let after = text[start..].strip_prefix(wanted);
        after.is_some_and(|after| {
            let joins_before = is_word(text[..start].chars().next_back()) && is_word(first);
            let joins_after = is_word(after.chars().next()) && is_word(last);
            !joins_before && !joins_after
        })
    })
}

fn pattern(answer: &str, expected: &Value) -> Score {
    let pattern = text_of(expected);
    if pattern.is_empty() {
        return Score::fail("the expected pattern is empty, so every answer would fit it");
    }
    match Regex::new(&pattern) {
        Ok(regex) if regex.is_match(answer) => Score::pass("the answer fits the pattern"),
        Ok(_) => Score::fail(format!("the answer does not fit the pattern {pattern:?}")),
        Err(error) => Score::fail(format!(
            "the sample's `expected` is not a regular expression: {error}"
        )),
    }
}

fn gaia(answer: &str, expected: &Value) -> Score {
    let (found, expected) = (questions::gaia_answer(answer), text_of(expected));
    match questions::gaia(found, &expected) {
        true => Score::pass("the answer is the expected one"),
        false => Score::fail(format!("the answer is not {expected:?}")),
    }
}

fn gsm8k(answer: &str, expected: &Value) -> Score {
    let Some(wanted) = expected
        .as_f64()
        .or_else(|| questions::gsm8k(&text_of(expected)))
    else {
        return Score::fail("the sample's `expected` is not a number");
    };
    match questions::gsm8k(answer) {
        Some(found) if found == wanted => Score::pass(format!("the final number is {found}")),
        Some(found) => Score::fail(format!("the final number is {found}, and not {wanted}")),
        None => Score::fail("the answer holds no number"),
    }
}

fn number(answer: &str, expected: &Value, tolerance: f64) -> Score {
    let wanted = expected
        .as_f64()
        .or_else(|| numbers(&text_of(expected)).last().copied());
    let Some(wanted) = wanted else {
        return Score::fail("the sample's `expected` is not a number");
    };
    let Some(found) = numbers(answer).last().copied() else {
        return Score::fail("the answer holds no number");
    };
    // A sum such as 0.1 + 0.2 differs from 0.3 in its last bits.
    let noise = wanted.abs().max(found.abs()) * 4.0 * f64::EPSILON;
    match (found - wanted).abs() <= tolerance + noise {
        true => Score::pass(format!("the answer's number is {found}")),
        false => Score::fail(format!("the answer's number is {found}, and not {wanted}")),
    }
}

/// The numbers of a text, with `,` or `_` between groups of three digits. A hyphen behind a letter or a digit is not a sign. A
/// number too large for 64 bits is none: it would be near to every other one.
pub(super) fn numbers(text: &str) -> Vec<f64> {
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(offset) = text[from..].find(|c: char| c.is_ascii_digit()) {
        let digits = from + offset;
        let start = digits - usize::from(is_behind_point(&text[from..digits]));
        let length = written(&text[start..]);
        let plain = text[start..start + length].replace([',', '_'], "");
        let value = plain.parse::<f64>().ok().filter(|value| value.is_finite());
        let is_negative = is_behind_minus(&text[..start]);
        found.extend(value.map(|value| if is_negative { -value } else { value }));
        from = start + length;
    }
    found
}

/// Whether a text ends with the point of a number such as `.5`.
fn is_behind_point(before: &str) -> bool {
    let begins = |c: char| !c.is_alphanumeric() && !matches!(c, '.' | ')');
    let before = before.strip_suffix('.');
    before.is_some_and(|before| before.chars().next_back().is_none_or(begins))
}

/// Whether a text ends with the sign of a number, perhaps with a currency between them.
fn is_behind_minus(before: &str) -> bool {
    let unsigned = before
        .trim_end_matches(['$', '\u{20ac}', '\u{a3}'])
        .strip_suffix(['-', '\u{2212}']);
    unsigned.is_some_and(|before| !before.ends_with(char::is_alphanumeric))
}

/// The length of the number at the beginning of a text. More than one point makes it one that cannot be read, such as a
/// version.
fn written(text: &str) -> usize {
    let count = |from: usize| {
        let digits = text.as_bytes().iter().skip(from);
        digits.take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut end = count(0);
    if end <= 3 {
        while text[end..].starts_with([',', '_']) && count(end + 1) == 3 {
            end += 4;
        }
    }
    while text[end..].starts_with('.') && count(end + 1) > 0 {
        end += 1 + count(end + 1);
    }
    end + exponent(&text[end..])
}

/// The length of an exponent at the beginning of a text, such as `e-3`.
fn exponent(text: &str) -> usize {
    let Some(after) = text.strip_prefix(['e', 'E']) else {
        return 0;
    };
    let digits = after.strip_prefix(['+', '-']).unwrap_or(after);
    let count = digits.chars().take_while(char::is_ascii_digit).count();
    match count {
        0 => 0,
        count => text.len() - digits.len() + count,
    }
}

/// The share of the expected fields that are equal.
fn fields(found: &Value, expected: &Value) -> Score {
    let mut count = Count::default();
    count.compare(found, expected, "");
    match (count.all, count.wrong.as_slice()) {
        (_, []) => Score::pass("the answer has the expected fields"),
        (all, wrong) => {
            let share = 1.0 - wrong.len() as f64 / all as f64;
            Score::of(share, format!("the answer differs at {}", wrong.join(", ")))
        }
    }
}

#[derive(Default)]
pub(super) struct Count {
    pub(super) all: usize,
    pub(super) wrong: Vec<String>,
}

impl Count {
    pub(super) fn compare(&mut self, found: &Value, expected: &Value, place: &str) {
        match (found, expected) {
            (found, Value::Object(fields)) if !fields.is_empty() => {
                for (name, expected) in fields {
                    let place = format!("{place}/{name}");
                    self.compare(found.get(name).unwrap_or(&Value::Null), expected, &place);
                }
            }
            (found, expected) => {
                self.all += 1;
                if !equal(found, expected) {
                    self.wrong.push(if place.is_empty() {
                        String::from("/")
                    } else {
                        place.to_owned()
                    });
                }
            }
        }
    }
}

/// Whether two values are equal; numbers are compared by value, so that `2` equals `2.0`.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            // Whole numbers beyond 2⁵³ that differ may be the same one with a point.
            a == b || ((a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}
