//! The state of an evaluation that is under way, in one line.

use std::fmt::Write as _;

use ghostlight::evals::{Cell, Evaluation};

/// The width of the bar, in characters.
const WIDTH: usize = 20;

/// How many cells are done, and how many of them succeeded, by variant.
#[derive(Debug)]
pub(super) struct Progress {
    all: usize,
    done: usize,
    /// The name of each variant, its successes, and its cells that say something about the team.
    variants: Vec<(String, usize, usize)>,
}

impl Progress {
    pub(super) fn new(evaluation: &Evaluation) -> Self {
        let names = evaluation.suite().variant_names();
        Self {
            all: evaluation.cells(),
            done: 0,
            variants: names.into_iter().map(|name| (name, 0, 0)).collect(),
        }
    }

    /// Counts a cell that is done.
    pub(super) fn add(&mut self, cell: &Cell) {
        self.done += 1;
        let variant = self
            .variants
            .iter_mut()
            .find(|(name, ..)| *name == cell.variant);
        if let (Some((_, succeeded, told)), Some(success)) = (variant, cell.success()) {
            *succeeded += usize::from(success);
            *told += 1;
        }
    }

    /// A bar, the cells that are done, and the successes of each variant.
    pub(super) fn text(&self) -> String {
        let full = WIDTH * self.done / self.all.max(1);
        let mut text = format!(
            "[{}{}] {} of {} cells",
            "#".repeat(full),
            "-".repeat(WIDTH - full),
            self.done,
            self.all
        );
        for (name, succeeded, told) in &self.variants {
            let _ = write!(text, "; {name} {succeeded} of {told}");
        }
        text
    }
}
