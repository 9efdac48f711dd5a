//! Writing trajectories, a sample or a run at a time.

use ghostlight_actors::{
    actor::{System, SystemError},
    contract::{RunStatus, StoreHandle},
    vocabulary::RunId,
};
use ghostlight_safety::redact_json;
use serde_json::Value;

use super::{Form, Trajectory, TrajectoryFault, Verdict};
use crate::{Cell, Evaluation, suite::Sample};

/// The treatment of texts that look like secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Secrets {
    /// It is exported.
    Keep,
    /// It is left out.
    Redact,
    /// Nothing that holds one is exported.
    Refuse,
}

/// An export that cannot continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportFault {
    /// A trajectory cannot be read.
    #[error(transparent)]
    Trajectory(#[from] TrajectoryFault),
    /// A trajectory holds what looks like a secret.
    #[error("run {0} holds what looks like a secret")]
    Secret(RunId),
}

impl From<SystemError> for ExportFault {
    fn from(error: SystemError) -> Self {
        Self::Trajectory(error.into())
    }
}

/// Makes training rows of recorded turns. It calls no model, and holds the trajectories of one row at a time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Export {
    /// The form of the rows.
    pub form: Form,
    /// The treatment of secrets.
    pub secrets: Secrets,
    /// Whether examples to follow are also made of turns that did not succeed.
    pub all: bool,
    /// Where the forks of an evaluation's runs are exported, and not the runs: how many steps they share.
    pub forks: Option<u32>,
}

/// Rows, and the turns without any.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Rows {
    /// The rows.
    pub rows: Vec<Value>,
    /// How many turns, or pairs of them, have no row.
    pub left_out: u64,
}

impl Export {
    /// An export in this form, which refuses secrets.
    pub fn new(form: Form) -> Self {
        Self {
            form,
            secrets: Secrets::Refuse,
            all: false,
            forks: None,
        }
    }

    /// Sets what becomes of secrets.
    #[must_use]
    pub fn secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Makes examples to follow of turns that did not succeed, too.
    #[must_use]
    pub fn all(mut self, all: bool) -> Self {
        self.all = all;
        self
    }

    /// Exports the forks that share this many steps ([`Evaluation::fork`]), and not the runs of the evaluation.
    #[must_use]
    pub fn forks(mut self, steps: Option<u32>) -> Self {
        self.forks = steps;
        self
    }

    /// The rows of one sample of an evaluation, of all that is recorded of it.
    ///
    /// # Errors
    /// [`ExportFault::Secret`], and what cannot be read.
    pub async fn sample(
        &self,
        system: &System,
        evaluation: &Evaluation,
        sample: &Sample,
    ) -> Result<Rows, ExportFault> {
        let store = system.store();
        let cells = match self.forks {
            None => evaluation.recorded(system, sample).await?,
            Some(steps) => evaluation.recorded_forks(system, sample, steps).await?,
        };
        if self.form.takes_pairs() {
            return self.pairs(store, &cells).await;
        }
        let mut rows = Rows::default();
        for cell in &cells {
            let Some(run) = cell.runs.last() else {
                continue;
            };
            let verdict = Verdict::of(cell);
            if self.form.takes_successes_only() && !self.all && verdict.success != Some(true) {
                rows.left_out += 1;
                continue;
            }
            let shown = self.shown(sample, *run)?;
            let trajectory = self.read(store, *run).await?;
            rows.add(self.form.rows(&trajectory, Some(&shown), verdict));
            if self.form.takes_samples() {
                break;
            }
        }
        Ok(rows)
    }

    /// The rows of a recorded turn that no evaluation has scored.
    ///
    /// # Errors
    /// [`ExportFault::Secret`], and what cannot be read.
    pub async fn run(&self, store: &StoreHandle, run: RunId) -> Result<Rows, ExportFault> {
        let mut rows = Rows::default();
        let row = store.run(run).await.map_err(SystemError::from)?;
        let has_answered = row.is_some_and(|row| row.status == RunStatus::Answered);
        if self.form.takes_successes_only() && !self.all && !has_answered {
            rows.left_out = 1;
            return Ok(rows);
        }
        let trajectory = self.read(store, run).await?;
        rows.add(self.form.rows(&trajectory, None, Verdict::default()));
        Ok(rows)
    }

    /// One pair for each variant: its best repeat and its worst one, where their rewards differ.
    async fn pairs(&self, store: &StoreHandle, cells: &[Cell]) -> Result<Rows, ExportFault> {
        let mut rows = Rows::default();
        for of_variant in cells.chunk_by(|a, b| a.variant == b.variant) {
            let rewarded = of_variant.iter().filter_map(|cell| {
                let reward = Verdict::of(cell).reward?;
                Some((reward, *cell.runs.last()?))
            });
            let rewarded: Vec<(f64, RunId)> = rewarded.collect();
            let by_reward = |a: &&(f64, RunId), b: &&(f64, RunId)| a.0.total_cmp(&b.0);
            // Of several best ones the first is taken, and so with the worst ones.
            let best = rewarded.iter().rev().max_by(by_reward);
            let worst = rewarded.iter().min_by(by_reward);
            let (Some(best), Some(worst)) = (best, worst) else {
                continue;
            };
            if best.0 <= worst.0 {
                continue;
            }
            let better = self.read(store, best.1).await?;
            let worse = self.read(store, worst.1).await?;
            rows.add(self.form.pair(&better, &worse).into_iter().collect());
        }
        Ok(rows)
    }

    async fn read(&self, store: &StoreHandle, run: RunId) -> Result<Trajectory, ExportFault> {
        let trajectory = Trajectory::read(store, run).await?;
        if self.secrets == Secrets::Keep {
            return Ok(trajectory);
        }
        match (trajectory.redacted(), self.secrets) {
            ((_, true), Secrets::Refuse) => Err(ExportFault::Secret(run)),
            ((shown, _), _) => Ok(shown),
        }
    }

    /// The sample, whose expected answer stands in some rows.
    fn shown(&self, sample: &Sample, run: RunId) -> Result<Sample, ExportFault> {
        let mut shown = sample.clone();
        if self.secrets != Secrets::Keep {
            shown.expected = sample.expected.as_ref().map(redact_json);
        }
        match self.secrets == Secrets::Refuse && shown != *sample {
            true => Err(ExportFault::Secret(run)),
            false => Ok(shown),
        }
    }
}

impl Rows {
    fn add(&mut self, rows: Vec<Value>) {
        if rows.is_empty() {
            self.left_out += 1;
        }
        self.rows.extend(rows);
    }
}
