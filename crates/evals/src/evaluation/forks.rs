//! Forks: recorded runs go on from one point in each variant, so that all sides have the same beginning.

use futures_util::{StreamExt as _, stream};
use ghostlight_actors::{
    actor::{Fork, System, SystemError},
    contract::StoreHandle,
    vocabulary::{Entry, Family, RunId, Spent},
};

use super::{Evaluation, Place, Reach, unanswered};
use crate::{
    cell::{Cell, CellResult},
    judges::Asking,
    purse::Purse,
    recording::{Recording, read_run},
    scoring::score,
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
            match self.prefix(system, base, sample, steps).await? {
                Some(prefix) => prefixes.push(prefix),
                None => forked.left_out.push(sample.id.clone()),
            }
        }
        let purse = Purse::new(self.suite.budget);
        let asking = Asking {
            system,
            purse: &purse,
            may_ask: true,
        };
        let places = self.variants.iter().flat_map(|(name, team)| {
            prefixes.iter().flat_map(move |prefix| {
                (1..=self.suite.repeat).map(move |repeat| {
                    let place = Place {
                        name,
                        team,
                        sample: prefix.sample,
                        repeat,
                        reach: Reach::Try,
                    };
                    (place, prefix)
                })
            })
        });
        let tries = places.enumerate().map(|(index, (place, prefix))| {
            let seen = &seen;
            async move {
                let (mut recording, mut judged) = (Recording::default(), Spent::default());
                let read = (&mut recording, &mut judged);
                let result = match asking.purse.exhausted() {
                    Some(why) => CellResult::NotRun { why },
                    None => self.gone_on(asking, &place, (prefix, base), read).await?,
                };
                let cell = self.told(&place, result, recording, judged);
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
        }))
    }

    /// Lets a recorded run go on in a variant, and scores what it does.
    async fn gone_on(
        &self,
        asking: Asking<'_>,
        place: &Place<'_>,
        (prefix, base): (&Prefix<'_>, usize),
        (recording, judged): (&mut Recording, &mut Spent),
    ) -> Result<CellResult, SystemError> {
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
        let mut fork = Fork::at(prefix.entries).session(&key);
        if place.name != base_name {
            // The run goes on in its own team, whose definition is that of the variant.
            fork = fork.team(variant_in(base_team, place.team));
        }
        let system = asking.system;
        let run = system.run(prefix.run).fork(fork).await?;
        let stuck = self.settle(system, &run).await?;
        read_run(&run, recording).await?;
        asking.purse.add(&recording.spent);
        if let Some(result) = stuck.or_else(|| unanswered(recording)) {
            return Ok(result);
        }
        let cell = format!("{}/{key}", base_team.name);
        let recorded = (&*recording, place.sample);
        let watched = &self.suite.watch;
        score(&self.scorings, watched, asking, &cell, recorded, judged).await
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
