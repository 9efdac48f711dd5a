//! The open questions of a tree of runs.

use super::recording::each_line;
use crate::{
    contract::{ItemBody, MailboxItem, RunRow, StoreError, StoreHandle},
    vocabulary::{Begun, Entry, OperationId, Question, RunId},
};

/// A question that waits for its answer: the run that asks, its operation, and what it asks.
pub(super) type Open = (RunId, OperationId, Question);

/// The questions of a tree of runs, which can be read on.
#[derive(Debug, Default)]
pub(super) struct AskedInTree {
    open: Vec<Open>,
    /// The position up to which the tree was read.
    read: u64,
}

impl AskedInTree {
    /// Reads what was recorded since the last time.
    async fn read(&mut self, store: &StoreHandle, root: RunId) -> Result<(), StoreError> {
        each_line(store, root, self.read, |line| -> Result<(), StoreError> {
            let entry = line.stored.decode(&line.run.into())?;
            note(&mut self.open, line.run, entry);
            self.read = line.stored.position;
            Ok(())
        })
        .await
    }

    /// Whether a question is open to which no answer is on its way.
    pub(super) async fn is_asking(
        &mut self,
        store: &StoreHandle,
        root: RunId,
    ) -> Result<bool, StoreError> {
        self.read(store, root).await?;
        Ok(!unanswered(store, self.open.clone()).await?.is_empty())
    }
}

/// The questions that a run and the runs below it wait for, oldest first.
pub(super) async fn open_questions(
    store: &StoreHandle,
    run: &RunRow,
) -> Result<Vec<Open>, StoreError> {
    let mut asked = AskedInTree::default();
    asked.read(store, run.root).await?;
    if run.root == run.run {
        return Ok(asked.open);
    }
    let mut within = Vec::new();
    for asked in asked.open {
        if is_within(store, asked.0, run.run).await? {
            within.push(asked);
        }
    }
    Ok(within)
}

/// Whether a run is `above` itself or below it.
async fn is_within(store: &StoreHandle, run: RunId, above: RunId) -> Result<bool, StoreError> {
    let mut next = Some(run);
    while let Some(run) = next {
        if run == above {
            return Ok(true);
        }
        next = store.run(run).await?.and_then(|row| row.parent);
    }
    Ok(false)
}

/// Updates the open questions by an entry of a run.
pub(super) fn note(open: &mut Vec<Open>, of: RunId, entry: Entry) {
    match entry {
        Entry::Started {
            op,
            begun: Begun::Question(question),
            ..
        } => open.push((of, op, question.withheld())),
        Entry::Completed { op, .. } | Entry::Dropped { op, .. } => {
            open.retain(|(run, asked, _)| (*run, *asked) != (of, op));
        }
        Entry::RunEnded(_) => open.retain(|(run, ..)| *run != of),
        _ => {}
    }
}

/// Of these questions, those to which no answer is on its way.
pub(super) async fn unanswered(
    store: &StoreHandle,
    asked: Vec<Open>,
) -> Result<Vec<Open>, StoreError> {
    let mut open = Vec::new();
    for asked in asked {
        let mailbox = store.mailbox(asked.0).await?;
        let is_answer = |item: &MailboxItem| matches!(&item.body, ItemBody::Answer { operation, .. } if *operation == asked.1);
        if !mailbox.iter().any(is_answer) {
            open.push(asked);
        }
    }
    Ok(open)
}
