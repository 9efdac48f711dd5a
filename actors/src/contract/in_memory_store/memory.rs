//! The contents of the in-memory store, and the rules of its changes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

use serde_json::value::RawValue;

use super::ended::{Deletions, Ended};
use crate::{
    contract::{
        Append, Batch, Claim, Committed, Inventory, MailboxItem, RunFilter, RunRow, SessionFilter,
        SessionRow, StateSlot, StateWrite, StoreError, StoredLine, TreeLine,
    },
    vocabulary::{Digest, JournalId, RunId, SessionId, Timestamp},
};

/// Everything that a store holds, behind one lock.
#[derive(Default)]
pub(super) struct Memory {
    processes: u64,
    pub(super) living: HashSet<u64>,
    pub(super) journals: HashMap<JournalId, JournalRows>,
    /// The position of the last entry.
    position: u64,
    pub(super) runs: HashMap<RunId, IndexedRun>,
    /// The open runs by the time by which they go on by themselves.
    due: BTreeSet<(Timestamp, RunId)>,
    pub(super) trees: HashMap<RunId, Vec<RunId>>,
    /// How many runs were ever made.
    made: usize,
    pub(super) deletions: Deletions,
    pub(super) ended: Ended,
    pub(super) scopes: BTreeMap<String, BTreeMap<String, Versioned>>,
    pub(super) blobs: HashMap<Digest, Arc<[u8]>>,
    pub(super) mailbox: Mailbox,
    pub(super) checkpoints: HashMap<SessionId, Vec<u8>>,
}

pub(super) struct JournalRows {
    epoch: u64,
    owner: u64,
    pub(super) lines: Vec<StoredLine>,
}

pub(super) struct IndexedRun {
    pub(super) row: Arc<RunRow>,
    /// The place in the order in which runs were made, for runs that began at the same time.
    made: usize,
}

/// A value with its version. The version of a deleted value is kept, so that a value that is written later never has
/// the version of one that was read before.
pub(super) struct Versioned {
    value: Option<Box<RawValue>>,
    version: u64,
}

#[derive(Default)]
pub(super) struct Mailbox {
    /// In the order in which they were posted; an item's mark is its place, counted from 1.
    posts: Vec<Post>,
    by_address: HashMap<JournalId, Posted>,
}

/// The items of one mailbox, by their places in the order of posts.
#[derive(Default)]
struct Posted {
    by_id: HashMap<String, usize>,
    /// The items that no commit has taken.
    waiting: BTreeSet<usize>,
}

struct Post {
    mailbox: JournalId,
    at: Timestamp,
    /// `None` once a commit has taken the item.
    item: Option<MailboxItem>,
}

/// How to take back what a batch did to one journal.
enum Undo {
    Truncate(JournalId, usize),
    Remove(JournalId),
}

impl Memory {
    pub(super) fn begin_process(&mut self) -> u64 {
        self.processes += 1;
        self.living.insert(self.processes);
        self.processes
    }

    pub(super) fn claim(
        &mut self,
        process: u64,
        id: JournalId,
        take_over: bool,
    ) -> Result<Claim, StoreError> {
        let held = self.is_held(process, &id);
        if let Some(journal) = self.journals.get_mut(&id) {
            if held && !take_over {
                return Err(owned(&id, journal.owner));
            }
            journal.owner = process;
            journal.epoch += 1;
            return Ok(Claim {
                epoch: journal.epoch,
                entries: journal.lines.len() as u64,
                ..Claim::default()
            });
        }
        self.make_journal(process, id);
        Ok(Claim {
            epoch: 1,
            ..Claim::default()
        })
    }

    /// Refuses unless this process owns the journal at this epoch.
    pub(super) fn check_epoch(
        &self,
        process: u64,
        id: &JournalId,
        epoch: u64,
    ) -> Result<(), StoreError> {
        let journal = self.journals.get(id);
        if journal.is_some_and(|it| it.epoch == epoch && it.owner == process) {
            return Ok(());
        }
        Err(stale(id, epoch, journal.map_or(0, |it| it.epoch)))
    }

    /// Whether another living process owns a journal.
    pub(super) fn is_held(&self, process: u64, id: &JournalId) -> bool {
        let journal = self.journals.get(id);
        journal.is_some_and(|it| it.owner != process && self.living.contains(&it.owner))
    }

    /// Refuses where another living process owns a journal.
    pub(super) fn check_owner(&self, process: u64, id: &JournalId) -> Result<(), StoreError> {
        match self.journals.get(id) {
            Some(journal) if self.is_held(process, id) => Err(owned(id, journal.owner)),
            _ => Ok(()),
        }
    }

    fn make_journal(&mut self, process: u64, id: JournalId) {
        let journal = JournalRows {
            epoch: 1,
            owner: process,
            lines: Vec::new(),
        };
        self.journals.insert(id, journal);
    }

    /// Entries are pushed at once and taken back when a later one of the batch is refused;
    /// everything that cannot be refused comes after.
    pub(super) fn commit(&mut self, process: u64, batch: Batch) -> Result<Committed, StoreError> {
        let Batch {
            appends,
            writes,
            blobs,
            taken,
            posts,
        } = batch;
        let versions = self.check_writes(&writes)?;
        let before = self.position;
        let (mut undo, mut rows) = (Vec::new(), Vec::new());
        let mut appends = appends.into_iter();
        while let Some(append) = appends.next() {
            // The last one is refused before it changes anything.
            let undo_for = (appends.len() > 0).then_some(&mut undo);
            if let Err(refused) = self.append(process, append, undo_for, &mut rows) {
                self.take_back(undo);
                self.position = before;
                return Err(refused);
            }
        }
        rows.into_iter().for_each(|row| self.index(row));
        for (write, version) in writes.into_iter().zip(versions) {
            self.write(write, version);
        }
        for (digest, bytes) in blobs {
            self.blobs.entry(digest).or_insert(bytes);
        }
        taken
            .iter()
            .for_each(|(mailbox, id)| self.mailbox.take(mailbox, id));
        for (mailbox, item) in posts {
            self.mailbox.post(mailbox, item);
        }
        self.keep_within_bound();
        Ok(Committed {
            position: before + 1,
        })
    }

    fn append(
        &mut self,
        process: u64,
        append: Append,
        undo: Option<&mut Vec<Undo>>,
        rows: &mut Vec<Arc<RunRow>>,
    ) -> Result<(), StoreError> {
        let Append {
            journal: id,
            expected,
            epoch,
            lines,
            row,
            root: _,
        } = append;
        let makes = expected == 0 && epoch == 1;
        let makes = makes && (row.is_some() || matches!(id, JournalId::Session(_)));
        let is_new = makes && !self.journals.contains_key(&id);
        if is_new {
            // Nothing of such an append is refused from here on.
            self.make_journal(process, id.clone());
        }
        let Some(journal) = self.journals.get_mut(&id) else {
            return Err(stale(&id, epoch, 0));
        };
        if journal.epoch != epoch {
            return Err(stale(&id, epoch, journal.epoch));
        }
        if journal.owner != process && self.living.contains(&journal.owner) {
            return Err(owned(&id, journal.owner));
        }
        let have = journal.lines.len();
        if expected != have as u64 {
            return Err(StoreError::Sequence {
                journal: id,
                expected,
                have: have as u64,
            });
        }
        // A dead claimant whose epoch nobody has raised since: nobody else holds that epoch.
        journal.owner = process;
        for line in lines {
            self.position += 1;
            journal.lines.push(StoredLine {
                sequence: journal.lines.len() as u64,
                position: self.position,
                line,
            });
        }
        if let Some(undo) = undo {
            undo.push(match is_new {
                true => Undo::Remove(id),
                false => Undo::Truncate(id, have),
            });
        }
        rows.extend(row);
        Ok(())
    }

    fn take_back(&mut self, undo: Vec<Undo>) {
        for step in undo.into_iter().rev() {
            match step {
                Undo::Truncate(id, len) => {
                    if let Some(journal) = self.journals.get_mut(&id) {
                        journal.lines.truncate(len);
                    }
                }
                Undo::Remove(id) => {
                    self.journals.remove(&id);
                }
            }
        }
    }

    fn index(&mut self, row: Arc<RunRow>) {
        self.made += 1;
        let made = self.made;
        let ended = row.status.is_ended() && row.root == row.run;
        let (root, at) = (row.root, row.updated_at);
        let before = self.runs.get(&row.run).and_then(|run| run.row.due());
        if before != row.due() {
            before.map(|due| self.due.remove(&(due, row.run)));
            self.due.extend(row.due().map(|due| (due, row.run)));
        }
        let had_ended = match self.runs.get_mut(&row.run) {
            Some(indexed) => {
                let before = std::mem::replace(&mut indexed.row, row);
                before.status.is_ended()
            }
            None => {
                self.trees.entry(row.root).or_default().push(row.run);
                self.mailbox.open(row.first);
                self.runs.insert(row.run, IndexedRun { row, made });
                false
            }
        };
        if ended && !had_ended {
            self.root_ended(root, at);
        }
    }

    /// The versions that the writes will make; each write sees those before it in its batch.
    fn check_writes(&self, writes: &[StateWrite]) -> Result<Vec<u64>, StoreError> {
        StateWrite::versions(writes, |scope, key| {
            let found = self.scopes.get(scope).and_then(|keys| keys.get(key));
            Ok(found.map_or((false, 0), |found| (found.value.is_some(), found.version)))
        })
    }

    fn write(&mut self, write: StateWrite, version: u64) {
        let value = write.value;
        let keys = self.scopes.entry(write.scope).or_default();
        keys.insert(write.key, Versioned { value, version });
    }

    pub(super) fn read(&self, id: &JournalId, from: u64, limit: usize) -> Vec<StoredLine> {
        let lines = self.journals.get(id).map_or(&[][..], |j| &j.lines);
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let rest = lines.get(from..).unwrap_or_default();
        rest[..rest.len().min(limit)].to_vec()
    }

    pub(super) fn read_tree(&self, root: RunId, after: u64, limit: usize) -> Vec<TreeLine> {
        let mut found: Vec<(RunId, &StoredLine)> = Vec::new();
        for run in self.trees.get(&root).into_iter().flatten() {
            let Some(journal) = self.journals.get(&JournalId::Run(*run)) else {
                continue;
            };
            let first = journal.lines.partition_point(|l| l.position <= after);
            let lines = journal.lines[first..].iter().take(limit);
            found.extend(lines.map(|line| (*run, line)));
        }
        found.sort_unstable_by_key(|(_, line)| line.position);
        found.truncate(limit);
        found
            .into_iter()
            .map(|(run, stored)| TreeLine {
                run,
                stored: stored.clone(),
            })
            .collect()
    }

    pub(super) fn inventory(&self) -> Inventory {
        let journals = self.journals.iter();
        let mut journals: Vec<_> = journals
            .map(|(id, journal)| (id.clone(), journal.epoch))
            .collect();
        journals.sort_by_cached_key(|(id, _)| id.to_string());
        let values = self.scopes.iter().flat_map(|(scope, keys)| {
            let value =
                |(key, slot): (&String, &Versioned)| (scope.clone(), key.clone(), slot.version);
            keys.iter().map(value)
        });
        let mut blobs: Vec<Digest> = self.blobs.keys().copied().collect();
        blobs.sort_unstable_by_key(|digest| digest.0);
        Inventory {
            journals,
            values: values.collect(),
            items: self.mailbox.ids(),
            blobs,
        }
    }

    pub(super) fn sessions(&self, filter: &SessionFilter) -> Vec<SessionRow> {
        let rows = self.journals.iter().filter_map(|(id, journal)| {
            let (JournalId::Session(session), Some(last)) = (id, journal.lines.last()) else {
                return None;
            };
            Some(SessionRow {
                session: session.clone(),
                entries: journal.lines.len() as u64,
                updated_at: last.line.at,
            })
        });
        filter.pick(rows)
    }

    pub(super) fn find_runs(&self, filter: &RunFilter) -> Vec<RunRow> {
        let prefix = match &filter.prefix {
            None => String::new(),
            Some(prefix) => match RunId::prefix(prefix) {
                Some(prefix) => prefix,
                None => return Vec::new(),
            },
        };
        let place = |run: &IndexedRun| (run.row.started_at, run.made);
        let after = filter.after.as_ref().map(|last| {
            let known = self.runs.get(&last.run);
            (last.started_at, known.map_or(0, |known| known.made))
        });
        let candidates: Box<dyn Iterator<Item = &IndexedRun>> = match filter.awake_by {
            Some(time) => {
                let awake = self.due.iter().take_while(move |(due, _)| *due <= time);
                Box::new(awake.filter_map(|(_, run)| self.runs.get(run)))
            }
            None => Box::new(self.runs.values()),
        };
        let mut found: Vec<&IndexedRun> = candidates
            .filter(|run| after.is_none_or(|after| place(run) < after))
            .filter(|IndexedRun { row, .. }| {
                !(filter.open && row.status.is_ended())
                    && (!filter.roots || row.parent.is_none())
                    && filter.root.is_none_or(|root| row.root == root)
                    && (filter.session.is_none() || row.session == filter.session)
                    && filter.team.as_ref().is_none_or(|team| row.team == *team)
                    && (filter.statuses.is_empty() || filter.statuses.contains(&row.status))
                    && filter.since.is_none_or(|since| row.started_at >= since)
                    && (prefix.is_empty() || row.run.to_string().starts_with(&prefix))
            })
            .collect();
        found.sort_unstable_by_key(|run| place(run));
        let limit = match filter.limit {
            0 => usize::MAX,
            limit => limit,
        };
        let newest_first = found.into_iter().rev().take(limit);
        newest_first.map(|run| RunRow::clone(&run.row)).collect()
    }
}

impl Mailbox {
    /// Keeps a place for the mailbox of a run that goes on from another journal, which may be deleted.
    fn open(&mut self, first: Option<RunId>) {
        if let Some(first) = first {
            self.by_address.entry(first.into()).or_default();
        }
    }

    pub(super) fn has(&self, mailbox: &JournalId) -> bool {
        self.by_address.contains_key(mailbox)
    }

    pub(super) fn post(&mut self, mailbox: JournalId, item: MailboxItem) -> bool {
        let place = self.posts.len();
        let posted = self.by_address.entry(mailbox.clone()).or_default();
        match posted.by_id.entry(item.id.clone()) {
            Entry::Occupied(_) => return false,
            Entry::Vacant(id) => id.insert(place),
        };
        posted.waiting.insert(place);
        self.posts.push(Post {
            mailbox,
            at: item.at,
            item: Some(item),
        });
        true
    }

    fn take(&mut self, mailbox: &JournalId, id: &str) {
        let Some(posted) = self.by_address.get_mut(mailbox) else {
            return;
        };
        if let Some(place) = posted.by_id.get(id)
            && let Some(post) = self.posts.get_mut(*place)
        {
            posted.waiting.remove(place);
            post.item = None;
        }
    }

    /// The items that wait in a mailbox and have marks after this one.
    pub(super) fn of(&self, mailbox: &JournalId, after: u64) -> Vec<(u64, MailboxItem)> {
        let from = usize::try_from(after).unwrap_or(usize::MAX);
        let posted = self.by_address.get(mailbox).into_iter();
        let places = posted.flat_map(|posted| posted.waiting.range(from..));
        let item = |place: &usize| {
            let item = self.posts.get(*place)?.item.clone()?;
            Some((*place as u64 + 1, item))
        };
        places.filter_map(item).collect()
    }

    /// The ids of all items, in the order in which they were posted.
    fn ids(&self) -> Vec<(JournalId, String)> {
        let mailboxes = self.by_address.iter();
        let mut ids: Vec<_> = mailboxes
            .flat_map(|(mailbox, posted)| {
                posted
                    .by_id
                    .iter()
                    .map(move |(id, place)| (*place, mailbox, id))
            })
            .collect();
        ids.sort_unstable_by_key(|(place, ..)| *place);
        ids.into_iter()
            .map(|(_, mailbox, id)| (mailbox.clone(), id.clone()))
            .collect()
    }

    /// Forgets the ids of items that were posted before this time, and taken.
    pub(super) fn forget(&mut self, mailbox: &JournalId, before: Timestamp) {
        let Self { posts, by_address } = self;
        if let Some(posted) = by_address.get_mut(mailbox) {
            posted.by_id.retain(|_, place| {
                let post = posts.get(*place);
                post.is_some_and(|post| post.item.is_some() || post.at >= before)
            });
        }
    }

    /// Forgets the items of a mailbox. Their places stay in use, because marks are places.
    pub(super) fn delete(&mut self, mailbox: &JournalId) {
        for place in self.by_address.remove(mailbox).unwrap_or_default().waiting {
            if let Some(post) = self.posts.get_mut(place) {
                post.item = None;
            }
        }
    }

    pub(super) fn posted(&self, after: u64) -> (u64, Vec<JournalId>) {
        let from = usize::try_from(after).unwrap_or(usize::MAX);
        let mut mailboxes = Vec::new();
        let mut seen = HashSet::new();
        for post in self.posts.get(from..).unwrap_or_default() {
            if post.item.is_some() && seen.insert(&post.mailbox) {
                mailboxes.push(post.mailbox.clone());
            }
        }
        (self.posts.len() as u64, mailboxes)
    }
}

fn owned(journal: &JournalId, process: u64) -> StoreError {
    StoreError::Owned {
        journal: journal.clone(),
        owner: format!("process {process}"),
    }
}

fn stale(journal: &JournalId, epoch: u64, current: u64) -> StoreError {
    StoreError::Stale {
        journal: journal.clone(),
        epoch,
        current,
    }
}

/// Decodes a stored value for callers.
pub(super) fn visible(scope: &str, key: &str, slot: &Versioned) -> Result<StateSlot, StoreError> {
    let value = slot.value.as_ref();
    let value = value.map(|raw| serde_json::from_str(raw.get())).transpose();
    let version = slot.version;
    match value {
        Ok(value) => Ok(StateSlot { value, version }),
        // Well-formed JSON that `Value` cannot hold, such as a number out of range.
        Err(error) => Err(StoreError::Damaged {
            place: format!("{scope}/{key}"),
            reason: error.to_string(),
        }),
    }
}
