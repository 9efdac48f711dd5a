//! The runs of a tree, as the index knows them.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::{RunFilter, RunRow, StoreError, StoreHandle};
use crate::vocabulary::RunId;

/// A run with the runs below it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunTree {
    /// The index's knowledge of the run: its id, its agent, its status and more.
    pub row: RunRow,
    /// The runs that it delegated, in the order in which they began.
    pub children: Vec<RunTree>,
}

impl RunTree {
    /// Reads the tree from a run on. It takes one question to the index, and no journal is read.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn read(store: &StoreHandle, row: RunRow) -> Result<Self, StoreError> {
        let filter = RunFilter {
            root: Some(row.root),
            ..RunFilter::default()
        };
        Ok(Self::of(row, store.runs(filter).await?))
    }

    /// The tree from a run on, made of the rows of its root's tree. A run whose parent has no row stands below the root.
    fn of(top: RunRow, mut rows: Vec<RunRow>) -> Self {
        rows.sort_by_key(|row| (row.started_at, row.path.len()));
        let known: HashSet<RunId> = rows.iter().map(|row| row.run).collect();
        let mut below: HashMap<RunId, Vec<RunRow>> = HashMap::new();
        for row in rows {
            let parent = row.parent.filter(|parent| known.contains(parent));
            let parent = parent.unwrap_or(row.root);
            if row.run != row.root {
                below.entry(parent).or_default().push(row);
            }
        }
        Self::above(top, &mut below)
    }

    /// Delegations nest to a bounded depth, so this may call itself.
    fn above(row: RunRow, below: &mut HashMap<RunId, Vec<RunRow>>) -> Self {
        let children = below.remove(&row.run).unwrap_or_default();
        let children = children.into_iter().map(|child| Self::above(child, below));
        let children = children.collect();
        Self { row, children }
    }

    /// Each run with how deep it stands, from 0; a run comes before those that it delegated.
    pub fn rows(&self) -> impl Iterator<Item = (usize, &RunRow)> {
        let mut open = vec![(0, self)];
        std::iter::from_fn(move || {
            let (depth, tree) = open.pop()?;
            let children = tree.children.iter().rev();
            open.extend(children.map(|child| (depth + 1, child)));
            Some((depth, &tree.row))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::Timestamp;

    /// Rows with these parents, by number; each begins after those before it.
    fn rows(parents: &[Option<u128>]) -> Vec<RunRow> {
        let id = |number: u128| RunId::from_random(number);
        let numbered = (0..).zip(parents);
        let rows = numbered.map(|(number, parent)| {
            let mut row = RunRow::new(id(number), "team", format!("agent {number}"));
            row.root = id(0);
            row.parent = parent.map(id);
            row.started_at = Timestamp(u64::try_from(number).unwrap_or_default());
            row
        });
        rows.collect()
    }

    fn shown(tree: &RunTree) -> Vec<(usize, &str)> {
        let rows = tree.rows();
        rows.map(|(depth, row)| (depth, &*row.agent)).collect()
    }

    #[test]
    fn each_run_stands_below_the_one_that_delegated_it() {
        let mut all = rows(&[None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(77)]);
        let (root, first) = (all[0].clone(), all[1].clone());
        all.reverse();
        let whole = RunTree::of(root, all.clone());
        let expected = [
            (0, "agent 0"),
            (1, "agent 1"),
            (2, "agent 3"),
            (2, "agent 4"),
            (1, "agent 2"),
            (2, "agent 5"),
            // Its parent is gone.
            (1, "agent 6"),
        ];
        assert_eq!(shown(&whole), expected);
        let part = RunTree::of(first, all);
        assert_eq!(
            shown(&part),
            [(0, "agent 1"), (1, "agent 3"), (1, "agent 4")]
        );
    }
}
