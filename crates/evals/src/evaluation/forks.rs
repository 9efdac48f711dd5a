//! Forks: recorded runs go on from one point in each variant, so that all sides have the same beginning.

use std::sync::Mutex;

use futures_util::{StreamExt as _, stream};
use ghostlight_actors::{
    actor::{Fork, System, SystemError},
    contract::StoreHandle,
    vocabulary::{Entry, Family, RunId, Spent},
};

use super::{Evaluation, Place, exhausted, read, unanswered};
use crate::{
    cell::{Cell, CellResult},
    recording::Recording,
    suite::{Sample, variant_in},
};

/// The cells of forked runs, and the samples that have none.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Forked {
    /// The cells, in the order of variants, samples and repeats.
    pub cells: Vec<Cell>,
    /// The samples whose recorded run has not so many steps, or is not recorded.
    pub left_out: Vec<String>,
}

/// A recorded run, and the place at which its forks begin.
struct Prefix<'a> {
    sample: &'a Sample,
    run: RunId,
    entries: u64,
}

impl Evaluation {
    /// Takes the recorded run of each sample in the first variant (that of the gate, where it names one), in its first
    /// repeat, and lets it go on from after its first `steps` steps: as often as the suite repeats, in each variant. What
    /// was done before that point is not done again. A fork that an earlier call made costs nothing.
    ///
    /// # Errors
    /// The System's error, such as [`SystemError::Fork`] for a variant with other tools or models, with which a run cannot
    /// go on.
    pub async fn fork(
        &self,
        system: &System,
        steps: u32,
        seen: impl Fn(&Cell),
    ) -> Result<Forked, SystemError> {
        let base = self.base();
        let mut forked = Forked::default();
        let mut prefixes = Vec::new();
        for sample in &self.samples {
            match self.prefix(system.store(), base, sample, steps).await? {
                Some(prefix) => prefixes.push(prefix),
                None => forked.left_out.push(sample.id.clone()),
            }
        }
        let spent = Mutex::new(Spent::default());
        let places = self.variants.iter().flat_map(|(name, team)| {
            prefixes.iter().flat_map(move |prefix| {
                (1..=self.suite.repeat).map(move |repeat| {
                    let place = Place {
                        name,
                        team,
                        sample: prefix.sample,
                        repeat,
                    };
                    (place, prefix)
                })
            })
        });
        let tries = places.enumerate().map(|(index, (place, prefix))| {
            let (spent, seen) = (&spent, &seen);
            async move {
                let cell = self
                    .forked_cell(system, (place, prefix), base, spent)
                    .await?;
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
        forked.cells = cells.into_iter().map(|(_, cell)| cell).collect();
        Ok(forked)
    }

    /// The place of the variant whose recorded runs are forked.
    fn base(&self) -> usize {
        let against = self
            .suite
            .gate
            .as_ref()
            .and_then(|gate| gate.against.as_ref());
        let place =
            against.and_then(|against| self.variants.iter().position(|(name, _)| name == against));
        place.unwrap_or(0)
    }

    /// Where the forks of a sample's recorded run begin; `None` where it has not so many steps, or none after them.
    async fn prefix<'a>(
        &self,
        store: &StoreHandle,
        base: usize,
        sample: &'a Sample,
        steps: u32,
    ) -> Result<Option<Prefix<'a>>, SystemError> {
        let (name, team) = &self.variants[base];
        let place = Place {
            name,
            team,
            sample,
            repeat: 1,
        };
        let cell = self.recorded_cell(store, &place).await?;
        let Some(run) = cell.and_then(|cell| cell.runs.last().copied()) else {
            return Ok(None);
        };
        let entries = step_after(store, run, steps).await?;
        Ok(entries.map(|entries| Prefix {
            sample,
            run,
            entries,
        }))
    }

    async fn forked_cell(
        &self,
        system: &System,
        (place, prefix): (Place<'_>, &Prefix<'_>),
        base: usize,
        spent: &Mutex<Spent>,
    ) -> Result<Cell, SystemError> {
        let mut recording = Recording::default();
        let over = spent
            .lock()
            .ok()
            .and_then(|spent| exhausted(&self.suite.budget, &spent));
        let result = match over {
            Some(what) => CellResult::NotRun {
                why: format!("the evaluation's budget of {what} is used up"),
            },
            None => {
                let (base_name, base_team) = &self.variants[base];
                let key = format!(
                    "{}/{}/fork-{}-{}/{}/{}",
                    self.suite.evaluation,
                    place.sample.id,
                    prefix.run.short(),
                    prefix.entries,
                    place.name,
                    place.repeat
                );
                let mut fork = Fork::at(prefix.entries).session(key);
                if place.name != base_name {
                    // The run goes on in its own team, whose definition is that of the variant.
                    fork = fork.team(variant_in(base_team, place.team));
                }
                let run = system.run(prefix.run).fork(fork).await?;
                let stuck = self.settle(system, &run).await?;
                read(&run, &mut recording).await?;
                match stuck.or_else(|| unanswered(&recording)) {
                    Some(result) => result,
                    None => {
                        let scorers = self.scorers.iter();
                        let scores = scorers.map(|scorer| {
                            let score = scorer.score(&recording, place.sample);
                            (scorer.name().to_owned(), score)
                        });
                        let scores = scores.collect();
                        CellResult::Scored { scores }
                    }
                }
            }
        };
        if let Ok(mut spent) = spent.lock() {
            let calls = recording.spent.model_calls;
            spent.model_calls = spent.model_calls.saturating_add(calls);
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
