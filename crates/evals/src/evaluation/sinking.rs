//! Cells with the lowest scores that they can have.

use super::Evaluation;
use crate::{
    cell::{Cell, CellResult},
    scorers::Score,
    scoring::Scoring,
};

impl Evaluation {
    /// Gives a cell the lowest scores that it can have where verdicts cannot be read, so that no text gains by making them
    /// unreadable.
    pub(crate) fn sink(&self, cell: &mut Cell) {
        let (mut scores, why) = match &mut cell.result {
            CellResult::Scored { scores } => (std::mem::take(scores), String::new()),
            CellResult::Unreadable { scores, why, .. } => {
                (std::mem::take(scores), std::mem::take(why))
            }
            _ => return,
        };
        for scoring in &self.scorings {
            let name = scoring.name();
            if let Some(score) = scores.get_mut(name) {
                let lowest = score.lowest();
                (score.value, score.passes, score.lowest) = (lowest.value, lowest.passes, None);
                continue;
            }
            let composed = match scoring {
                Scoring::Composite(composite) => composite.score(&scores).ok(),
                _ => None,
            };
            let mut score = composed.unwrap_or_else(|| Score::fail(why.as_str()));
            score.counts = !self.suite.watch.iter().any(|watched| watched == name);
            scores.insert(name.to_owned(), score);
        }
        cell.reward = cell.lowest_reward.take().or(cell.reward);
        cell.result = CellResult::Scored { scores };
    }
}
