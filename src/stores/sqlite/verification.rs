//! Reading everything and comparing every hash.

use std::collections::HashMap;

use ghostlight_actors::{
    contract::Line,
    vocabulary::{Digest, Timestamp},
};
use rusqlite::{Connection, Row};

use super::{
    Verified, absence,
    chain::{self, CommitDigest, Hash},
    deletion,
    fault::Fault,
    opening,
    rows::{self, JournalRow, StateRow},
};

/// See [`SqliteStore::verify`](super::SqliteStore::verify).
pub(super) fn verify(connection: &Connection) -> Result<Verified, Fault> {
    opening::check_pages(connection)?;
    absence::check(connection, true)?;
    let journals = journals(connection)?;
    let entries = Entries::check(connection, journals)?;
    each(
        connection,
        &format!("SELECT {} FROM runs", rows::RUN_COLUMNS),
        |row| rows::read_run(row).map(drop),
    )?;
    each(
        connection,
        "SELECT scope, key, value, version, digest FROM state",
        |row| StateRow::from_row(row).map(drop),
    )?;
    each(
        connection,
        "SELECT run, id, at, body, digest FROM inbox",
        |row| rows::read_item(row).map(drop),
    )?;
    each(
        connection,
        "SELECT session, bytes, digest FROM checkpoints",
        |row| rows::read_checkpoint(row).map(drop),
    )?;
    each(connection, "SELECT run, at, digest FROM deleted", |row| {
        deletion::read_deletion(row).map(drop)
    })?;
    each(connection, "SELECT hash, bytes FROM blobs", |row| {
        if Digest::of(row.get_ref(1)?.as_blob()?).0 == row.get::<_, [u8; 32]>(0)? {
            Ok(())
        } else {
            Err(Fault::damaged("a blob does not match its hash"))
        }
    })?;
    Ok(entries)
}

fn each(
    connection: &Connection,
    sql: &str,
    mut check: impl FnMut(&Row<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut statement = connection.prepare(sql)?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        check(row)?;
    }
    Ok(())
}

/// A journal of the file.
struct Journal {
    /// The key that it had when its first entry was hashed.
    key: String,
    root: Option<i64>,
    /// Whether it is being deleted.
    is_doomed: bool,
}

fn journals(connection: &Connection) -> Result<HashMap<i64, Journal>, Fault> {
    let mut journals = HashMap::new();
    each(
        connection,
        "SELECT key, id, root, epoch, owner, digest FROM journals",
        |row| {
            let JournalRow { id, root, .. } = JournalRow::from_row(row)?;
            let key = rows::needed(row, 0)?;
            let journal = Journal {
                key: deletion::original_key(key).to_owned(),
                root,
                is_doomed: deletion::is_doomed(key),
            };
            journals.insert(id, journal);
            Ok(())
        },
    )?;
    Ok(journals)
}

/// Checks all entries, in the order of their positions, against both chains at once.
struct Entries<'c> {
    connection: &'c Connection,
    journals: HashMap<i64, Journal>,
    /// The next sequence number and the last hash of each journal.
    heads: HashMap<i64, (u64, Hash)>,
    position: u64,
    /// The number of entries.
    entries: u64,
}

/// Entries, and the hashes of those that were deleted, in the order of their positions.
const ENTRIES: &str = "SELECT position, journal, sequence, at, body, hash FROM entries \
     UNION ALL SELECT position, NULL, NULL, NULL, NULL, hash FROM gone ORDER BY position";
const COMMITS: &str = "SELECT number, position, digest, first FROM commits ORDER BY number";

impl<'c> Entries<'c> {
    fn check(
        connection: &'c Connection,
        journals: HashMap<i64, Journal>,
    ) -> Result<Verified, Fault> {
        let mut checked = Self {
            connection,
            journals,
            heads: HashMap::new(),
            position: 0,
            entries: 0,
        };
        let mut statement = connection.prepare(ENTRIES)?;
        let mut entries = statement.query([])?;
        let (mut number, mut digest) = (0, [0; 16]);
        each(connection, COMMITS, |row| {
            let begins = number + 1;
            number = row.get::<_, i64>(0)?.cast_unsigned();
            let mut computed = CommitDigest::after(&digest, number);
            let end = row.get::<_, i64>(1)?.cast_unsigned();
            digest = rows::hash(row, 2)?;
            let first = row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned);
            let is_next = first.unwrap_or(number) == begins;
            if is_next && first.is_some() && checked.position <= end {
                // These commits have no entries left: an entry there would be out of place.
                checked.position = end;
                return Ok(());
            }
            while checked.position < end {
                let entry = entries.next()?.ok_or_else(|| missing(end))?;
                computed.entry(&checked.entry(entry)?);
            }
            if is_next && computed.done() == digest {
                Ok(())
            } else {
                Err(Fault::Damaged(format!(
                    "commit {number} does not match its digest"
                )))
            }
        })?;
        if entries.next()?.is_some() {
            return Err(Fault::damaged("it has entries that no commit brought"));
        }
        Ok(Verified {
            commits: number,
            entries: checked.entries,
        })
    }

    fn entry(&mut self, row: &Row<'_>) -> Result<Hash, Fault> {
        self.position += 1;
        let position = row.get::<_, i64>(0)?.cast_unsigned();
        if position != self.position {
            return Err(missing(self.position));
        }
        let Some(journal) = row.get::<_, Option<i64>>(1)? else {
            return rows::hash(row, 5);
        };
        self.entries += 1;
        let found = self.journals.get(&journal).ok_or_else(|| {
            Fault::Damaged(format!("journal {journal} of entry {position} is missing"))
        })?;
        let (key, text) = (&found.key, rows::needed(row, 4)?);
        let head = self.heads.entry(journal);
        let (next, before) = head.or_insert_with(|| (0, chain::genesis(key)));
        let sequence = row.get::<_, i64>(2)?.cast_unsigned();
        let hash = chain::link(before, position, sequence, row.get(3)?, text);
        if sequence != *next || hash != rows::hash(row, 5)? {
            let what = format!("entry {sequence} of {key} does not match its hash");
            return Err(Fault::Damaged(what));
        }
        (*next, *before) = (sequence + 1, hash);
        if !self.is_going(found) {
            self.check_files(text, position)?;
        }
        Ok(hash)
    }

    /// Whether a journal is being deleted, or will be with the root of its tree. Its files may be gone already.
    fn is_going(&self, journal: &Journal) -> bool {
        let root = journal.root.and_then(|root| self.journals.get(&root));
        journal.is_doomed || root.is_some_and(|root| root.is_doomed)
    }

    /// Checks that the files are there that an entry is without.
    fn check_files(&self, text: &str, position: u64) -> Result<(), Fault> {
        let line = Line {
            at: Timestamp::default(),
            text: text.into(),
        };
        let damaged =
            |what: String| Fault::Damaged(format!("the entry at position {position} {what}"));
        let files = line
            .files()
            .map_err(|error| damaged(format!("does not read: {error}")))?;
        let mut blob = self
            .connection
            .prepare_cached("SELECT 1 FROM blobs WHERE hash = ?1")?;
        for file in files {
            if !blob.exists([file.0])? {
                return Err(damaged(format!("lacks its file {file}")));
            }
        }
        Ok(())
    }
}

fn missing(position: u64) -> Fault {
    Fault::Damaged(format!("the entry at position {position} is missing"))
}
