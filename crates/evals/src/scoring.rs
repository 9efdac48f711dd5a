//! The scoring of one cell by all scorers of a suite.

use std::{collections::BTreeMap, path::Path};

use ghostlight_actors::{actor::SystemError, definition::TeamSpec, vocabulary::Spent};

use crate::{
    cell::CellResult,
    judges::{Asking, Judge, Missing},
    recording::Recording,
    scorers::{CommandScorer, Composite, Scorer, ScorerFault, ScorerSpec, scorer_of},
    suite::Sample,
};

/// A scorer, by what it needs.
#[derive(Debug)]
pub(crate) enum Scoring {
    /// A function.
    Pure(Box<dyn Scorer>),
    /// Models.
    Judge(Judge),
    /// A program.
    Command(CommandScorer),
    /// Other scores.
    Composite(Composite),
}

impl Scoring {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Pure(scorer) => scorer.name(),
            Self::Judge(judge) => &judge.name,
            Self::Command(command) => &command.name,
            Self::Composite(composite) => &composite.name,
        }
    }
}

/// The scorers that rest on one of these judges, each with that judge: the judges themselves, and composites of them.
pub(crate) fn resting_on(scorings: &[Scoring], judges: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for scoring in scorings {
        let name = scoring.name();
        let judge = match scoring {
            Scoring::Judge(_) => judges.contains(&name).then(|| name.to_owned()),
            // What it is made of stands before it.
            Scoring::Composite(composite) => {
                let mut parts = composite.parts();
                parts.find_map(|part| found.get(part).cloned())
            }
            _ => None,
        };
        found.extend(judge.map(|judge| (name.to_owned(), judge)));
    }
    found
}

/// The scorers of a suite in this folder, in their order.
pub(crate) fn scoring_of(
    specs: &[ScorerSpec],
    base: &TeamSpec,
    folder: &Path,
) -> Result<Vec<Scoring>, ScorerFault> {
    let mut all: Vec<Scoring> = Vec::new();
    for spec in specs {
        let scoring = match spec {
            ScorerSpec::Judge(spec) => Scoring::Judge(Judge::new(spec, base, folder)?),
            ScorerSpec::Command(spec) => Scoring::Command(CommandScorer::new(spec, folder)?),
            ScorerSpec::Composite(spec) => {
                let before: Vec<&str> = all.iter().map(Scoring::name).collect();
                Scoring::Composite(Composite::new(spec, &before)?)
            }
            pure => Scoring::Pure(scorer_of(pure)?),
        };
        let fault = match scoring.name() {
            "success" | "reward" => {
                Some("a report has this name for what it sums up: give it another `name`")
            }
            name if all.iter().any(|known| known.name() == name) => {
                Some("another scorer has this name: give it a `name`")
            }
            _ => None,
        };
        if let Some(reason) = fault {
            return Err(ScorerFault {
                scorer: scoring.name().to_owned(),
                reason: reason.to_owned(),
            });
        }
        all.push(scoring);
    }
    Ok(all)
}

/// Scores a cell that has an answer; `cell` is its key, and `judged` what judges consumed.
pub(crate) async fn score(
    scorings: &[Scoring],
    watched: &[String],
    asking: Asking<'_>,
    cell: &str,
    (recording, sample): (&Recording, &Sample),
    judged: &mut Spent,
) -> Result<CellResult, SystemError> {
    let (mut scores, mut unreadable, mut decided) = (BTreeMap::new(), Vec::new(), true);
    for scoring in scorings {
        let is_watched = watched.iter().any(|name| name == scoring.name());
        let score = match scoring {
            Scoring::Pure(scorer) => Ok(scorer.score(recording, sample)),
            Scoring::Judge(judge) => judge.score(asking, cell, recording, sample, judged).await?,
            Scoring::Command(command) => {
                let score = command.score(recording, sample).await;
                score.map_err(Missing::Unreadable)
            }
            Scoring::Composite(composite) => composite.score(&scores).map_err(Missing::Unreadable),
        };
        match score {
            Ok(mut score) => {
                score.why = ghostlight_safety::redact_text(&score.why).into_owned();
                score.counts = !is_watched;
                scores.insert(scoring.name().to_owned(), score);
            }
            Err(Missing::Unreadable(why)) => {
                unreadable.push(why);
                decided &= is_watched;
            }
            Err(Missing::Infrastructure(why)) => return Ok(CellResult::Infrastructure { why }),
            Err(Missing::NotRun(why)) => return Ok(CellResult::NotRun { why }),
        }
    }
    if unreadable.is_empty() {
        return Ok(CellResult::Scored { scores });
    }
    let why = ghostlight_safety::redact_text(&unreadable.join("; ")).into_owned();
    Ok(CellResult::Unreadable {
        scores,
        why,
        decided,
    })
}
