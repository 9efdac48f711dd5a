//! The cells of an evaluation, the worst ones first.

use std::fmt::Write as _;

use crate::cell::{Cell, CellResult};

/// The longest reason that is shown, in characters.
const REASON: usize = 400;

impl Cell {
    /// The cells from the worst on: those without an answer, then those that failed, then those without a verdict, and at
    /// last those that succeeded; within each, the lowest reward or mean score first.
    pub fn worst_first(cells: &[Self]) -> Vec<&Self> {
        let mut cells: Vec<&Self> = cells.iter().collect();
        cells.sort_by(|a, b| rank(a).cmp(&rank(b)).then(mean(a).total_cmp(&mean(b))));
        cells
    }

    /// The cell for a person: how it ended, each score with its reason, and the commands that show its runs.
    pub fn text(&self) -> String {
        describe(self)
    }
}

fn rank(cell: &Cell) -> u8 {
    match (&cell.result, cell.success()) {
        (CellResult::AgentFailed { .. }, _) => 0,
        (_, Some(false)) => 1,
        (CellResult::NotRun { .. }, _) => 3,
        (_, None) => 2,
        (_, Some(true)) => 4,
    }
}

/// The reward of a cell, or else the mean of its scores.
fn mean(cell: &Cell) -> f64 {
    if let Some(reward) = cell.reward {
        return reward;
    }
    let values: Vec<f64> = cell.scores().map(|(_, score)| score.value).collect();
    match values.len() {
        0 => 0.0,
        count => values.iter().sum::<f64>() / count as f64,
    }
}

fn describe(cell: &Cell) -> String {
    let what = match (&cell.result, cell.success()) {
        (CellResult::AgentFailed { .. }, _) => "no answer",
        (CellResult::Infrastructure { .. }, _) => "left out",
        (CellResult::NotRun { .. }, _) => "not run",
        (CellResult::Unreadable { .. }, None) => "unreadable",
        (_, Some(true)) => "succeeded",
        (_, Some(false)) => "failed",
        (_, None) => "no score counts",
    };
    let sample = ghostlight_safety::printable_line(&cell.sample, REASON);
    let mut text = format!(
        "{sample} in {}, repeat {}: {what}",
        cell.variant, cell.repeat
    );
    if let Some(reward) = cell.reward {
        let _ = write!(text, ", reward {reward:.3}");
    }
    text.push('\n');
    for (name, score) in cell.scores() {
        let why = ghostlight_safety::printable_line(&score.why, REASON);
        let watched = if score.counts {
            ""
        } else {
            " (does not count)"
        };
        let _ = writeln!(text, "  {name} {:.2}{watched}: {why}", score.value);
        for verdict in &score.verdicts {
            let _ = writeln!(
                text,
                "    {}: `ghostlight show {}`",
                verdict.by,
                verdict.run.short()
            );
        }
    }
    match &cell.result {
        CellResult::Scored { .. } => {}
        CellResult::Unreadable { why, .. }
        | CellResult::AgentFailed { why }
        | CellResult::Infrastructure { why }
        | CellResult::NotRun { why } => {
            let _ = writeln!(text, "  {}", ghostlight_safety::printable_line(why, REASON));
        }
    }
    for run in &cell.runs {
        let _ = writeln!(text, "  `ghostlight show {}`", run.short());
    }
    text
}
