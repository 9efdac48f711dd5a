//! The open questions of a tree of runs, by the index, and whether it waits for somebody at all.

use std::{
    collections::{BTreeSet, HashMap},
    iter::successors,
};

use serde_json::Value;

use super::newer::newer_runs;
use crate::{
    contract::{ItemBody, JournalPages, MailboxItem, RunFilter, RunRow, StoreError, StoreHandle},
    run::{OperationLog, read_result},
    vocabulary::{Begun, Entry, OperationId, Question, RunId},
};

/// A question that waits for its answer: the run that asks, its operation, and what it asks.
pub(super) type Open = (RunId, OperationId, Question);

/// Whether a question is open in a tree to which no answer is on its way.
pub(super) async fn is_asking(store: &StoreHandle, root: RunId) -> Result<bool, StoreError> {
    let open = asked_by(store, &of_tree(store, root).await?).await?;
    Ok(!unanswered(store, open).await?.is_empty())
}

/// The questions that a run and the runs below it wait for, oldest first.
pub(super) async fn open_questions(
    store: &StoreHandle,
    run: &RunRow,
) -> Result<Vec<Open>, StoreError> {
    let rows = of_tree(store, run.root).await?;
    asked_by(store, &at_or_below(run, rows)).await
}

/// Of the runs of a tree, this one and those below it.
fn at_or_below(run: &RunRow, mut rows: Vec<RunRow>) -> Vec<RunRow> {
    let parents = rows.iter().map(|row| (row.run, row.parent));
    let parents: HashMap<RunId, Option<RunId>> = parents.collect();
    let above = |run: &RunId| parents.get(run).copied().flatten();
    let is_below = |row: &RunRow| successors(Some(row.run), above).any(|at| at == run.run);
    if run.root != run.run {
        rows.retain(is_below);
    }
    rows
}

/// The runs at and below this one that asked under an operation at any time. It reads journals.
pub(super) async fn askers(
    store: &StoreHandle,
    run: &RunRow,
    operation: OperationId,
) -> Result<Vec<RunId>, StoreError> {
    let tree = RunFilter {
        root: Some(run.root),
        ..RunFilter::default()
    };
    let mut askers = Vec::new();
    for row in at_or_below(run, store.runs(tree).await?) {
        if asked_under(store, row.run, operation).await?.is_some() {
            askers.push(row.run);
        }
    }
    Ok(askers)
}

/// The question that a run asked under an operation at any time, and its answer, where that is recorded. It reads the
/// journal up to the operation's end.
pub(super) async fn asked_under(
    store: &StoreHandle,
    run: RunId,
    operation: OperationId,
) -> Result<Option<(Question, Option<Value>)>, StoreError> {
    let (mut pages, mut asked) = (JournalPages::new(run, 0), None);
    loop {
        let page = pages.next(store).await?;
        if page.is_empty() {
            return Ok(asked.map(|question| (question, None)));
        }
        for stored in page {
            match stored.decode(&run.into())? {
                Entry::Started {
                    op,
                    begun: Begun::Question(question),
                    ..
                } if op == operation => asked = Some(*question),
                Entry::Completed { op, result, .. } if op == operation => {
                    return Ok(asked.map(|question| (question, read_result(&result))));
                }
                _ => {}
            }
        }
    }
}

/// The runs of a tree that have not ended.
async fn of_tree(store: &StoreHandle, root: RunId) -> Result<Vec<RunRow>, StoreError> {
    let filter = RunFilter {
        root: Some(root),
        ..RunFilter::open()
    };
    store.runs(filter).await
}

/// The questions that these runs wait for, the oldest first.
pub(super) async fn asked_by(
    store: &StoreHandle,
    rows: &[RunRow],
) -> Result<Vec<Open>, StoreError> {
    let mut open = Vec::new();
    for row in rows {
        for &(op, entry) in &row.asks {
            let Some(stored) = store.read(row.run.into(), entry, 1).await?.pop() else {
                continue;
            };
            if let Entry::Started {
                begun: Begun::Question(question),
                ..
            } = stored.decode(&row.run.into())?
            {
                open.push((stored.position, (row.run, op, question.withheld())));
            }
        }
    }
    open.sort_by_key(|(position, _)| *position);
    Ok(open.into_iter().map(|(_, open)| open).collect())
}

/// Refuses runs that a later program wrote: what it meant by their questions is not known here.
pub(super) async fn refuse_newer(
    store: &StoreHandle,
    runs: impl Iterator<Item = RunId>,
) -> Result<(), StoreError> {
    for run in runs.collect::<BTreeSet<_>>() {
        let row = store.run(run).await?;
        if let Some((_, error)) = newer_runs(store, row.as_slice()).await?.pop() {
            return Err(error);
        }
    }
    Ok(())
}

/// The operations of a run.
async fn log_of(store: &StoreHandle, run: RunId) -> Result<OperationLog, StoreError> {
    let mut log = OperationLog::new();
    for stored in store.journal(run.into(), 0).await? {
        log.add(stored.sequence, &stored.decode(&run.into())?);
    }
    Ok(log)
}

/// Whether a run is open and its tree cannot go on by itself: none of its runs is at work, or waits for a model.
pub(super) async fn is_stalled(store: &StoreHandle, run: &RunRow) -> Result<bool, StoreError> {
    let mut rows = of_tree(store, run.root).await?;
    loop {
        let is_open = rows.iter().any(|row| row.run == run.run);
        if !is_open || rows.iter().any(|row| row.status.is_under_way()) {
            return Ok(false);
        }
        for row in &rows {
            if log_of(store, row.run).await?.awaits_model() {
                return Ok(false);
            }
        }
        // A model may have answered meanwhile, and been asked again.
        let seen = std::mem::replace(&mut rows, of_tree(store, run.root).await?);
        if rows == seen {
            return Ok(true);
        }
    }
}

/// Of these questions, those to which no answer is on its way.
pub(super) async fn unanswered(
    store: &StoreHandle,
    asked: Vec<Open>,
) -> Result<Vec<Open>, StoreError> {
    let mut open = Vec::new();
    for asked in asked {
        let mailbox = store.mailbox(asked.0.into()).await?;
        let is_answer = |item: &MailboxItem| matches!(&item.body, ItemBody::Answer { operation, .. } if *operation == asked.1);
        if !mailbox.iter().any(is_answer) {
            open.push(asked);
        }
    }
    Ok(open)
}
