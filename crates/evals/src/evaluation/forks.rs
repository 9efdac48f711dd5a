//! Forks: recorded runs continue from one point in each variant, so that all sides have the same beginning.

use ghostlight_actors::{
    actor::{Fork, Run, System, SystemError},
    contract::StoreHandle,
    vocabulary::{Entry, Family, RunId},
};

use super::{Evaluation, Place, Reach, Variant};
use crate::{
    cell::{Cell, CellResult},
    judges::Asking,
    purse::Purse,
    suite::{Sample, variant_in},
};

/// The cells of forked runs, and the samples that have none.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Forked {
    /// The cells, in the order of variants, samples and repeats.
    pub cells: Vec<Cell>,
    /// The samples whose recorded run is too short, or is not recorded.
    pub left_out: Vec<String>,
}

/// A recorded run, and the place at which its forks begin.
pub(super) struct Prefix<'a> {
    pub(super) sample: &'a Sample,
    pub(super) run: RunId,
    pub(super) entries: u64,
    /// The variant that recorded it, whose team carries the forks.
    pub(super) base: &'a Variant,
}

impl Evaluation {
    /// Takes the recorded run of each sample in the first variant (that of the gate, where it names one), in its first
    /// repeat, and lets it continue from after its first `steps` steps: as often as the suite repeats, in each variant. What
    /// was done before that point is not done again. A fork that an earlier call made costs nothing.
    ///
    /// # Errors
    /// The System's error, such as [`SystemError::Fork`] for a variant with other tools or models, with which a run cannot
    /// continue.
    pub async fn fork(
        &self,
        system: &System,
        steps: u32,
        seen: impl Fn(&Cell),
    ) -> Result<Forked, SystemError> {
        self.forks_of(system, (&self.samples, steps), Reach::Try, seen)
            .await
    }

    /// The forks of one sample that an earlier call made, with their scores, in the order of variants and repeats. Nothing
    /// is forked, and no model is asked.
    ///
    /// # Errors
    /// The entry that cannot be read.
    pub async fn recorded_forks(
        &self,
        system: &System,
        sample: &Sample,
        steps: u32,
    ) -> Result<Vec<Cell>, SystemError> {
        let samples = std::slice::from_ref(sample);
        let forked = self.forks_of(system, (samples, steps), Reach::Look, |_| {});
        let mut cells = forked.await?.cells;
        cells.retain(|cell| !matches!(cell.result, CellResult::NotRun { .. }));
        Ok(cells)
    }

    async fn forks_of(
        &self,
        system: &System,
        (samples, steps): (&[Sample], u32),
        reach: Reach,
        seen: impl Fn(&Cell),
    ) -> Result<Forked, SystemError> {
        let name = self.base();
        let base = self
            .variants
            .iter()
            .position(|variant| variant.name == name);
        let base = base.unwrap_or(0);
        let mut forked = Forked::default();
        let mut prefixes = Vec::new();
        for sample in samples {
            match self.prefix(system, base, sample, steps).await? {
                Some(prefix) => prefixes.push(prefix),
                None => forked.left_out.push(sample.id.clone()),
            }
        }
        let purse = Purse::new(self.suite.budget);
        let asking = Asking {
            system,
            purse: &purse,
            may_ask: reach != Reach::Look,
        };
        let places = self.variants.iter().flat_map(|variant| {
            prefixes.iter().flat_map(move |prefix| {
                (1..=self.suite.repeat).map(move |repeat| Place {
                    variant,
                    sample: prefix.sample,
                    repeat,
                    reach,
                    prefix: Some(prefix),
                })
            })
        });
        forked.cells = self.cells_at(asking, places, seen).await?;
        Ok(forked)
    }

    /// Where the forks of a sample's recorded run begin; `None` where it has fewer steps, or none after them.
    async fn prefix<'a>(
        &'a self,
        system: &System,
        base: usize,
        sample: &'a Sample,
        steps: u32,
    ) -> Result<Option<Prefix<'a>>, SystemError> {
        let cell = self.recorded_cell(system, base, sample, 1).await?;
        let Some(run) = cell.and_then(|cell| cell.runs.last().copied()) else {
            return Ok(None);
        };
        let entries = step_after(system.store(), run, steps).await?;
        Ok(entries.map(|entries| Prefix {
            sample,
            run,
            entries,
            base: &self.variants[base],
        }))
    }
}

impl Prefix<'_> {
    /// Lets the run continue in a variant, in a session of this key.
    pub(super) async fn fork(
        &self,
        system: &System,
        variant: &Variant,
        key: &str,
    ) -> Result<Run, SystemError> {
        let mut fork = Fork::at(self.entries).session(key);
        if variant.name != self.base.name {
            // The run continues in its own team, whose definition is that of the variant.
            fork = fork.team(variant_in(&self.base.team, &variant.team));
        }
        system.run(self.run).fork(fork).await
    }
}

/// How many entries a run has before the model call that follows its first steps; `None` where there is none.
async fn step_after(
    store: &StoreHandle,
    run: RunId,
    steps: u32,
) -> Result<Option<u64>, SystemError> {
    const PAGE: usize = 1_024;
    let (mut from, mut seen) = (0, 0);
    loop {
        let page = store.read(run.into(), from, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(None);
        };
        from = last.sequence + 1;
        for line in &page {
            if let Entry::Completed { kind, .. } = line.decode(&run.into())?
                && Family::of(&kind) == Family::Model
            {
                if seen == steps {
                    return Ok(Some(line.sequence));
                }
                seen += 1;
            }
        }
    }
}
