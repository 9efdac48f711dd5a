//! The rules for a group of requests, as pure functions of the loaded state. Everything is checked
//! before anything is written, so a refused batch leaves no trace and does not hinder the others.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use ghostlight_actors::{
    contract::{
        Append, Batch, Claim, Committed, Line, MailboxItem, RunRow, StateWrite, StoreError,
    },
    vocabulary::{Digest, JournalId, RunId},
};

use crate::{chain, node};

/// The end of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) commit: u64,
    pub(crate) digest: Digest,
    pub(crate) position: u64,
    /// The highest id of a journal.
    pub(crate) journal: i64,
    /// The mark of the last posted item.
    pub(crate) mark: u64,
    /// The database's time when this was read, in milliseconds.
    pub(crate) now: i64,
}

/// A journal as it is, or as it will be after the requests checked so far.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) id: i64,
    pub(crate) root: Option<i64>,
    /// 0 for a root that so far is only named by its children.
    pub(crate) epoch: u64,
    pub(crate) owner: Option<String>,
    /// Whether it belongs to another living node.
    pub(crate) held: bool,
    /// Until when a former owner may begin what it was allowed to, in milliseconds of the database's time.
    pub(crate) settles_at: Option<i64>,
    /// Whether the group makes it.
    pub(crate) is_new: bool,
    /// Whether the group changes more of it than its end.
    pub(crate) beyond_end: bool,
    pub(crate) entries: u64,
    /// How many entries it had before the group.
    pub(crate) before: u64,
    pub(crate) hash: Digest,
    pub(crate) updated_at: u64,
    pub(crate) definition: Option<Digest>,
}

/// An entry to be written.
#[derive(Debug)]
pub(crate) struct NewEntry<'r> {
    pub(crate) position: u64,
    pub(crate) journal: i64,
    pub(crate) root: Option<i64>,
    pub(crate) sequence: u64,
    pub(crate) line: &'r Line,
    pub(crate) hash: Digest,
}

/// An item to be put into a mailbox; without a body if the group has already removed it.
#[derive(Debug)]
pub(crate) struct NewItem {
    pub(crate) mark: u64,
    pub(crate) at: u64,
    pub(crate) body: Option<String>,
}

/// The place of a value in shared state: scope and key.
pub(crate) type Place = (String, String);

/// The state as the group sees it, and the changes of the group.
#[derive(Debug)]
pub(crate) struct Group<'r> {
    pub(crate) node: &'r str,
    pub(crate) tail: Tail,
    /// By key.
    pub(crate) heads: HashMap<String, Head>,
    /// Whether a value exists, and its version.
    pub(crate) slots: HashMap<Place, (bool, u64)>,
    /// The items, by mailbox and id, that are already known.
    pub(crate) known: HashSet<(String, String)>,
    // The changes to be written.
    pub(crate) changed: HashSet<String>,
    pub(crate) entries: Vec<NewEntry<'r>>,
    pub(crate) runs: BTreeMap<usize, &'r RunRow>,
    run_places: HashMap<RunId, usize>,
    pub(crate) values: HashMap<Place, (Option<&'r str>, u64)>,
    pub(crate) blobs: HashMap<Digest, &'r [u8]>,
    pub(crate) taken: Vec<(String, &'r str)>,
    pub(crate) items: HashMap<(String, String), NewItem>,
}

fn item_body(item: &MailboxItem) -> Result<String, StoreError> {
    serde_json::to_string(&item.body).map_err(|error| StoreError::Unwritable {
        reason: format!("mailbox item {}: {error}", item.id),
    })
}

impl<'r> Group<'r> {
    pub(crate) fn new(node: &'r str, tail: Tail) -> Self {
        Self {
            node,
            tail,
            heads: HashMap::new(),
            slots: HashMap::new(),
            known: HashSet::new(),
            changed: HashSet::new(),
            entries: Vec::new(),
            runs: BTreeMap::new(),
            run_places: HashMap::new(),
            values: HashMap::new(),
            blobs: HashMap::new(),
            taken: Vec::new(),
            items: HashMap::new(),
        }
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.changed.is_empty()
            && self.values.is_empty()
            && self.blobs.is_empty()
            && self.taken.is_empty()
            && self.items.is_empty()
    }

    /// The runs that have come to rest.
    pub(crate) fn rested(&self) -> Vec<RunId> {
        let runs = self.runs.values();
        let rested = runs.filter(|row| !row.status.is_under_way());
        rested.map(|row| row.run).collect()
    }

    /// See `Journals::claim`, and `Journals::claim_below` with the journal above.
    pub(crate) fn claim(
        &mut self,
        journal: &JournalId,
        take_over: bool,
        above: Option<&(JournalId, u64)>,
    ) -> Result<Claim, StoreError> {
        if let Some((above, epoch)) = above {
            self.check_carried(above, *epoch)?;
        }
        let key = journal.to_string();
        let mut head = match self.heads.get(&key) {
            Some(head) => head.clone(),
            None => self.fresh(journal, &key),
        };
        if !take_over && head.epoch > 0 {
            check_owner(journal, &head)?;
        }
        head.epoch += 1;
        self.own(&mut head);
        let left = head.settles_at.map_or(0, |at| at - self.tail.now);
        let claim = Claim {
            epoch: head.epoch,
            entries: head.entries,
            settles_in: Duration::from_millis(u64::try_from(left).unwrap_or(0)),
        };
        self.put(key, head);
        Ok(claim)
    }

    fn check_carried(&self, journal: &JournalId, epoch: u64) -> Result<(), StoreError> {
        let head = self.heads.get(&journal.to_string());
        let carries =
            |head: &&Head| head.epoch == epoch && head.owner.as_deref() == Some(self.node);
        match head.filter(carries) {
            Some(_) => Ok(()),
            None => Err(StoreError::Stale {
                journal: journal.clone(),
                epoch,
                current: head.map_or(0, |head| head.epoch),
            }),
        }
    }

    /// See `Journals::commit`.
    pub(crate) fn commit(&mut self, batch: &'r Batch) -> Result<Committed, StoreError> {
        let versions = self.check_writes(&batch.writes)?;
        self.check_appends(&batch.appends)?;
        let bodies: Result<Vec<String>, StoreError> = batch
            .posts
            .iter()
            .map(|(_, item)| item_body(item))
            .collect();
        let bodies = bodies?;
        let position = self.tail.position + 1;
        for append in &batch.appends {
            self.append(append);
        }
        for (write, version) in batch.writes.iter().zip(versions) {
            let place = (write.scope.clone(), write.key.clone());
            self.slots
                .insert(place.clone(), (write.value.is_some(), version));
            let value = write.value.as_ref().map(|value| value.get());
            self.values.insert(place, (value, version));
        }
        for (digest, bytes) in &batch.blobs {
            self.blobs.insert(*digest, bytes);
        }
        for (mailbox, id) in &batch.taken {
            let key = (mailbox.to_string(), id.clone());
            match self.items.get_mut(&key) {
                Some(item) => item.body = None,
                None => self.taken.push((key.0, id)),
            }
        }
        for ((mailbox, item), body) in batch.posts.iter().zip(bodies) {
            self.put_item(mailbox, item, body);
        }
        Ok(Committed { position })
    }

    /// See `Mailboxes::post`.
    pub(crate) fn post(
        &mut self,
        mailbox: &JournalId,
        item: &MailboxItem,
    ) -> Result<bool, StoreError> {
        let body = item_body(item)?;
        Ok(self.put_item(mailbox, item, body))
    }

    fn put_item(&mut self, mailbox: &JournalId, item: &MailboxItem, body: String) -> bool {
        let name = (mailbox.to_string(), item.id.clone());
        if !self.known.insert(name.clone()) {
            return false;
        }
        self.tail.mark += 1;
        let item = NewItem {
            mark: self.tail.mark,
            at: item.at.0,
            body: Some(body),
        };
        self.items.insert(name, item);
        true
    }

    /// The versions that the writes will create. Each write sees the earlier writes of its batch.
    fn check_writes(&self, writes: &[StateWrite]) -> Result<Vec<u64>, StoreError> {
        StateWrite::versions(writes, |scope, key| {
            let place = (scope.to_owned(), key.to_owned());
            Ok(self.slots.get(&place).copied().unwrap_or_default())
        })
    }

    fn check_appends(&self, appends: &[Append]) -> Result<(), StoreError> {
        // The number of entries of each journal after the appends checked so far.
        let mut staged: HashMap<&JournalId, u64> = HashMap::new();
        for append in appends {
            let have = match staged.get(&append.journal) {
                Some(have) => *have,
                None => self.check_epoch(append)?,
            };
            if append.expected != have {
                return Err(StoreError::Sequence {
                    journal: append.journal.clone(),
                    expected: append.expected,
                    have,
                });
            }
            staged.insert(&append.journal, have + append.lines.len() as u64);
        }
        Ok(())
    }

    /// The number of entries of the journal, if the append comes from its owner.
    fn check_epoch(&self, append: &Append) -> Result<u64, StoreError> {
        let head = self.heads.get(&append.journal.to_string());
        let current = head.map_or(0, |head| head.epoch);
        let is_session = matches!(append.journal, JournalId::Session(_));
        let makes = append.epoch == 1 && append.expected == 0;
        let makes = makes && (append.row.is_some() || is_session);
        match head {
            Some(head) if current > 0 && current == append.epoch => {
                check_owner(&append.journal, head)?;
                Ok(head.entries)
            }
            _ if current == 0 && makes => Ok(0),
            _ => Err(StoreError::Stale {
                journal: append.journal.clone(),
                epoch: append.epoch,
                current,
            }),
        }
    }

    fn append(&mut self, append: &'r Append) {
        let key = append.journal.to_string();
        let mut head = match self.heads.get(&key) {
            Some(head) => head.clone(),
            None => self.fresh(&append.journal, &key),
        };
        // The first entry of the first epoch creates a run or a session. It is also possible that a
        // process claimed the run, wrote nothing and died; then nobody else holds the epoch.
        if head.owner.as_deref() != Some(self.node) {
            head.epoch = append.epoch;
            self.own(&mut head);
        }
        if let Some(row) = &append.row {
            // The first entry fixes the root of the tree.
            if head.entries == 0 && row.root != row.run {
                head.beyond_end = true;
                head.root = Some(self.root(row.root));
            }
            let next = self.run_places.len();
            let place = *self.run_places.entry(row.run).or_insert(next);
            self.runs.insert(place, row);
        }
        for line in &append.lines {
            if head.entries == 0 && matches!(append.journal, JournalId::Run(_)) {
                head.beyond_end = true;
                head.definition = line.blob().ok().flatten();
            }
            self.tail.position += 1;
            let (position, sequence) = (self.tail.position, head.entries);
            head.hash = chain::link(&head.hash, position, sequence, line.at.0, &line.text);
            head.entries += 1;
            head.updated_at = line.at.0;
            self.entries.push(NewEntry {
                position,
                journal: head.id,
                root: head.root,
                sequence,
                line,
                hash: head.hash,
            });
        }
        self.put(key, head);
    }

    fn own(&self, head: &mut Head) {
        head.owner = Some(self.node.to_owned());
        head.held = false;
        head.beyond_end = true;
    }

    fn put(&mut self, key: String, head: Head) {
        self.changed.insert(key.clone());
        self.heads.insert(key, head);
    }

    /// The journal of a root, which its children may name before it exists.
    fn root(&mut self, root: RunId) -> i64 {
        let journal = JournalId::Run(root);
        let key = journal.to_string();
        if let Some(head) = self.heads.get(&key) {
            return head.id;
        }
        let head = self.fresh(&journal, &key);
        let id = head.id;
        self.put(key, head);
        id
    }

    /// A journal that does not exist yet, with its own id.
    fn fresh(&mut self, journal: &JournalId, key: &str) -> Head {
        self.tail.journal += 1;
        let id = self.tail.journal;
        Head {
            id,
            root: matches!(journal, JournalId::Run(_)).then_some(id),
            epoch: 0,
            owner: None,
            held: false,
            settles_at: None,
            is_new: true,
            beyond_end: true,
            entries: 0,
            before: 0,
            hash: chain::genesis(key),
            updated_at: 0,
            definition: None,
        }
    }
}

/// Refuses the request if the journal belongs to another living process.
fn check_owner(journal: &JournalId, head: &Head) -> Result<(), StoreError> {
    match &head.owner {
        Some(owner) if head.held => Err(StoreError::Owned {
            journal: journal.clone(),
            owner: node::in_words(owner),
        }),
        _ => Ok(()),
    }
}
