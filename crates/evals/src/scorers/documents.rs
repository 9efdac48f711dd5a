//! The structure of an answer: JSON, and its citations.

use std::collections::BTreeMap;

use ghostlight_actors::vocabulary::AnsweredBy;
use ghostlight_retrieval::citations::{DEFAULT_SUPPORT, Support, check};
use ghostlight_safety::cut;
use ghostlight_structured_output::read;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Score, Scorer, ScorerFault, answer::Count};
use crate::{recording::Recording, suite::Sample};

/// The JSON that an answer must be, whatever the sample expects. It may stand in a fence or among prose. The score is the
/// share of the fields that are equal; 0 where it does not fit the schema.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct JsonSpec {
    /// Its name; `json` where it is left out.
    pub name: Option<String>,
    /// The JSON Schema that it must fit.
    pub schema: Option<Value>,
    /// The values that it must have, by their places (JSON Pointers, such as `/total`). A place of the sample's `expected`
    /// is compared where the sample has one.
    pub fields: BTreeMap<String, Value>,
}

pub(super) struct JsonScorer {
    name: String,
    fields: BTreeMap<String, Value>,
    schema: Option<jsonschema::Validator>,
}

impl JsonScorer {
    pub(super) fn new(spec: &JsonSpec) -> Result<Self, ScorerFault> {
        let name = spec.name.clone().unwrap_or_else(|| String::from("json"));
        let fault = |reason: String| ScorerFault {
            scorer: name.clone(),
            reason,
        };
        let schema = spec.schema.as_ref().map(jsonschema::validator_for);
        let schema = schema
            .transpose()
            .map_err(|error| fault(format!("`schema` is not a JSON Schema: {error}")))?;
        let wrong = spec.fields.keys();
        let mut wrong = wrong.filter(|place| !place.is_empty() && !place.starts_with('/'));
        if let Some(place) = wrong.next() {
            return Err(fault(format!(
                "{place:?} in `fields` is not a JSON Pointer: write \"/{place}\""
            )));
        }
        Ok(Self {
            name,
            fields: spec.fields.clone(),
            schema,
        })
    }
}

impl Scorer for JsonScorer {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, recording: &Recording, sample: &Sample) -> Score {
        let Some(answer) = recording.answer() else {
            return Score::fail("there is no answer");
        };
        let found = match read(answer) {
            Ok(reading) => reading.value,
            Err(error) => return Score::fail(format!("the answer holds no JSON: {error}")),
        };
        let schema = self.schema.as_ref();
        if let Some(error) = schema.and_then(|schema| schema.validate(&found).err()) {
            let place = error.instance_path().to_string();
            return Score::fail(format!(
                "the answer does not fit the schema at {place:?}: {error}"
            ));
        }
        let mut count = Count::default();
        for (place, wanted) in &self.fields {
            let own = sample.expected.as_ref().and_then(|own| own.pointer(place));
            let found = found.pointer(place).unwrap_or(&Value::Null);
            count.compare(found, own.unwrap_or(wanted), place);
        }
        match count.wrong.as_slice() {
            [] => Score::pass("the JSON is as it must be"),
            wrong => Score::of(
                1.0 - wrong.len() as f64 / count.all as f64,
                format!("the answer differs at {}", wrong.join(", ")),
            ),
        }
    }
}

/// The citations of an answer: each must name a passage that a tool gave (the words of an agent are none), and the passage
/// must hold the words and numbers of the sentence that cites it. The score is the share of the sentences that are right.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CitationsSpec {
    /// Its name; `citations` where it is left out.
    pub name: Option<String>,
    /// Whether each sentence that claims something must cite.
    pub require: bool,
    /// The share of a sentence's terms that must stand in what it cites, from 0 to 1; 0.6 where it is left out.
    pub support: Option<f64>,
}

pub(super) struct CitationsScorer {
    name: String,
    require: bool,
    support: f64,
}

impl CitationsScorer {
    pub(super) fn new(spec: &CitationsSpec) -> Result<Self, ScorerFault> {
        let name = spec.name.clone();
        let name = name.unwrap_or_else(|| String::from("citations"));
        let support = spec.support.unwrap_or(DEFAULT_SUPPORT);
        if !(0.0..=1.0).contains(&support) {
            return Err(ScorerFault {
                scorer: name,
                reason: format!("`support` is {support}; it must be 0 to 1"),
            });
        }
        Ok(Self {
            name,
            require: spec.require,
            support,
        })
    }
}

impl Scorer for CitationsScorer {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, recording: &Recording, _: &Sample) -> Score {
        let Some(answer) = recording.answer() else {
            return Score::fail("there is no answer");
        };
        let mut sources = BTreeMap::new();
        let written = |by: &AnsweredBy| {
            matches!(
                by,
                AnsweredBy::Agent(_) | AnsweredBy::Function | AnsweredBy::Engine
            )
        };
        for call in recording.calls.iter().filter(|call| !written(&call.by)) {
            passages(&call.result, &mut sources);
        }
        let (mut right, mut wrong) = (0_usize, Vec::new());
        for sentence in check(answer, &sources, self.support) {
            let said = cut(sentence.text.trim(), 60);
            match sentence.support {
                Support::Supported => right += 1,
                Support::Unknown { labels } => {
                    wrong.push(format!(
                        "{said:?} cites [{}], which no tool gave",
                        labels.join("], [")
                    ));
                }
                Support::Unsupported { .. } => {
                    wrong.push(format!("{said:?} is not in what it cites"));
                }
                Support::Uncited if self.require => wrong.push(format!("{said:?} cites nothing")),
                _ => {}
            }
        }
        match (right, wrong.len()) {
            (0, 0) if self.require => Score::fail("the answer cites nothing"),
            (_, 0) => Score::pass(format!("{right} sentences cite what supports them")),
            (right, others) => Score::of(right as f64 / (right + others) as f64, wrong.join("; ")),
        }
    }
}

/// The passages of a result, by their labels: `[label] source` on a line, and below it the text with `| ` before each
/// line, as `document_search` writes them.
fn passages(text: &str, sources: &mut BTreeMap<String, String>) {
    let mut open: Option<&str> = None;
    for line in text.lines() {
        if let Some(said) = line.strip_prefix('|') {
            if let Some(source) = open.and_then(|label| sources.get_mut(label)) {
                source.push_str(said.trim());
                source.push('\n');
            }
            continue;
        }
        let head = line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("] "));
        open = head.map(|(label, _)| label);
        if let Some((label, source)) = head {
            let text = sources.entry(label.to_owned()).or_default();
            text.push_str(source);
            text.push('\n');
        }
    }
}
