//! What the committer is asked for, and what it answers.

use ghostlight_actors::{
    contract::{Batch, Claim, Committed, InboxItem, StoreError},
    vocabulary::{JournalId, RunId},
};

/// A request to the committer.
#[derive(Debug)]
pub(crate) enum Work {
    Commit(Vec<Batch>),
    Claim {
        journals: Vec<JournalId>,
        take_over: bool,
        above: Option<(JournalId, u64)>,
    },
    Post(RunId, InboxItem),
}

impl Work {
    /// About how many bytes it has; small columns are not counted.
    pub(crate) fn size(&self) -> usize {
        let Self::Commit(batches) = self else {
            return 0;
        };
        let of = |batch: &Batch| {
            let lines = batch.appends.iter().flat_map(|append| &append.lines);
            let values = batch.writes.iter().flat_map(|write| &write.value);
            let lines: usize = lines.map(|line| line.text.len()).sum();
            let values: usize = values.map(|value| value.get().len()).sum();
            let blobs: usize = batch.blobs.iter().map(|(_, bytes)| bytes.len()).sum();
            lines + values + blobs
        };
        batches.iter().map(of).sum()
    }

    /// Where it is to be written, for people.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Commit(batches) => {
                let appends = batches.iter().flat_map(|batch| &batch.appends);
                let writes = batches.iter().flat_map(|batch| &batch.writes);
                let journals = appends.map(|append| named(&append.journal));
                let values = writes.map(|write| format!("{}/{}", write.scope, write.key));
                let mut places = journals.chain(values);
                places.next().unwrap_or_else(|| "the blobs".to_owned())
            }
            Self::Claim { journals, .. } => journals.first().map(named).unwrap_or_default(),
            Self::Post(run, _) => format!("the inbox of run {run}"),
        }
    }
}

/// A journal, for people.
fn named(journal: &JournalId) -> String {
    match journal {
        JournalId::Run(run) => format!("run {run}"),
        JournalId::Session(session) => format!("session {session}"),
    }
}

/// The result of a request.
#[derive(Debug)]
pub(crate) enum Told {
    Committed(Vec<Result<Committed, StoreError>>),
    Claimed(Vec<Result<Claim, StoreError>>),
    Posted(Result<bool, StoreError>),
}
