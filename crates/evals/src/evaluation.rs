//! Carrying out an evaluation: each cell is a turn of its variant's team.

mod forks;
mod recorded;
mod settling;
mod sinking;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use futures_util::{StreamExt as _, stream};
use ghostlight_actors::{
    actor::{Fork, System, SystemError},
    definition::TeamSpec,
    run::{Registry, Team},
    session::Turn,
    vocabulary::{
        AgentError, Digest, Effect, ErrorKind, OperationError, RunId, Spent, ToolDefinition,
    },
};

use crate::{
    attempts::{ATTEMPTS, Attempts},
    cell::{self, Cell, CellResult},
    judges::{self, Asking, Judge, PairJudge},
    purse::Purse,
    recording::{End, Recording, read_ended, read_run},
    scorers::{Scorer, ScorerFault, ScorerSpec},
    scoring::{Scoring, score, scoring_of},
    suite::{OfferedTool, Sample, SuiteFault, SuiteSpec, VariantFault, team_of},
};

pub use self::forks::Forked;
use self::forks::Prefix;

/// An evaluation that can be carried out.
#[derive(Debug)]
pub struct Evaluation {
    pub(crate) suite: SuiteSpec,
    pub(crate) samples: Vec<Sample>,
    variants: Vec<Variant>,
    pub(crate) scorings: Vec<Scoring>,
    pub(crate) pair_judges: Vec<PairJudge>,
}

/// The work that may be done for cells and verdicts that are not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reach {
    /// Cells are tried, and judges asked.
    Try,
    /// Judges are asked about recorded cells. No agent is started.
    Score,
    /// No model is asked: only what is recorded counts.
    Look,
}

/// An evaluation that cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluationFault {
    /// A setting of the suite makes no sense.
    #[error(transparent)]
    Suite(#[from] SuiteFault),
    /// A scorer's settings make no sense.
    #[error(transparent)]
    Scorer(#[from] ScorerFault),
    /// A variant cannot be made.
    #[error(transparent)]
    Variant(#[from] VariantFault),
    /// There is nothing to try.
    #[error("the evaluation {0:?} has no samples: name a file of them, or write them inline")]
    NoSamples(String),
}

impl Evaluation {
    /// An evaluation of this team over these samples. Files that the suite names are looked for in the working folder.
    ///
    /// # Errors
    /// The first fault of the suite.
    pub fn new(
        suite: SuiteSpec,
        team: &TeamSpec,
        samples: Vec<Sample>,
    ) -> Result<Self, EvaluationFault> {
        Self::in_folder(suite, team, samples, Path::new(""))
    }

    /// An evaluation whose suite names files (rubrics, verdicts of people) of this folder.
    ///
    /// # Errors
    /// The first fault of the suite.
    pub fn in_folder(
        suite: SuiteSpec,
        team: &TeamSpec,
        samples: Vec<Sample>,
        folder: &Path,
    ) -> Result<Self, EvaluationFault> {
        suite.check()?;
        let scorings = scoring_of(&suite.scorers, team, folder)?;
        let known = |name: &String| scorings.iter().any(|scoring| scoring.name() == name);
        if let Some(unknown) = suite.watch.iter().find(|name| !known(name)) {
            return Err(EvaluationFault::Suite(SuiteFault::Setting {
                setting: String::from("watch"),
                reason: format!("names the scorer {unknown:?}, which the suite does not have"),
            }));
        }
        let names: Vec<&str> = scorings.iter().map(Scoring::name).collect();
        if let Some(reason) = suite
            .reward
            .as_ref()
            .and_then(|reward| reward.fault(&names))
        {
            return Err(EvaluationFault::Suite(SuiteFault::Setting {
                setting: String::from("reward"),
                reason,
            }));
        }
        let pairwise = suite.pairwise.iter();
        let pair_judges = pairwise.map(|spec| PairJudge::new(spec, team, folder));
        let pair_judges = pair_judges.collect::<Result<Vec<_>, _>>()?;
        let mut names = BTreeSet::new();
        if let Some(twice) = pair_judges.iter().find(|judge| !names.insert(&judge.name)) {
            return Err(EvaluationFault::Scorer(ScorerFault {
                scorer: twice.name.clone(),
                reason: String::from("another judge of pairs has this name: give it a `name`"),
            }));
        }
        if samples.is_empty() {
            return Err(EvaluationFault::NoSamples(suite.evaluation));
        }
        let idle = suite.scorers.iter().find_map(|scorer| match scorer {
            ScorerSpec::Calls(spec) => spec.fault(&samples),
            _ => None,
        });
        if let Some(fault) = idle {
            return Err(fault.into());
        }
        let mut variants = Vec::new();
        for name in suite.variant_names() {
            let team = team_of(team, &name, &suite.variant(&name))?;
            variants.push(Variant::new(name, team));
        }
        Ok(Self {
            suite,
            samples,
            variants,
            scorings,
            pair_judges,
        })
    }

    /// The same evaluation with another scorer, beside those of the suite.
    #[must_use]
    pub fn scorer(mut self, scorer: impl Scorer + 'static) -> Self {
        self.scorings.push(Scoring::Pure(Box::new(scorer)));
        self
    }

    /// The suite.
    pub fn suite(&self) -> &SuiteSpec {
        &self.suite
    }

    /// The names of the scorers, in their order.
    pub fn scorer_names(&self) -> Vec<String> {
        self.scorings
            .iter()
            .map(|scorer| scorer.name().to_owned())
            .collect()
    }

    /// The digests of the suite's scorers, by their names: of their settings, and of the rubrics of judges.
    pub(crate) fn scorer_digests(&self) -> BTreeMap<String, String> {
        let scorers = self.suite.scorers.iter().zip(&self.scorings);
        let digests = scorers.map(|(spec, scoring)| {
            let settings = serde_json::to_vec(spec).unwrap_or_default();
            let mut parts = vec![settings.as_slice()];
            if let Scoring::Judge(judge) = scoring {
                // The name of its team has the digest of its rubric and its model.
                parts.extend(judge.teams().map(|team| team.name.as_bytes()));
            }
            let digest = Digest::of_parts(&parts).short();
            (scoring.name().to_owned(), format!("{digest:016x}"))
        });
        digests.collect()
    }

    /// The teams of the variants and of the judges, with this code behind their names. The System that carries the
    /// evaluation out must have all of them.
    pub fn teams(&self, registry: &Registry) -> Vec<Team> {
        let variants = self.variants.iter().map(|variant| Team {
            spec: variant.team.clone(),
            registry: registry.clone(),
        });
        let judging = registry
            .clone()
            .behavior(judges::BEHAVIOR, judges::behavior);
        let judges = self.judges().flat_map(Judge::teams);
        let pair_judges = self.pair_judges.iter().flat_map(PairJudge::teams);
        let mut judges: Vec<&TeamSpec> = judges.chain(pair_judges).collect();
        judges.sort_by(|a, b| a.name.cmp(&b.name));
        judges.dedup_by(|a, b| a.name == b.name);
        let judges = judges.into_iter().map(|team| Team {
            spec: team.clone(),
            registry: judging.clone(),
        });
        variants.chain(judges).collect()
    }

    /// The judges of single answers.
    pub(crate) fn judges(&self) -> impl Iterator<Item = &Judge> {
        self.scorings.iter().filter_map(|scoring| match scoring {
            Scoring::Judge(judge) => Some(judge),
            _ => None,
        })
    }

    /// How many cells it has.
    pub fn cells(&self) -> usize {
        self.samples.len() * self.variants.len() * self.suite.repeat as usize
    }

    /// Tries every cell, and scores what was recorded. A cell that an earlier call recorded costs nothing. `seen` is
    /// called with each cell as it is done, in the order of their ends; the result is in the order of variants, samples
    /// and repeats.
    ///
    /// # Errors
    /// The System's error, such as a store that cannot be written. All that is recorded by then stays.
    pub async fn run(
        &self,
        system: &System,
        seen: impl Fn(&Cell),
    ) -> Result<Vec<Cell>, SystemError> {
        self.run_within(system, Reach::Try, seen).await
    }

    /// The same within this reach. A cell that is not recorded and out of reach is `not_run`.
    ///
    /// # Errors
    /// The System's error.
    pub async fn run_within(
        &self,
        system: &System,
        reach: Reach,
        seen: impl Fn(&Cell),
    ) -> Result<Vec<Cell>, SystemError> {
        let purse = Purse::new(self.suite.budget);
        self.run_from(system, reach, &purse, seen).await
    }

    /// The same, at the expense of this budget.
    pub(crate) async fn run_from(
        &self,
        system: &System,
        reach: Reach,
        purse: &Purse,
        seen: impl Fn(&Cell),
    ) -> Result<Vec<Cell>, SystemError> {
        let places = self.variants.iter().flat_map(|variant| {
            let samples = self.samples.iter();
            samples.flat_map(move |sample| {
                (1..=self.suite.repeat).map(move |repeat| Place {
                    variant,
                    sample,
                    repeat,
                    reach,
                    prefix: None,
                })
            })
        });
        let asking = Asking {
            system,
            purse,
            may_ask: reach != Reach::Look,
        };
        self.cells_at(asking, places, seen).await
    }

    /// The cells at these places, in their order.
    async fn cells_at(
        &self,
        asking: Asking<'_>,
        places: impl Iterator<Item = Place<'_>>,
        seen: impl Fn(&Cell),
    ) -> Result<Vec<Cell>, SystemError> {
        let tries = places.enumerate().map(|(index, place)| {
            let seen = &seen;
            async move {
                let cell = self.cell(asking, place).await?;
                seen(&cell);
                Ok::<_, SystemError>((index, cell))
            }
        });
        let mut tried = stream::iter(tries).buffer_unordered(self.suite.concurrency as usize);
        let mut cells = Vec::new();
        while let Some(tried) = tried.next().await {
            cells.push(tried?);
        }
        cells.sort_by_key(|(index, _)| *index);
        Ok(cells.into_iter().map(|(_, cell)| cell).collect())
    }

    async fn cell(&self, asking: Asking<'_>, place: Place<'_>) -> Result<Cell, SystemError> {
        let (mut recording, mut judged) = (Recording::default(), Spent::default());
        let (place, exhausted) = place.within(asking.purse);
        let scored = self.scored(asking, &place, &mut recording, &mut judged);
        let result = scored.await?.or_exhausted(exhausted);
        let (reward, lowest_reward) = self.reward(&recording, &result);
        Ok(Cell {
            variant: place.variant.name.clone(),
            sample: place.sample.id.clone(),
            cluster: place.sample.cluster().to_owned(),
            tags: place.sample.tags.clone(),
            repeat: place.repeat,
            result,
            reward,
            lowest_reward,
            runs: recording.runs,
            spent: recording.spent,
            judged,
            latency_ms: recording.latency_ms,
        })
    }

    /// The reward of a cell, and the lowest one that it may have where a verdict cannot be read; `None` where the suite has
    /// none, or the cell says nothing about the agent.
    fn reward(&self, recording: &Recording, result: &CellResult) -> (Option<f64>, Option<f64>) {
        let Some(reward) = &self.suite.reward else {
            return (None, None);
        };
        let names: Vec<&str> = self.scorings.iter().map(Scoring::name).collect();
        let (scores, is_read) = match result {
            CellResult::Scored { scores } => {
                (scores, scores.values().all(|score| score.lowest.is_none()))
            }
            CellResult::Unreadable { scores, .. } => (scores, false),
            CellResult::AgentFailed { .. } => return (reward.of(recording, &names, None), None),
            CellResult::Infrastructure { .. } | CellResult::NotRun { .. } => return (None, None),
        };
        let lowest = (!is_read).then(|| reward.lowest(recording, &names, scores));
        (reward.of(recording, &names, Some(scores)), lowest.flatten())
    }

    /// The key of a cell. A variant that was changed is tried anew, and so is a fork of another beginning.
    fn key(&self, place: &Place<'_>) -> String {
        let (evaluation, variant) = (&self.suite.evaluation, place.variant);
        let Some(prefix) = place.prefix else {
            return cell::key(evaluation, &variant.digest, place.sample, place.repeat);
        };
        let (sample, run) = (&place.sample.id, prefix.run.short());
        format!(
            "{evaluation}/{sample}/fork-{run}-{}/{}/{}/{:016x}",
            prefix.entries,
            variant.name,
            place.repeat,
            variant.digest.short()
        )
    }

    /// Tries a cell, and scores what was recorded of it.
    async fn scored(
        &self,
        asking: Asking<'_>,
        place: &Place<'_>,
        recording: &mut Recording,
        judged: &mut Spent,
    ) -> Result<CellResult, SystemError> {
        let key = self.key(place);
        let tried = self.attempts(asking.system, place, &key, recording).await?;
        asking.purse.add(&recording.spent);
        if let Some(result) = tried {
            return Ok(result);
        }
        let cell = format!("{}/{key}", place.team().name);
        let recorded = (&*recording, place.sample);
        let watched = &self.suite.watch;
        score(&self.scorings, watched, asking, &cell, recorded, judged).await
    }

    /// Tries a cell; `None` where it has an answer. An attempt that an earlier start of the evaluation recorded, and whose
    /// server failed, is followed by another one, and so is one that was deleted since.
    async fn attempts(
        &self,
        system: &System,
        place: &Place<'_>,
        key: &str,
        recording: &mut Recording,
    ) -> Result<Option<CellResult>, SystemError> {
        let (mut attempts, mut failures) = (Attempts::new(key), 0);
        loop {
            let mut read = Recording::default();
            let key = attempts.key();
            let tried = self.attempt(system, place, &key, &mut read).await;
            let Some((tried, was_recorded)) = attempts.there(tried)? else {
                continue;
            };
            // What was recorded of the attempt before stands where this one is out of reach.
            if failures > 0 && matches!(tried, Some(CellResult::NotRun { .. })) {
                return Ok(Some(CellResult::Infrastructure {
                    why: String::from("its server failed, and it was not tried again"),
                }));
            }
            *recording = read;
            failures += 1;
            let failed = matches!(tried, Some(CellResult::Infrastructure { .. }));
            if !failed || !was_recorded || failures == ATTEMPTS {
                return Ok(tried);
            }
            attempts.next();
        }
    }

    /// One attempt of a cell, in a session of its own, and whether it had ended before.
    async fn attempt(
        &self,
        system: &System,
        place: &Place<'_>,
        key: &str,
        recording: &mut Recording,
    ) -> Result<(Option<CellResult>, bool), SystemError> {
        let session = system.session(&place.team().name, key);
        let mut was_recorded = true;
        for (turn, text) in place.turns(key) {
            let recorded = system.run(RunId::of_turn(session.id(), &turn));
            was_recorded = was_recorded && read_ended(&recorded, recording).await?;
            let stuck = match (was_recorded, place.reach, place.prefix) {
                (true, ..) => None,
                (false, Reach::Try, prefix) => {
                    let run = match prefix {
                        Some(prefix) => prefix.fork(system, place.variant, key).await?,
                        None => {
                            let turn = Turn::text(text).id(turn);
                            let tools = place.sample.tools.iter();
                            let turn = tools.fold(turn, |turn, tool| turn.tool(definition(tool)));
                            session.send(turn).await?
                        }
                    };
                    let stuck = self.settle(system, &run).await?;
                    read_run(&run, recording).await?;
                    stuck
                }
                (false, Reach::Score | Reach::Look, _) => {
                    let why = String::from("it is not recorded");
                    return Ok((Some(CellResult::NotRun { why }), false));
                }
            };
            if let Some(result) = stuck.or_else(|| unanswered(recording)) {
                return Ok((Some(result), was_recorded));
            }
        }
        Ok((None, was_recorded))
    }
}

/// A variant's team.
#[derive(Debug)]
struct Variant {
    name: String,
    team: TeamSpec,
    /// The digest of the team's definition, for the keys of all its cells.
    digest: Digest,
}

impl Variant {
    fn new(name: String, team: TeamSpec) -> Self {
        let digest = Digest::of(&serde_json::to_vec(&team).unwrap_or_default());
        Self { name, team, digest }
    }
}

/// The place of a cell in the evaluation.
struct Place<'a> {
    variant: &'a Variant,
    sample: &'a Sample,
    repeat: u32,
    reach: Reach,
    /// The beginning of a recorded run that it continues, where it is a fork.
    prefix: Option<&'a Prefix<'a>>,
}

impl Place<'_> {
    /// Its turns: the id of each, and what is said in it.
    fn turns(&self, key: &str) -> Vec<(String, &str)> {
        if self.prefix.is_some() {
            return vec![(Fork::TURN.to_owned(), "")];
        }
        let texts = self.sample.texts().into_iter().zip(1..);
        texts
            .map(|(text, number)| (format!("{key}#{number}"), text))
            .collect()
    }

    /// The team that carries the cell.
    fn team(&self) -> &TeamSpec {
        let variant = self.prefix.map_or(self.variant, |prefix| prefix.base);
        &variant.team
    }

    /// The same place, and why nothing may be consumed there any more, if so. What is recorded costs nothing, so it stays in
    /// reach.
    fn within(mut self, purse: &Purse) -> (Self, Option<String>) {
        let exhausted = purse.exhausted();
        if exhausted.is_some() {
            self.reach = Reach::Look;
        }
        (self, exhausted)
    }
}

/// A tool that a sample offers. Nothing is behind it, so a call has no effect.
fn definition(tool: &OfferedTool) -> ToolDefinition {
    ToolDefinition::new(&tool.name, &tool.description)
        .parameters(tool.parameters.clone())
        .effect(Effect::Read)
}

/// The result of a cell whose last turn has no answer.
fn unanswered(recording: &Recording) -> Option<CellResult> {
    match &recording.end {
        Some(End::Answered(_)) => None,
        Some(End::Stopped(reason)) => Some(CellResult::AgentFailed {
            why: reason.to_string(),
        }),
        Some(End::Failed(error)) => {
            let why = error.to_string();
            Some(match is_infrastructure(error) {
                true => CellResult::Infrastructure { why },
                false => CellResult::AgentFailed { why },
            })
        }
        None => Some(CellResult::Infrastructure {
            why: String::from("its end is not recorded"),
        }),
    }
}

/// Whether an error is one of a server, a network or the store, and no fault of the agent.
fn is_infrastructure(error: &AgentError) -> bool {
    let AgentError::Operation(OperationError {
        kind,
        cause,
        retryable,
        ..
    }) = error
    else {
        return false;
    };
    match (kind, cause) {
        (ErrorKind::Delegation, Some(cause)) => is_infrastructure(cause),
        // A time limit that the team sets its members and tools; that of a server is worth another try.
        (ErrorKind::Timeout, _) => *retryable,
        (kind, _) => matches!(
            kind,
            ErrorKind::Model
                | ErrorKind::Authentication
                | ErrorKind::RateLimited
                | ErrorKind::Store
                | ErrorKind::Overloaded
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_of_the_team_and_an_endless_answer_are_no_fault_of_a_server() {
        let late = OperationError::new(ErrorKind::Timeout, "more than 5 s");
        assert!(!is_infrastructure(&late.clone().into()));
        assert!(is_infrastructure(&late.retryable().into()));
        let endless = OperationError::new(ErrorKind::TooLarge, "an answer without an end");
        assert!(!is_infrastructure(&endless.into()));
    }
}
