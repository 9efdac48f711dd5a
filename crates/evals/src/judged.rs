//! Verdicts of judges beyond the scores of cells: on the answers that people judged, and on pairs of variants.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, stream};
use ghostlight_actors::actor::{System, SystemError};

use crate::{
    cell::{Cell, CellResult},
    evaluation::{Evaluation, Reach},
    judges::{Asking, LabelVerdicts, PairResult, Pairs},
    purse::Purse,
    recording::{Recording, read_run},
    suite::Sample,
};

/// The verdicts of an evaluation's judges beside the scores of cells.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Judged {
    /// By judge: the answers that people judged.
    pub(crate) labels: BTreeMap<String, LabelVerdicts>,
    /// The verdicts about pairs.
    pub(crate) pairs: Vec<PairResult>,
}

impl Evaluation {
    /// Asks the judges about the answers that people judged, and the judges of pairs about these cells. Each verdict is a
    /// run of its own: a recorded one is not asked for again.
    ///
    /// # Errors
    /// The System's error. All that is recorded by then stays.
    pub async fn judge(
        &self,
        system: &System,
        reach: Reach,
        cells: &[Cell],
    ) -> Result<Judged, SystemError> {
        let purse = Purse::new(self.suite.budget);
        for cell in cells {
            purse.add(&cell.spent);
            purse.add(&cell.judged);
        }
        let asking = Asking {
            system,
            purse: &purse,
            may_ask: reach != Reach::Look,
        };
        let mut judged = Judged::default();
        for judge in self.judges() {
            let said = judge.ask_labels(asking).await?;
            judged.labels.insert(judge.name.clone(), said);
        }
        let pairs = self.pairs(cells);
        let asked = pairs
            .into_iter()
            .enumerate()
            .map(|(index, pair)| async move {
                let results = self.judge_pair(asking, pair).await?;
                Ok::<_, SystemError>((index, results))
            });
        let mut asked = stream::iter(asked).buffer_unordered(self.suite.concurrency as usize);
        let mut results = Vec::new();
        while let Some(result) = asked.next().await {
            results.push(result?);
        }
        results.sort_by_key(|(index, _)| *index);
        judged.pairs = results.into_iter().flat_map(|(_, result)| result).collect();
        Ok(judged)
    }

    /// The variant that others are compared with.
    pub(crate) fn base(&self) -> String {
        let against = self
            .suite
            .gate
            .as_ref()
            .and_then(|gate| gate.against.clone());
        against.unwrap_or_else(|| self.suite.variant_names().swap_remove(0))
    }

    /// The pairs of cells that judges of pairs are asked about.
    fn pairs<'a>(&'a self, cells: &'a [Cell]) -> Vec<CellPair<'a>> {
        let by_place: BTreeMap<(&str, &str, u32), &Cell> = cells
            .iter()
            .map(|cell| {
                (
                    (cell.variant.as_str(), cell.sample.as_str(), cell.repeat),
                    cell,
                )
            })
            .collect();
        let (names, base) = (self.suite.variant_names(), self.base());
        let mut pairs = Vec::new();
        for (judge, asked) in self.pair_judges.iter().enumerate() {
            for (index, one) in names.iter().enumerate() {
                for two in &names[index + 1..] {
                    let (one, two) = if *two == base { (two, one) } else { (one, two) };
                    if asked.spec.pairs == Pairs::Base && *one != base {
                        continue;
                    }
                    for sample in &self.samples {
                        for repeat in 1..=self.suite.repeat {
                            let cell = |variant: &str| {
                                by_place
                                    .get(&(variant, sample.id.as_str(), repeat))
                                    .copied()
                            };
                            if let (Some(one), Some(two)) = (cell(one), cell(two))
                                && has_outcome(one)
                                && has_outcome(two)
                            {
                                pairs.push(CellPair {
                                    judge,
                                    sample,
                                    base: one,
                                    other: two,
                                });
                            }
                        }
                    }
                }
            }
        }
        pairs
    }

    async fn judge_pair(
        &self,
        asking: Asking<'_>,
        pair: CellPair<'_>,
    ) -> Result<Vec<PairResult>, SystemError> {
        let judge = &self.pair_judges[pair.judge];
        let base = recorded(asking.system, pair.base).await?;
        let other = recorded(asking.system, pair.other).await?;
        let key = format!("{}/{}", pair.sample.id, pair.base.repeat);
        let said = judge
            .compare(asking, &key, pair.sample, &base, &other)
            .await?;
        let results = said
            .into_iter()
            .map(|(outcome, by_place, spent)| PairResult {
                judge: judge.name.clone(),
                base: pair.base.variant.clone(),
                other: pair.other.variant.clone(),
                cluster: pair.base.cluster.clone(),
                outcome,
                by_place,
                spent,
            });
        Ok(results.collect())
    }
}

/// Two cells of one sample and repeat.
struct CellPair<'a> {
    judge: usize,
    sample: &'a Sample,
    base: &'a Cell,
    other: &'a Cell,
}

/// Whether a cell says something about its agent.
fn has_outcome(cell: &Cell) -> bool {
    matches!(
        cell.result,
        CellResult::Scored { .. } | CellResult::Unreadable { .. } | CellResult::AgentFailed { .. }
    )
}

/// The record of a cell.
pub(crate) async fn recorded(system: &System, cell: &Cell) -> Result<Recording, SystemError> {
    let mut recording = Recording::default();
    for run in &cell.runs {
        read_run(&system.run(*run), &mut recording).await?;
    }
    Ok(recording)
}
