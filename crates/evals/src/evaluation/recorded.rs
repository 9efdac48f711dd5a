//! Cells as they are recorded, without a model call.

use ghostlight_actors::actor::{System, SystemError};

use super::{Evaluation, Place, Reach};
use crate::{
    cell::{Cell, CellResult},
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
        };
        let cell = self.cell(asking, place).await?;
        let is_recorded = !matches!(cell.result, CellResult::NotRun { .. });
        Ok(is_recorded.then_some(cell))
    }
}
