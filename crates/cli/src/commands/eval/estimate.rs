//! The usage that an evaluation will cause, from what is recorded of it.

use ghostlight::evals::{Cell, CellResult, Evaluation};
use ghostlight_actors::{run::Registry, vocabulary::Spent};

use super::look;
use crate::{arguments::StoreArguments, commands::counted, exit::Failure, keeping::Keeping};

/// How much of an evaluation is recorded, and what the other cells will consume where each does as the recorded ones of its
/// variant. Nothing is tried.
pub(super) async fn of(
    evaluation: &Evaluation,
    store: &StoreArguments,
    registry: &Registry,
) -> Result<String, Failure> {
    let cells = match Keeping::open_if_there(store).await? {
        Some(keeping) => look::recorded(evaluation, &keeping, registry).await?,
        None => Vec::new(),
    };
    Ok(told(&cells, &evaluation.suite().variant_names()))
}

/// The usage of a cell: model calls, tokens and money.
fn usage(cell: &Cell) -> [f64; 3] {
    let of = |spent: &Spent| {
        let usage = &spent.usage;
        [spent.model_calls, usage.total_tokens(), usage.cost_micros]
    };
    let (agents, judges) = (of(&cell.spent), of(&cell.judged));
    std::array::from_fn(|place| agents[place] as f64 + judges[place] as f64)
}

fn told(cells: &[Cell], variants: &[String]) -> String {
    let is_recorded = |cell: &&Cell| !matches!(cell.result, CellResult::NotRun { .. });
    let recorded: Vec<&Cell> = cells.iter().filter(is_recorded).collect();
    if recorded.is_empty() {
        return String::from(
            "nothing of it is recorded, so its usage is unknown: `--limit 3` tries a few samples, and then --dry-run \
             estimates the others",
        );
    }
    let missing = cells.len() - recorded.len();
    if missing == 0 {
        let all = counted(cells.len() as u64, "cell");
        return format!("recorded: {all}; nothing is left to try");
    }
    let mut all = [0.0; 3];
    for variant in variants {
        let is_its = |cell: &&Cell| cell.variant == *variant;
        let own: Vec<&Cell> = recorded.iter().copied().filter(is_its).collect();
        let untried = cells.iter().filter(is_its).count() - own.len();
        let known = if own.is_empty() { &recorded } else { &own };
        for cell in known {
            for (sum, used) in all.iter_mut().zip(usage(cell)) {
                *sum += used * untried as f64 / known.len() as f64;
            }
        }
    }
    let [calls, tokens, cost] = all.map(|sum| sum.ceil() as u64);
    format!(
        "{} of {} recorded; the other {missing} will take about {}, {} and {cost} cost_micros, if each does as the recorded ones \
         of its variant",
        recorded.len(),
        counted(cells.len() as u64, "cell"),
        counted(calls, "model call"),
        counted(tokens, "token"),
    )
}
