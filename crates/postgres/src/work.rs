//! The requests to the committer, and its answers.

use std::io;

use ghostlight_actors::{
    contract::{Batch, Claim, Committed, MailboxItem, StoreError},
    vocabulary::JournalId,
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
    Post(JournalId, Box<MailboxItem>),
}

impl Work {
    /// About how many bytes it has; small columns are not counted.
    pub(crate) fn size(&self) -> usize {
        let batches = match self {
            Self::Commit(batches) => batches,
            Self::Claim { .. } => return 0,
            Self::Post(_, item) => return size_of(item),
        };
        let of = |batch: &Batch| {
            let lines = batch.appends.iter().flat_map(|append| &append.lines);
            let values = batch.writes.iter().flat_map(|write| &write.value);
            let lines: usize = lines.map(|line| line.text.len()).sum();
            let values: usize = values.map(|value| value.get().len()).sum();
            let blobs: usize = batch.blobs.iter().map(|(_, bytes)| bytes.len()).sum();
            let posts: usize = batch.posts.iter().map(|(_, item)| size_of(item)).sum();
            lines + values + blobs + posts
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
            Self::Post(mailbox, _) => format!("the mailbox of {}", named(mailbox)),
        }
    }
}

/// How many bytes the content of an item has.
fn size_of(item: &MailboxItem) -> usize {
    let mut counted = Counted(0);
    // Content that cannot be written is refused later.
    let _ = serde_json::to_writer(&mut counted, &item.body);
    counted.0
}

/// Counts what is written to it.
struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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

impl Told {
    /// Whether something of the request was refused.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Committed(told) => told.iter().any(Result::is_err),
            Self::Claimed(told) => told.iter().any(Result::is_err),
            Self::Posted(told) => told.is_err(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ghostlight_actors::{
        contract::ItemBody,
        vocabulary::{RunId, Timestamp},
    };
    use serde_json::Value;

    use super::*;

    /// Many large answers at once would otherwise be one message that the database never takes.
    #[test]
    fn what_is_posted_counts_by_itself_and_in_a_batch() {
        let mailbox = JournalId::from(RunId::from_random(1));
        let value = Value::String("x".repeat(1 << 20));
        let name = "report".to_owned();
        let item = MailboxItem::new("1", Timestamp(1), ItemBody::Message { name, value });
        let mut batch = Batch::default();
        batch.posts = vec![
            (mailbox.clone(), item.clone()),
            (mailbox.clone(), item.clone()),
        ];
        assert!(Work::Post(mailbox, Box::new(item)).size() > 1 << 20);
        assert!(Work::Commit(vec![batch]).size() > 2 << 20);
    }
}
