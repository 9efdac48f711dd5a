//! Judges: models that score answers by a rubric, or say which of two is better. Each verdict is a run of its own.

mod asking;
mod form;
mod labels;
mod pairwise;
mod reading;
mod spec;

use std::{fmt, path::Path};

use ghostlight_actors::{
    actor::{System, SystemError},
    definition::TeamSpec,
    vocabulary::{Digest, Spent},
};

pub use self::{
    asking::is_of_judge,
    form::Preference,
    spec::{JudgeSpec, Pairs, PairwiseSpec},
};
use self::{
    asking::{Asked, Material, ask},
    form::{Form, Given},
};
pub(crate) use self::{
    asking::{BEHAVIOR, NoVerdict, Question, behavior, is_refused, name_by_digest},
    labels::{LabelVerdicts, Labels},
    pairwise::{PairJudge, PairOutcome, PairResult},
    reading::without_thoughts,
};
use crate::{
    purse::{self, Purse},
    recording::Recording,
    scorers::{JudgeVerdict, Score, ScorerFault},
    suite::Sample,
};

/// Why a cell has no score of a scorer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Missing {
    Unreadable(String),
    Infrastructure(String),
    NotRun(String),
}

/// Asks judges, and chooses their material.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) system: &'a System,
    pub(crate) purse: &'a Purse,
    /// Whether verdicts that are not recorded may be asked for.
    pub(crate) may_ask: bool,
}

/// A judge of single answers.
pub(crate) struct Judge {
    pub(crate) name: String,
    pub(crate) spec: JudgeSpec,
    pub(crate) labels: Labels,
    models: Vec<(String, TeamSpec)>,
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Judge {
    pub(crate) fn new(
        spec: &JudgeSpec,
        base: &TeamSpec,
        folder: &Path,
    ) -> Result<Self, ScorerFault> {
        let name = spec.name.clone().unwrap_or_else(|| String::from("judge"));
        let fault = |reason: String| ScorerFault {
            scorer: name.clone(),
            reason,
        };
        check(spec).map_err(fault)?;
        let form = Form::Score { scale: spec.scale };
        let models = models(base, &name, &spec.by, &spec.rubric, form, folder).map_err(fault)?;
        let labels = match &spec.human {
            Some(path) => Labels::read(&folder.join(path), spec.scale).map_err(fault)?,
            None => Labels::default(),
        };
        Ok(Self {
            name: name.clone(),
            spec: spec.clone(),
            labels,
            models,
        })
    }

    /// The teams of its models.
    pub(crate) fn teams(&self) -> impl Iterator<Item = &TeamSpec> {
        self.models.iter().map(|(_, team)| team)
    }

    fn form(&self) -> Form {
        Form::Score {
            scale: self.spec.scale,
        }
    }

    /// The score of a cell, by all of the judge's models, and what asking them consumed.
    pub(crate) async fn score(
        &self,
        asking: Asking<'_>,
        cell: &str,
        recording: &Recording,
        sample: &Sample,
        spent: &mut Spent,
    ) -> Result<Result<Score, Missing>, SystemError> {
        let Some(answer) = recording.answer() else {
            return Ok(Ok(Score::fail("there is no answer")));
        };
        let material = Material {
            asked: sample.texts().into_iter().collect(),
            expected: sample.expected.as_ref(),
            calls: self.spec.calls.then(|| asking::calls(recording)),
            answer: Some(asking::shown(answer)),
            first: None,
            second: None,
        };
        let verdicts = self.verdicts(asking, cell, &material.text(), spent).await?;
        Ok(verdicts.and_then(|verdicts| self.together(verdicts)))
    }

    /// The verdict of each model on this material.
    async fn verdicts(
        &self,
        asking: Asking<'_>,
        key: &str,
        material: &str,
        spent: &mut Spent,
    ) -> Result<Result<Vec<JudgeVerdict>, Missing>, SystemError> {
        let mut verdicts = Vec::new();
        for (by, team) in &self.models {
            let asked = match asking.ask(team, self.form(), key, material, spent).await? {
                Ok(asked) => asked,
                Err(missing) => return Ok(Err(missing)),
            };
            let (score, why) = match asked.verdict {
                Ok(verdict) => match verdict.given {
                    Given::Score(score) => (Some(score), verdict.why),
                    Given::Prefers(_) => (None, String::from("it is not a score")),
                },
                Err(NoVerdict::Unreadable(why)) => (None, why),
                Err(NoVerdict::Infrastructure(why)) => {
                    return Ok(Err(Missing::Infrastructure(format!(
                        "the judge {by} failed: {why}"
                    ))));
                }
            };
            verdicts.push(JudgeVerdict {
                by: by.clone(),
                score,
                why,
                run: asked.run,
            });
        }
        Ok(Ok(verdicts))
    }

    /// The score that all verdicts together give: the mean of those that can be read.
    fn together(&self, verdicts: Vec<JudgeVerdict>) -> Result<Score, Missing> {
        let scores: Vec<f64> = verdicts.iter().filter_map(|v| v.score).collect();
        let told = |verdict: &JudgeVerdict| match (verdict.score, self.models.len()) {
            (Some(score), 1) => format!("{score} of {}: {}", self.spec.scale, verdict.why),
            (Some(score), _) => {
                format!(
                    "{}: {score} of {}: {}",
                    verdict.by, self.spec.scale, verdict.why
                )
            }
            (None, _) => format!("{}: {}", verdict.by, verdict.why),
        };
        let why: Vec<String> = verdicts.iter().map(told).collect();
        let why = why.join("; ");
        if scores.is_empty() {
            return Err(Missing::Unreadable(format!(
                "no verdict of {} can be read: {why}",
                self.name
            )));
        }
        let (sum, scale) = (scores.iter().sum::<f64>(), f64::from(self.spec.scale));
        let mean = sum / scores.len() as f64;
        // A mean such as 3.5 of 5 is the bound itself, whatever its last bits are.
        let least = self.spec.pass - 1e-9;
        let mut score = Score::of(mean / scale, why).passing_from(least);
        let unread = verdicts.len() - scores.len();
        if unread > 0 {
            // The lowest verdict is 1.
            let lowest = (sum + unread as f64) / verdicts.len() as f64;
            score = score.at_lowest(lowest / scale, least);
        }
        score.verdicts = verdicts;
        Ok(score)
    }
}

impl Asking<'_> {
    /// The verdict of one model: the recorded one, or else a new one, unless the budget is used up or nothing may be asked.
    async fn ask(
        &self,
        team: &TeamSpec,
        form: Form,
        key: &str,
        material: &str,
        spent: &mut Spent,
    ) -> Result<Result<Asked, Missing>, SystemError> {
        let exhausted = self.purse.exhausted();
        let may_ask = self.may_ask && exhausted.is_none();
        let digest = Digest::of_parts(&[key.as_bytes(), material.as_bytes()]);
        let key = format!("{:016x}", digest.short());
        let asked = ask(self.system, team, form, &key, material, may_ask).await?;
        let Some(asked) = asked else {
            let why = exhausted.unwrap_or_else(|| String::from("the judge was not asked yet"));
            return Ok(Err(Missing::NotRun(why)));
        };
        self.purse.add(&asked.spent);
        purse::add(spent, &asked.spent);
        Ok(Ok(asked))
    }
}

/// Reads the score in what a judge wrote; `material` is what it was shown, which it may have quoted. The form may be
/// JSON, in a fence and with prose around, or a line such as `Score: 4/5`. What could be read in two ways is not read.
///
/// # Errors
/// Why no score from 1 to `scale` can be read.
pub fn read_score(reply: &str, scale: u32, material: &str) -> Result<f64, String> {
    match reading::read(reply, Form::Score { scale }, material)?.given {
        Given::Score(score) => Ok(score),
        Given::Prefers(_) => Err(String::from("it is not a score")),
    }
}

/// Reads which of two answers a judge prefers, likewise.
///
/// # Errors
/// Why no preference can be read.
pub fn read_preference(reply: &str, material: &str) -> Result<Preference, String> {
    match reading::read(reply, Form::Preference, material)?.given {
        Given::Prefers(preference) => Ok(preference),
        Given::Score(_) => Err(String::from("it is not a preference")),
    }
}

fn check(spec: &JudgeSpec) -> Result<(), String> {
    if !(2..=100).contains(&spec.scale) {
        return Err(format!("`scale` is {}; it must be 2 to 100", spec.scale));
    }
    if !(spec.pass > 0.0 && spec.pass <= 1.0) {
        return Err(format!(
            "`pass` is {}; it must be above 0 and at most 1",
            spec.pass
        ));
    }
    match spec.agreement {
        Some(agreement) if !(-1.0..=1.0).contains(&agreement) => Err(format!(
            "`agreement` is {agreement}; it must be between -1 and 1"
        )),
        Some(_) if spec.human.is_none() && spec.by.len() < 2 => Err(String::from(
            "`agreement` needs verdicts to agree with: `human`, or several models in `by`",
        )),
        _ => Ok(()),
    }
}

/// The teams of the models of a judge.
fn models(
    base: &TeamSpec,
    name: &str,
    by: &[String],
    rubric: &str,
    form: Form,
    folder: &Path,
) -> Result<Vec<(String, TeamSpec)>, String> {
    let rubric = spec::rubric(rubric, folder)?;
    let own = base.agent.model.clone();
    let own = own.unwrap_or_else(|| String::from("default"));
    let by = match by {
        [] => vec![own],
        by => by.to_vec(),
    };
    let mut models: Vec<(String, TeamSpec)> = Vec::new();
    for model in by {
        if models.iter().any(|(known, _)| *known == model) {
            return Err(format!("`by` names the model {model:?} twice"));
        }
        let team = asking::team(base, name, &model, &rubric, form);
        models.push((model, team));
    }
    Ok(models)
}
