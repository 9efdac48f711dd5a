//! The work inside one transaction: claims, checks, inserts.
//!
//! For journals that it wrote to, the writer remembers the epoch, the owner, the next sequence
//! number and the last hash. So a batch is checked in memory before any of it is written, and a
//! refused one leaves no trace. These values are valid as long as no other connection wrote to the
//! file, which `PRAGMA data_version` tells inside each transaction.

mod deleting;

use std::collections::{HashMap, HashSet};

use ghostlight_actors::{
    contract::{Append, Batch, Claim, Committed, MailboxItem, StateWrite, StoreError},
    vocabulary::{JournalId, RunId, SessionId},
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    anchor::Mark,
    chain::{self, CommitDigest, Hash},
    fault::Fault,
    owner::{self, Owner},
    rows::{self, JournalRow, StateRow},
};

/// The most journals that are remembered, at some 200 bytes each.
const REMEMBERED: usize = 50_000;

/// Why a batch or a claim has no effect.
enum Stop {
    /// It is refused; the other requests continue.
    Refused(StoreError),
    /// The store failed.
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

/// Turns the reason that stopped a batch or a claim into an answer or a failure of the store.
fn answer<T>(result: Result<T, Stop>) -> Result<Result<T, StoreError>, Fault> {
    match result {
        Ok(done) => Ok(Ok(done)),
        Err(Stop::Refused(error)) => Ok(Err(error)),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}

/// A journal as it will be after the checks so far.
#[derive(Clone, Debug)]
struct Head {
    row: JournalRow,
    /// How many entries it has.
    next: u64,
    /// The hash of its last entry.
    hash: Hash,
}

/// The end of the store.
#[derive(Clone, Copy, Debug, Default)]
struct Tail {
    commit: u64,
    digest: Hash,
    position: u64,
    /// The highest journal id.
    journal: i64,
}

/// The only writing connection.
pub(super) struct Writer {
    connection: Connection,
    place: String,
    owner: Owner,
    /// Owners that were found dead; an id is never used again.
    dead: HashSet<String>,
    data_version: Option<i64>,
    /// Whether a commit waits until the disk has it.
    syncs: bool,
    heads: HashMap<JournalId, Head>,
    tail: Tail,
    /// The digest of the commit that is being made.
    digest: CommitDigest,
    changed: bool,
    /// The commit that the anchor names.
    pub(super) anchored: u64,
}

impl Writer {
    pub(super) fn new(connection: Connection, place: String, owner: Owner) -> Self {
        connection.set_prepared_statement_cache_capacity(64);
        Self {
            connection,
            place,
            owner,
            dead: HashSet::new(),
            data_version: None,
            syncs: true,
            heads: HashMap::new(),
            tail: Tail::default(),
            digest: CommitDigest::after(&[0; 16], 0),
            changed: false,
            anchored: 0,
        }
    }

    /// Begins a transaction, durable once it ends or only with the next one that is, and forgets
    /// the remembered journals if another connection has written since.
    pub(super) fn begin(&mut self, durable: bool) -> Result<(), Fault> {
        let connection = &self.connection;
        if self.syncs != durable {
            let level = if durable { "FULL" } else { "NORMAL" };
            connection.pragma_update(None, "synchronous", level)?;
            self.syncs = durable;
        }
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let version = connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        if self.data_version != Some(version) {
            self.heads.clear();
            self.tail = read_tail(connection)?;
            self.data_version = Some(version);
        }
        if self.heads.len() > REMEMBERED {
            self.heads.clear();
        }
        self.digest = CommitDigest::after(&self.tail.digest, self.tail.commit + 1);
        self.changed = false;
        Ok(())
    }

    /// Commits the transaction, and tells whether it changed anything: without changes it is not a commit.
    pub(super) fn finish(&mut self) -> Result<bool, Fault> {
        if self.changed {
            self.tail.commit += 1;
            self.tail.digest = self.digest.done();
            let mut insert = self.connection.prepare_cached(
                "INSERT INTO commits(number, position, digest) VALUES (?1, ?2, ?3)",
            )?;
            insert.execute(params![
                self.tail.commit.cast_signed(),
                self.tail.position.cast_signed(),
                self.tail.digest
            ])?;
        }
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(self.changed)
    }

    /// Rolls the transaction back, if there is one.
    pub(super) fn roll_back(&mut self) {
        // It fails where SQLite has rolled back by itself.
        let _ = self.connection.execute_batch("ROLLBACK");
        self.data_version = None;
    }

    /// The last commit, outside of a transaction.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            number: self.tail.commit,
            digest: self.tail.digest,
        }
    }

    pub(super) fn claim(
        &mut self,
        journal: JournalId,
        take_over: bool,
    ) -> Result<Result<Claim, StoreError>, Fault> {
        answer(self.try_claim(journal, take_over))
    }

    /// See `Journals::claim_below`.
    pub(super) fn claim_below(
        &mut self,
        journal: JournalId,
        above: &JournalId,
        epoch: u64,
    ) -> Result<Result<Claim, StoreError>, Fault> {
        let checked = self.check_carried(above, epoch);
        answer(checked.and_then(|()| self.try_claim(journal, true)))
    }

    /// See `Journals::confirm`. An owner stays one until its process ends or another one takes over.
    pub(super) fn confirm(
        &mut self,
        journal: &JournalId,
        epoch: u64,
    ) -> Result<Result<u64, StoreError>, Fault> {
        answer(self.check_carried(journal, epoch).map(|()| 0))
    }

    /// Refuses unless this is the epoch of a journal that this process owns.
    fn check_carried(&mut self, journal: &JournalId, epoch: u64) -> Result<(), Stop> {
        let head = self.head(journal);
        let head = head.map_err(|fault| self.unreadable(fault))?;
        let row = head.as_ref().map(|head| &head.row);
        if row
            .is_some_and(|row| row.epoch == epoch && row.owner.as_deref() == Some(self.owner.id()))
        {
            return Ok(());
        }
        Err(Stop::Refused(StoreError::Stale {
            journal: journal.clone(),
            epoch,
            current: row.map_or(0, |row| row.epoch),
        }))
    }

    fn try_claim(&mut self, journal: JournalId, take_over: bool) -> Result<Claim, Stop> {
        let found = self
            .head(&journal)
            .map_err(|fault| self.unreadable(fault))?;
        let mut head = match found {
            Some(head) => head,
            None => self.fresh(&journal)?,
        };
        if !take_over && head.row.epoch > 0 {
            self.check_owner(&journal, &head)?;
        }
        head.row.epoch += 1;
        head.row.owner = Some(self.owner.id().to_owned());
        head.row.write(&self.connection, &journal.to_string())?;
        let claim = Claim {
            epoch: head.row.epoch,
            entries: head.next,
            // The owner's lock ends with its process, and so does all that the process does.
            ..Claim::default()
        };
        self.heads.insert(journal, head);
        self.changed = true;
        Ok(claim)
    }

    /// The journals among these that belong to another live process.
    pub(super) fn held_elsewhere(
        &mut self,
        journals: &[JournalId],
    ) -> Result<Result<Vec<bool>, StoreError>, Fault> {
        let held = |journal: &JournalId| {
            let found = self.head(journal);
            let Some(head) = found.map_err(|fault| self.unreadable(fault))? else {
                return Ok(false);
            };
            match self.check_owner(journal, &head) {
                Err(Stop::Refused(StoreError::Owned { .. })) => Ok(true),
                checked => checked.map(|()| false),
            }
        };
        answer(journals.iter().map(held).collect())
    }

    pub(super) fn commit(&mut self, batch: Batch) -> Result<Result<Committed, StoreError>, Fault> {
        answer(self.try_commit(batch))
    }

    /// Checks everything, then writes everything: after the checks nothing can be refused.
    fn try_commit(&mut self, batch: Batch) -> Result<Committed, Stop> {
        let versions = self.check_writes(&batch.writes)?;
        self.check_appends(&batch.appends)?;
        let committed = Committed {
            position: self.tail.position + 1,
        };
        self.changed |= !is_empty(&batch);
        for append in batch.appends {
            self.append(append)?;
        }
        let connection = &self.connection;
        for (write, version) in batch.writes.iter().zip(versions) {
            let value = write.value.as_ref().map(|value| value.get());
            rows::write_state(connection, &write.scope, &write.key, value, version)?;
        }
        for (digest, bytes) in &batch.blobs {
            connection
                .prepare_cached(
                    "INSERT INTO blobs(hash, bytes) VALUES (?1, ?2) ON CONFLICT(hash) DO NOTHING",
                )
                .and_then(|mut insert| insert.execute(params![digest.0, &**bytes]))
                .map_err(Fault::from)?;
        }
        for (mailbox, id) in &batch.taken {
            rows::take(connection, mailbox, id)?;
        }
        for (mailbox, item) in &batch.posts {
            rows::post(connection, mailbox, item)?;
        }
        Ok(committed)
    }

    pub(super) fn post(&mut self, mailbox: &JournalId, item: &MailboxItem) -> Result<bool, Fault> {
        let new = rows::post(&self.connection, mailbox, item)?;
        self.changed |= new;
        Ok(new)
    }

    pub(super) fn put_checkpoint(
        &mut self,
        session: &SessionId,
        bytes: Option<&[u8]>,
    ) -> Result<(), Fault> {
        self.changed = true;
        rows::put_checkpoint(&self.connection, session, bytes)
    }

    /// How a failed read counts before anything was written: a damaged row concerns only the caller
    /// that needs it.
    fn unreadable(&self, fault: Fault) -> Stop {
        if fault.is_damage() {
            Stop::Refused(fault.at(&self.place))
        } else {
            Stop::Fault(fault)
        }
    }

    /// The versions that the writes will make; each write sees the earlier ones of its batch.
    fn check_writes(&self, writes: &[StateWrite]) -> Result<Vec<u64>, Stop> {
        StateWrite::versions(writes, |scope, key| {
            let found = StateRow::find(&self.connection, scope, key);
            let found = found.map_err(|fault| self.unreadable(fault))?;
            Ok(found.map_or((false, 0), |row| (row.value.is_some(), row.version)))
        })
    }

    fn check_appends(&mut self, appends: &[Append]) -> Result<(), Stop> {
        // How many entries each journal will have after the appends checked so far.
        let mut staged: HashMap<&JournalId, u64> = HashMap::new();
        for append in appends {
            let have = match staged.get(&append.journal) {
                Some(have) => *have,
                None => self.check_epoch(append)?,
            };
            if append.expected != have {
                return Err(Stop::Refused(StoreError::Sequence {
                    journal: append.journal.clone(),
                    expected: append.expected,
                    have,
                }));
            }
            staged.insert(&append.journal, have + append.lines.len() as u64);
        }
        Ok(())
    }

    /// How many entries the journal has, provided that its owner sends the append.
    fn check_epoch(&mut self, append: &Append) -> Result<u64, Stop> {
        let head = self
            .head(&append.journal)
            .map_err(|fault| self.unreadable(fault))?;
        let current = head.as_ref().map_or(0, |head| head.row.epoch);
        let is_session = matches!(append.journal, JournalId::Session(_));
        let makes = append.epoch == 1 && append.expected == 0;
        let makes = makes && (append.row.is_some() || is_session);
        match head {
            Some(head) if current > 0 && current == append.epoch => {
                self.check_owner(&append.journal, &head)?;
                Ok(head.next)
            }
            _ if current == 0 && makes => Ok(0),
            _ => Err(Stop::Refused(StoreError::Stale {
                journal: append.journal.clone(),
                epoch: append.epoch,
                current,
            })),
        }
    }

    /// Refuses when the journal belongs to another live process.
    fn check_owner(&mut self, journal: &JournalId, head: &Head) -> Result<(), Stop> {
        let Some(id) = head.row.owner.as_deref() else {
            return Ok(());
        };
        if id == self.owner.id() || self.dead.contains(id) {
            return Ok(());
        }
        let lives = self.owner.lives(id).map_err(|error| StoreError::Io {
            place: self.place.clone(),
            reason: format!("asking whether {} lives: {error}", owner::in_words(id)),
        })?;
        if lives {
            return Err(Stop::Refused(StoreError::Owned {
                journal: journal.clone(),
                owner: owner::in_words(id),
            }));
        }
        self.dead.insert(id.to_owned());
        Ok(())
    }

    fn append(&mut self, append: Append) -> Result<(), Fault> {
        let key = append.journal.to_string();
        let mut head = match self.heads.remove(&append.journal) {
            Some(head) => head,
            None => match self.head(&append.journal)? {
                Some(head) => head,
                None => self.fresh(&append.journal)?,
            },
        };
        // The first entry of a journal's first epoch makes a run or a session. A process may also
        // have claimed the run, written nothing and died; no other process has the epoch then.
        let is_mine = head.row.owner.as_deref() == Some(self.owner.id());
        if !is_mine {
            head.row.epoch = append.epoch;
            head.row.owner = Some(self.owner.id().to_owned());
        }
        if let Some(row) = &append.row {
            // The first entry fixes the tree.
            if head.next == 0 && row.root != row.run {
                head.row.root = Some(self.root(row.root)?);
            }
            rows::write_run(&self.connection, row)?;
        }
        if !is_mine || head.next == 0 {
            head.row.write(&self.connection, &key)?;
        }
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO entries(position, journal, root, sequence, at, body, hash) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        for line in append.lines {
            let position = self.tail.position + 1;
            let at = line.at.0.cast_signed();
            let hash = chain::link(&head.hash, position, head.next, at, &line.text);
            insert.execute(params![
                position.cast_signed(),
                head.row.id,
                head.row.root,
                head.next.cast_signed(),
                at,
                &*line.text,
                hash
            ])?;
            self.digest.entry(&hash);
            self.tail.position = position;
            head.next += 1;
            head.hash = hash;
        }
        drop(insert);
        self.heads.insert(append.journal, head);
        Ok(())
    }

    /// The journal of a root, which its children may name before it is made.
    fn root(&mut self, root: RunId) -> Result<i64, Fault> {
        let journal = JournalId::Run(root);
        if let Some(head) = self.head(&journal)? {
            return Ok(head.row.id);
        }
        let head = self.fresh(&journal)?;
        let id = head.row.id;
        head.row.write(&self.connection, &journal.to_string())?;
        self.heads.insert(journal, head);
        Ok(id)
    }

    /// A new journal, with an id of its own.
    fn fresh(&mut self, journal: &JournalId) -> Result<Head, Fault> {
        self.tail.journal += 1;
        let id = self.tail.journal;
        Ok(Head {
            row: JournalRow {
                id,
                root: matches!(journal, JournalId::Run(_)).then_some(id),
                epoch: 0,
                owner: None,
            },
            next: 0,
            hash: chain::genesis(&journal.to_string()),
        })
    }

    /// The known state of a journal; `None` when there is no such journal.
    fn head(&mut self, journal: &JournalId) -> Result<Option<Head>, Fault> {
        if let Some(head) = self.heads.get(journal) {
            return Ok(Some(head.clone()));
        }
        let key = journal.to_string();
        let Some(row) = JournalRow::find(&self.connection, &key)? else {
            return Ok(None);
        };
        let mut last = self.connection.prepare_cached(
            "SELECT sequence, hash FROM entries WHERE journal = ?1 \
             ORDER BY sequence DESC LIMIT 1",
        )?;
        let columns = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Hash>(1)?));
        let last = last.query_row([row.id], columns).optional()?;
        let head = match last {
            Some((sequence, hash)) => Head {
                row,
                next: sequence.cast_unsigned() + 1,
                hash,
            },
            None => Head {
                row,
                next: 0,
                hash: chain::genesis(&key),
            },
        };
        self.heads.insert(journal.clone(), head.clone());
        Ok(Some(head))
    }
}

fn is_empty(batch: &Batch) -> bool {
    batch.appends.is_empty()
        && batch.writes.is_empty()
        && batch.blobs.is_empty()
        && batch.taken.is_empty()
        && batch.posts.is_empty()
}

fn read_tail(connection: &Connection) -> Result<Tail, Fault> {
    let journal = connection.query_row("SELECT coalesce(max(id), 0) FROM journals", [], |row| {
        row.get(0)
    })?;
    let columns = |row: &rusqlite::Row<'_>| {
        Ok(Tail {
            commit: row.get::<_, i64>(0)?.cast_unsigned(),
            position: row.get::<_, i64>(1)?.cast_unsigned(),
            digest: row.get(2)?,
            journal,
        })
    };
    let last = "SELECT number, position, digest FROM commits ORDER BY number DESC LIMIT 1";
    let tail = connection.query_row(last, [], columns).optional()?;
    Ok(tail.unwrap_or(Tail {
        journal,
        ..Tail::default()
    }))
}
