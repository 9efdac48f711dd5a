//! Cells with the lowest scores that they can have.

use super::Evaluation;
use crate::{
    cell::{Cell, CellResult},
    recording::Recording,
    scorers::Score,
    scoring::Scoring,
};

impl Evaluation {
    /// Gives a cell the lowest scores that it can have where verdicts cannot be read, so that no text gains by making them
    /// unreadable.
    pub(crate) fn sink(&self, cell: &mut Cell, recording: &Recording) {
        let (mut scores, unread) = match &mut cell.result {
            CellResult::Scored { scores } => (std::mem::take(scores), None),
            CellResult::Unreadable { scores, why, .. } => {
                (std::mem::take(scores), Some(std::mem::take(why)))
            }
            _ => return,
        };
        let mut known = scores.clone();
        for judge in self.judges() {
            if scores
                .get_mut(&judge.name)
                .is_some_and(|score| judge.sink(score))
            {
                known.remove(&judge.name);
            }
        }
        if unread.is_some() || known.len() < scores.len() {
            let counts = |name: &str| !self.suite.watch.iter().any(|watched| watched == name);
            let why = unread.unwrap_or_default();
            for scoring in &self.scorings {
                let name = scoring.name();
                let score = match scoring {
                    Scoring::Composite(composite) => {
                        let score = composite.score(&scores).ok();
                        let value = |score: &Score| score.value;
                        if score.as_ref().map(value) != known.get(name).map(value) {
                            known.remove(name);
                        }
                        score
                    }
                    _ => scores.get(name).cloned(),
                };
                let mut score = score.unwrap_or_else(|| Score::fail(why.as_str()));
                score.counts = counts(name);
                scores.insert(name.to_owned(), score);
            }
            let names: Vec<&str> = self.scorings.iter().map(Scoring::name).collect();
            if let Some(reward) = &self.suite.reward {
                cell.reward = reward.lowest(recording, &names, &known);
            }
        }
        cell.result = CellResult::Scored { scores };
    }
}
