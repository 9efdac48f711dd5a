//! Cells as they are recorded, without a model call.

use std::collections::BTreeSet;

use ghostlight_actors::{
    actor::{System, SystemError},
    contract::RunFilter,
};

use super::{Evaluation, Place, Reach};
use crate::{
    cell::{self, Cell, CellResult},
    judges::Asking,
    purse::Purse,
    suite::Sample,
};

impl Evaluation {
    /// The recorded cells of one sample, with their scores, in the order of variants and repeats. No model is asked; a
    /// cell that is not recorded, or whose judges have not judged it, is left out.
    ///
    /// # Errors
    /// The entry that cannot be read.
    pub async fn recorded(
        &self,
        system: &System,
        sample: &Sample,
    ) -> Result<Vec<Cell>, SystemError> {
        let mut cells = Vec::new();
        for place in 0..self.variants.len() {
            for repeat in 1..=self.suite.repeat {
                cells.extend(self.recorded_cell(system, place, sample, repeat).await?);
            }
        }
        Ok(cells)
    }

    /// How many cells are recorded under its name that it does not have: its team or a sample was changed since then, or left
    /// out. They stay as they are, and are not shown.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn outdated(&self, system: &System) -> Result<usize, SystemError> {
        let (name, mut found) = (&self.suite.evaluation, BTreeSet::new());
        for variant in &self.variants {
            let mut own = BTreeSet::new();
            for sample in &self.samples {
                let repeats = 1..=self.suite.repeat;
                own.extend(repeats.map(|repeat| cell::key(name, &variant.digest, sample, repeat)));
            }
            let mut filter = RunFilter::default();
            (filter.roots, filter.team) = (true, Some(variant.team.name.clone()));
            let rows = system.store().runs(filter).await?;
            for session in rows.into_iter().filter_map(|row| row.session) {
                let key = session.key;
                // A later attempt has a number behind the key of its cell.
                let first = key.rsplit_once('/').map_or("", |(first, _)| first);
                let is_cell = key
                    .strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with('/'));
                let is_own = own.contains(&*key) || own.contains(first);
                if is_cell && !is_own && !key.contains("/fork-") {
                    found.insert((variant.team.name.clone(), key));
                }
            }
        }
        Ok(found.len())
    }

    /// The samples that it tries.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The recorded cell of a sample in the variant at this place.
    pub(super) async fn recorded_cell(
        &self,
        system: &System,
        variant: usize,
        sample: &Sample,
        repeat: u32,
    ) -> Result<Option<Cell>, SystemError> {
        let purse = Purse::default();
        let asking = Asking {
            system,
            purse: &purse,
            may_ask: false,
        };
        let place = Place {
            variant: &self.variants[variant],
            sample,
            repeat,
            reach: Reach::Look,
            prefix: None,
        };
        let cell = self.cell(asking, place).await?;
        let is_recorded = !matches!(cell.result, CellResult::NotRun { .. });
        Ok(is_recorded.then_some(cell))
    }
}
