//! Judges that say which of two answers is better.

use std::path::Path;

use ghostlight_actors::{actor::SystemError, definition::TeamSpec, vocabulary::Spent};
use serde_json::json;

use super::{
    Asking, Missing, PairwiseSpec,
    asking::{self, Material, NoVerdict},
    form::{Form, Given, Preference},
};
use crate::{recording::Recording, scorers::ScorerFault, suite::Sample};

/// A judge of pairs.
#[derive(Debug)]
pub(crate) struct PairJudge {
    pub(crate) name: String,
    pub(crate) spec: PairwiseSpec,
    models: Vec<(String, TeamSpec)>,
}

/// The verdict of one model on the answers of two variants to one sample.
#[derive(Clone, Debug)]
pub(crate) struct PairResult {
    pub(crate) judge: String,
    pub(crate) base: String,
    pub(crate) other: String,
    pub(crate) cluster: String,
    pub(crate) outcome: PairOutcome,
    /// How often the answer that was shown first, and second, was preferred.
    pub(crate) by_place: (u32, u32),
    pub(crate) spent: Spent,
}

/// The winner.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PairOutcome {
    Base,
    Other,
    /// Both verdicts say that neither is better.
    Tie,
    /// The two orders give different verdicts, which counts as a tie.
    Inconsistent,
    Unreadable(String),
    Left(Missing),
}

impl PairJudge {
    pub(crate) fn new(
        spec: &PairwiseSpec,
        base: &TeamSpec,
        folder: &Path,
    ) -> Result<Self, ScorerFault> {
        let name = spec
            .name
            .clone()
            .unwrap_or_else(|| String::from("preferred"));
        let models = super::models(
            base,
            &name,
            &spec.by,
            &spec.rubric,
            Form::Preference,
            folder,
        );
        let models = models.map_err(|reason| ScorerFault {
            scorer: name.clone(),
            reason,
        })?;
        Ok(Self {
            name,
            spec: spec.clone(),
            models,
        })
    }

    /// The teams of its models.
    pub(crate) fn teams(&self) -> impl Iterator<Item = &TeamSpec> {
        self.models.iter().map(|(_, team)| team)
    }

    /// Asks each model about two recordings of a sample, in both orders. Where only one of them has an answer, it wins
    /// unasked; the same answer twice is a tie.
    pub(crate) async fn compare(
        &self,
        asking: Asking<'_>,
        key: &str,
        sample: &Sample,
        base: &Recording,
        other: &Recording,
    ) -> Result<Vec<(PairOutcome, (u32, u32), Spent)>, SystemError> {
        let unasked = match (base.answer(), other.answer()) {
            (None, None) => Some(PairOutcome::Tie),
            (Some(_), None) => Some(PairOutcome::Base),
            (None, Some(_)) => Some(PairOutcome::Other),
            (Some(one), Some(two)) if !self.spec.calls && one.trim() == two.trim() => {
                Some(PairOutcome::Tie)
            }
            _ => None,
        };
        if let Some(outcome) = unasked {
            let all = self.models.iter();
            return Ok(all
                .map(|_| (outcome.clone(), (0, 0), Spent::default()))
                .collect());
        }
        let mut outcomes = Vec::new();
        for (_, team) in &self.models {
            let mut spent = Spent::default();
            let forth = self.material(sample, base, other);
            let forth = choice(asking, team, key, &forth, &mut spent).await?;
            let back = match &forth {
                Err(PairOutcome::Left(_)) => forth.clone(),
                _ => {
                    let back = self.material(sample, other, base);
                    choice(asking, team, key, &back, &mut spent).await?
                }
            };
            let mut by_place = (0, 0);
            for choice in [&forth, &back].into_iter().flatten() {
                match choice {
                    Preference::First => by_place.0 += 1,
                    Preference::Second => by_place.1 += 1,
                    Preference::Tie => {}
                }
            }
            let outcome = match (forth, back) {
                (Err(outcome), _) | (_, Err(outcome)) => outcome,
                (Ok(Preference::First), Ok(Preference::Second)) => PairOutcome::Base,
                (Ok(Preference::Second), Ok(Preference::First)) => PairOutcome::Other,
                (Ok(Preference::Tie), Ok(Preference::Tie)) => PairOutcome::Tie,
                _ => PairOutcome::Inconsistent,
            };
            outcomes.push((outcome, by_place, spent));
        }
        Ok(outcomes)
    }

    fn material(&self, sample: &Sample, first: &Recording, second: &Recording) -> String {
        let shown = |recording: &Recording| {
            let answer = asking::shown(recording.answer().unwrap_or_default());
            match self.spec.calls {
                true => json!({ "answer": answer, "calls": asking::calls(recording) }),
                false => json!(answer),
            }
        };
        let material = Material {
            asked: sample.texts().into_iter().collect(),
            expected: sample.expected.as_ref(),
            calls: None,
            answer: None,
            first: Some(shown(first)),
            second: Some(shown(second)),
        };
        material.text()
    }
}

async fn choice(
    asking: Asking<'_>,
    team: &TeamSpec,
    key: &str,
    material: &str,
    spent: &mut Spent,
) -> Result<Result<Preference, PairOutcome>, SystemError> {
    let asked = asking
        .ask(team, Form::Preference, key, material, spent)
        .await?;
    let verdict = match asked {
        Ok(asked) => asked.verdict,
        Err(missing) => return Ok(Err(PairOutcome::Left(missing))),
    };
    Ok(match verdict {
        Ok(verdict) => match verdict.given {
            Given::Prefers(choice) => Ok(choice),
            Given::Score(_) => Err(PairOutcome::Unreadable(String::from("it is a score"))),
        },
        Err(NoVerdict::Unreadable(why)) => Err(PairOutcome::Unreadable(why)),
        Err(NoVerdict::Infrastructure(why)) => Err(PairOutcome::Left(Missing::Infrastructure(why))),
    })
}
