//! Carrying out an evaluation: each cell is a turn of its variant's team.

mod forks;
mod recorded;

use std::sync::Mutex;

use futures_util::{StreamExt as _, stream};
use ghostlight_actors::{
    actor::{Run, System, SystemError},
    contract::RunStatus,
    definition::TeamSpec,
    session::Turn,
    vocabulary::{
        AgentError, Effect, ErrorKind, OperationError, QuestionKind, RunId, Spent, ToolDefinition,
    },
};
use serde_json::Value;

use crate::{
    cell::{self, Cell, CellResult},
    recording::{End, Recording},
    scorers::{Scorer, ScorerFault, scorers_of},
    suite::{
        OfferedTool, Sample, SuiteBudget, SuiteFault, SuiteSpec, VariantFault, WhenAsked, team_of,
    },
};

pub use self::forks::Forked;

/// How often a cell whose server failed is tried anew, over all times that the evaluation is started.
const ATTEMPTS: u32 = 5;

/// An evaluation that can be carried out.
#[derive(Debug)]
pub struct Evaluation {
    suite: SuiteSpec,
    samples: Vec<Sample>,
    variants: Vec<(String, TeamSpec)>,
    scorers: Vec<Box<dyn Scorer>>,
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
    /// An evaluation of this team over these samples.
    ///
    /// # Errors
    /// The first fault of the suite.
    pub fn new(
        suite: SuiteSpec,
        team: &TeamSpec,
        samples: Vec<Sample>,
    ) -> Result<Self, EvaluationFault> {
        suite.check()?;
        let scorers = scorers_of(&suite.scorers)?;
        if samples.is_empty() {
            return Err(EvaluationFault::NoSamples(suite.evaluation));
        }
        let mut variants = Vec::new();
        for name in suite.variant_names() {
            let spec = team_of(team, &name, &suite.variant(&name))?;
            variants.push((name, spec));
        }
        Ok(Self {
            suite,
            samples,
            variants,
            scorers,
        })
    }

    /// The same evaluation with another scorer, beside those of the suite.
    #[must_use]
    pub fn scorer(mut self, scorer: impl Scorer + 'static) -> Self {
        self.scorers.push(Box::new(scorer));
        self
    }

    /// The suite.
    pub fn suite(&self) -> &SuiteSpec {
        &self.suite
    }

    /// The names of the scorers, in their order.
    pub fn scorer_names(&self) -> Vec<String> {
        self.scorers
            .iter()
            .map(|scorer| scorer.name().to_owned())
            .collect()
    }

    /// The teams of the variants. The System that carries the evaluation out must have all of them.
    pub fn teams(&self) -> impl Iterator<Item = &TeamSpec> {
        self.variants.iter().map(|(_, team)| team)
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
        let spent = Mutex::new(Spent::default());
        let places = self.variants.iter().flat_map(|(name, team)| {
            let samples = self.samples.iter();
            samples.flat_map(move |sample| {
                (1..=self.suite.repeat).map(move |repeat| (name, team, sample, repeat))
            })
        });
        let tries = places
            .enumerate()
            .map(|(index, (name, team, sample, repeat))| {
                let (spent, seen) = (&spent, &seen);
                async move {
                    let place = Place {
                        name,
                        team,
                        sample,
                        repeat,
                    };
                    let cell = self.cell(system, place, spent).await?;
                    seen(&cell);
                    Ok::<_, SystemError>((index, cell))
                }
            });
        let mut tried = stream::iter(tries).buffer_unordered(self.suite.concurrency as usize);
        let mut cells = Vec::with_capacity(self.cells());
        while let Some(tried) = tried.next().await {
            cells.push(tried?);
        }
        cells.sort_by_key(|(index, _)| *index);
        Ok(cells.into_iter().map(|(_, cell)| cell).collect())
    }

    async fn cell(
        &self,
        system: &System,
        place: Place<'_>,
        spent: &Mutex<Spent>,
    ) -> Result<Cell, SystemError> {
        let exhausted = spent
            .lock()
            .ok()
            .and_then(|spent| exhausted(&self.suite.budget, &spent));
        let mut recording = Recording::default();
        let result = match exhausted {
            Some(what) => CellResult::NotRun {
                why: format!("the evaluation's budget of {what} is used up"),
            },
            None => self.attempts(system, &place, &mut recording).await?,
        };
        if let Ok(mut spent) = spent.lock() {
            spent.model_calls = spent
                .model_calls
                .saturating_add(recording.spent.model_calls);
            spent.usage += recording.spent.usage;
        }
        Ok(Cell {
            variant: place.name.to_owned(),
            sample: place.sample.id.clone(),
            cluster: place.sample.cluster().to_owned(),
            tags: place.sample.tags.clone(),
            repeat: place.repeat,
            result,
            runs: recording.runs,
            spent: recording.spent,
            latency_ms: recording.latency_ms,
        })
    }

    /// Tries a cell. An attempt that an earlier start of the evaluation recorded, and whose server failed, is followed by
    /// another one.
    async fn attempts(
        &self,
        system: &System,
        place: &Place<'_>,
        recording: &mut Recording,
    ) -> Result<CellResult, SystemError> {
        let key = cell::key(
            &self.suite.evaluation,
            place.team,
            place.sample,
            place.repeat,
        );
        let mut attempt = 1;
        loop {
            let key = match attempt {
                1 => key.clone(),
                attempt => format!("{key}/{attempt}"),
            };
            *recording = Recording::default();
            let (tried, was_recorded) = self.attempt(system, place, &key, recording).await?;
            let failed = matches!(tried, CellResult::Infrastructure { .. });
            if !failed || !was_recorded || attempt == ATTEMPTS {
                return Ok(tried);
            }
            attempt += 1;
        }
    }

    /// One attempt of a cell, in a session of its own, and whether it had ended before.
    async fn attempt(
        &self,
        system: &System,
        place: &Place<'_>,
        key: &str,
        recording: &mut Recording,
    ) -> Result<(CellResult, bool), SystemError> {
        let session = system.session(&place.team.name, key);
        let mut was_recorded = true;
        for (number, text) in place.sample.texts().into_iter().enumerate() {
            let id = format!("{key}#{}", number + 1);
            was_recorded &= has_ended(system, RunId::of_turn(session.id(), &id)).await?;
            let mut turn = Turn::text(text).id(id);
            for tool in &place.sample.tools {
                turn = turn.tool(definition(tool));
            }
            let run = session.send(turn).await?;
            if let Some(result) = self.settle(system, &run).await? {
                read(&run, recording).await?;
                return Ok((result, was_recorded));
            }
            read(&run, recording).await?;
            if let Some(result) = unanswered(recording) {
                return Ok((result, was_recorded));
            }
        }
        let scores = self.scorers.iter().map(|scorer| {
            let score = scorer.score(recording, place.sample);
            (scorer.name().to_owned(), score)
        });
        let scores = scores.collect();
        Ok((CellResult::Scored { scores }, was_recorded))
    }

    /// Waits until the run has ended, and answers what it asks. A run that cannot end by itself is cancelled; then the
    /// result says why.
    async fn settle(&self, system: &System, run: &Run) -> Result<Option<CellResult>, SystemError> {
        loop {
            let row = run.wait().await?;
            let stuck = match row.status {
                RunStatus::Waiting
                    if row.wake_at.is_some() && run.questions().await?.is_empty() =>
                {
                    String::from("it sleeps until a time of its own")
                }
                RunStatus::Waiting => match self.answer(system, run).await? {
                    None => continue,
                    Some(why) => why,
                },
                RunStatus::Parked => String::from("it is parked: `ghostlight show` says why"),
                _ => return Ok(None),
            };
            run.cancel(&stuck).await?;
            run.wait().await?;
            return Ok(Some(CellResult::AgentFailed { why: stuck }));
        }
    }

    /// Answers the open questions of a run, as the suite says; or says why that cannot be done.
    async fn answer(&self, system: &System, run: &Run) -> Result<Option<String>, SystemError> {
        let questions = run.questions().await?;
        if questions.is_empty() {
            return Ok(Some(String::from(
                "it waits for a message or a result from outside",
            )));
        }
        for (asked_by, operation, question) in questions {
            if question.kind == QuestionKind::ToolResult {
                // The sample offered the tool, and nothing is behind it.
                let result = Value::from("The call is recorded.");
                system.run(asked_by).answer(operation, result).await?;
                continue;
            }
            let approves = match (self.suite.questions, &question.kind) {
                (WhenAsked::Approve, QuestionKind::Approval) => true,
                (WhenAsked::Deny, QuestionKind::Approval) => false,
                _ => return Ok(Some(format!("it asked a person: {}", question.prompt))),
            };
            system
                .run(asked_by)
                .answer(operation, Value::Bool(approves))
                .await?;
        }
        Ok(None)
    }
}

/// The place of a cell in the evaluation.
struct Place<'a> {
    name: &'a str,
    team: &'a TeamSpec,
    sample: &'a Sample,
    repeat: u32,
}

/// A tool that a sample offers. Nothing is behind it, so a call has no effect.
fn definition(tool: &OfferedTool) -> ToolDefinition {
    ToolDefinition::new(&tool.name, &tool.description)
        .parameters(tool.parameters.clone())
        .effect(Effect::Read)
}

/// Whether this run is in the store, with an end.
async fn has_ended(system: &System, run: RunId) -> Result<bool, SystemError> {
    match system.run(run).status().await {
        Ok(row) => Ok(row.status.is_ended()),
        Err(SystemError::UnknownRun(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads what is recorded of a run and of the runs below it.
async fn read(run: &Run, recording: &mut Recording) -> Result<(), SystemError> {
    let mut events = run.events().recorded();
    let mut records = Vec::new();
    while let Some(record) = events.next().await {
        records.push(record?);
    }
    recording.add_turn(run.id(), &records);
    Ok(())
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
    let AgentError::Operation(OperationError { kind, cause, .. }) = error else {
        return false;
    };
    match (kind, cause) {
        (ErrorKind::Delegation, Some(cause)) => is_infrastructure(cause),
        (kind, _) => matches!(
            kind,
            ErrorKind::Model
                | ErrorKind::Authentication
                | ErrorKind::RateLimited
                | ErrorKind::Store
                | ErrorKind::Timeout
                | ErrorKind::Overloaded
        ),
    }
}

/// The resource of which everything is used up.
fn exhausted(budget: &SuiteBudget, spent: &Spent) -> Option<&'static str> {
    let bounds = [
        ("cost_micros", budget.cost_micros, spent.usage.cost_micros),
        ("tokens", budget.tokens, spent.usage.total_tokens()),
        ("model_calls", budget.model_calls, spent.model_calls),
    ];
    let over = bounds
        .into_iter()
        .find(|(_, bound, used)| bound.is_some_and(|bound| *used >= bound));
    over.map(|(what, ..)| what)
}
