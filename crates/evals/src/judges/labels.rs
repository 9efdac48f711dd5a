//! People's verdicts on answers, and whether a judge agrees with them.

use std::path::Path;

use ghostlight_actors::{actor::SystemError, vocabulary::Spent};
use serde::Deserialize;
use serde_json::Value;

use super::{
    Asking, Judge,
    asking::{Material, shown},
    spec::bounded_text,
};
use crate::{cell::Cell, scorers::JudgeVerdict, suite::begins};

/// The largest file of labels, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// The labels of one judge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels {
    labels: Vec<Label>,
}

/// A person's verdict on an answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Label {
    score: f64,
    #[serde(default)]
    answer: Option<String>,
    #[serde(default)]
    input: Option<String>,
    #[serde(default)]
    expected: Option<Value>,
    #[serde(default)]
    run: Option<String>,
    #[serde(default)]
    sample: Option<String>,
    #[serde(default)]
    variant: Option<String>,
    #[serde(default)]
    repeat: Option<u32>,
}

/// The verdicts of people and of a judge on the same answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelVerdicts {
    /// The score of a person, and the verdicts of the judge's models.
    pub(crate) pairs: Vec<(f64, Vec<JudgeVerdict>)>,
    /// The usage of the questions.
    pub(crate) spent: Spent,
}

impl Labels {
    /// Reads a file of labels, with one JSON object a line.
    pub(super) fn read(path: &Path, scale: u32) -> Result<Self, String> {
        let text = bounded_text(path, MAX_BYTES)?;
        let mut labels = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let fault = |reason: String| format!("{}:{}: {reason}", path.display(), index + 1);
            let label: Label = serde_json::from_str(line).map_err(|e| fault(e.to_string()))?;
            if !(1.0..=f64::from(scale)).contains(&label.score) {
                let score = label.score;
                return Err(fault(format!(
                    "`score` is {score}; it must be 1 to {scale}"
                )));
            }
            let names_a_run = label.run.as_ref().is_some_and(|run| !run.trim().is_empty());
            match (&label.answer, &label.input) {
                (Some(_), Some(_)) => {}
                (None, None) if names_a_run || (label.run.is_none() && label.sample.is_some()) => {}
                _ => {
                    return Err(fault(String::from(
                        "say what was judged: `input` and `answer`, or `sample`, or `run`",
                    )));
                }
            }
            labels.push(label);
        }
        Ok(Self { labels })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// The person's score of each cell that a label names, with the cell. Where it names neither a variant nor a run, the
    /// cell is one of `base`: what another variant answers is not what the person read.
    pub(crate) fn of_cells<'a>(&self, cells: &'a [Cell], base: &str) -> Vec<(f64, &'a Cell)> {
        let named = self.labels.iter().filter(|label| label.answer.is_none());
        let found = named.flat_map(|label| {
            let cells = cells.iter().filter(|cell| label.names(cell, base));
            cells.map(|cell| (label.score, cell))
        });
        found.collect()
    }
}

impl Label {
    fn names(&self, cell: &Cell, base: &str) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|w| w == found);
        let has_run = self.run.as_ref().is_none_or(|wanted| {
            let last = cell.runs.last();
            last.is_some_and(|run| begins(*run, wanted))
        });
        has_run
            && is(&self.sample, &cell.sample)
            && match &self.variant {
                Some(variant) => *variant == cell.variant,
                None => self.run.is_some() || cell.variant == base,
            }
            && self.repeat.is_none_or(|repeat| repeat == cell.repeat)
    }
}

impl Judge {
    /// Asks the judge about the answers that its labels hold.
    pub(crate) async fn ask_labels(
        &self,
        asking: Asking<'_>,
    ) -> Result<LabelVerdicts, SystemError> {
        let mut found = LabelVerdicts::default();
        for label in &self.labels.labels {
            let (Some(answer), Some(input)) = (&label.answer, &label.input) else {
                continue;
            };
            let material = Material {
                asked: vec![input],
                expected: label.expected.as_ref(),
                calls: None,
                answer: Some(shown(answer)),
                first: None,
                second: None,
            };
            let mut spent = Spent::default();
            let verdicts = self
                .verdicts(asking, "label", &material.text(), &mut spent)
                .await?;
            crate::purse::add(&mut found.spent, &spent);
            // A judge that could not be asked has said nothing.
            found
                .pairs
                .extend(verdicts.ok().map(|said| (label.score, said)));
        }
        Ok(found)
    }
}
