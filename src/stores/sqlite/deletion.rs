//! Deleting ended trees and sessions, in steps of bounded size.
//!
//! A journal to be deleted first gets another key, under which no reader looks for it; that changes
//! one row. Then its entries are deleted from the last to the first, so the rest of it is a valid
//! chain at any time. The hash of an entry that shares its commit with others is kept, since the
//! commit's digest covers it. A commit without remaining entries is folded into the commit after
//! it: that row then names the commits that it stands for, and says that they have no entries.

use std::sync::LazyLock;

use ghostlight_actors::{
    contract::{DELETIONS_KNOWN, Deleted, Expiry, RunRow, artifact_scopes},
    vocabulary::{JournalId, RunId, SessionId, Timestamp},
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    chain::{Check, Hash},
    fault::Fault,
    reader,
    rows::{self, JournalRow},
};

/// The prefix of the key of a journal to be deleted.
const DOOMED: &str = "deleted:";
/// The first key after all keys with that prefix.
const BEHIND_DOOMED: &str = "deleted;";

/// The key that a journal had when its first entry was hashed.
pub(super) fn original_key(key: &str) -> &str {
    key.strip_prefix(DOOMED).unwrap_or(key)
}

/// Whether a journal is being deleted.
pub(super) fn is_doomed(key: &str) -> bool {
    key.starts_with(DOOMED)
}

/// Finds the roots of ended trees. The latest that may go is found first, so that those that are kept are read, and not
/// all.
static EXPIRED: LazyLock<String> = LazyLock::new(|| {
    let (columns, open) = (rows::RUN_COLUMNS, rows::OPEN);
    let ended = format!(
        "FROM runs WHERE parent IS NULL AND NOT {open} AND run = root AND NOT EXISTS \
             (SELECT 1 FROM runs AS below WHERE below.root = runs.run AND {open})"
    );
    format!(
        "SELECT {columns} {ended} AND updated_at < ?2 AND (updated_at, run) <= \
             (SELECT updated_at, run {ended} ORDER BY updated_at DESC, run DESC LIMIT 1 OFFSET ?1) \
         ORDER BY updated_at, run LIMIT ?3"
    )
});

/// See `Deletion::expired`.
pub(super) fn expired(connection: &Connection, expiry: &Expiry) -> Result<Vec<RunRow>, Fault> {
    let before = expiry.ended_before.map_or(i64::MAX, |at| sql_number(at.0));
    let limit = match expiry.limit {
        0 => -1,
        limit => sql_number(limit as u64),
    };
    let mut select = connection.prepare_cached(&EXPIRED)?;
    let mut found = select.query([sql_number(expiry.keep as u64), before, limit])?;
    let mut expired = Vec::new();
    while let Some(row) = found.next()? {
        expired.push(rows::read_run(row)?);
    }
    Ok(expired)
}

fn sql_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A run of the tree that has not ended, if there is one.
pub(super) fn open_run(connection: &Connection, root: RunId) -> Result<Option<RunId>, Fault> {
    let sql = format!(
        "SELECT run FROM runs WHERE root = ?1 AND {} LIMIT 1",
        rows::OPEN
    );
    first_run(connection, &sql, [root.to_string()])
}

/// A run of a session that has not ended, if there is one.
pub(super) fn open_run_in(
    connection: &Connection,
    session: &SessionId,
) -> Result<Option<RunId>, Fault> {
    let sql = format!(
        "SELECT run FROM runs WHERE session_team = ?1 AND session_key = ?2 AND {} LIMIT 1",
        rows::OPEN
    );
    first_run(connection, &sql, params![&*session.team, &*session.key])
}

fn first_run(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
) -> Result<Option<RunId>, Fault> {
    let mut select = connection.prepare_cached(sql)?;
    let found = select.query_row(parameters, |row| row.get::<_, String>(0));
    let odd = |_| Fault::damaged("a run's id cannot be read");
    found
        .optional()?
        .map(|run| run.parse().map_err(odd))
        .transpose()
}

/// One step of deleting trees and sessions.
pub(super) struct Step<'c> {
    pub(super) connection: &'c Connection,
    pub(super) at: Timestamp,
    /// How many more rows this step may delete.
    pub(super) left: usize,
    /// Commits before this one may be folded: the anchor names it or a later one.
    pub(super) anchored: u64,
    pub(super) deleted: Deleted,
    /// The journals that were renamed for deletion.
    pub(super) doomed: Vec<JournalId>,
}

impl Step<'_> {
    /// Starts deleting this tree.
    pub(super) fn take(&mut self, root: RunId) -> Result<(), Fault> {
        let row = reader::run(self.connection, root)?;
        if row.is_some_and(|row| row.root == root) {
            // All at once: a run below would be read without the files of its tree.
            let tree = self.runs_of(&root.to_string(), usize::MAX)?;
            tree.iter().try_for_each(|row| self.doom(row))?;
            self.delete_scopes(artifact_scopes::of_tree(root))?;
        }
        Ok(())
    }

    /// Starts deleting this session.
    pub(super) fn take_session(&mut self, session: &SessionId) -> Result<(), Fault> {
        let id = JournalId::Session(session.clone());
        // The deletion of an earlier session of the same name may be unfinished.
        let before = format!("{DOOMED}{id}");
        if let Some(left) = JournalRow::find(self.connection, &before)? {
            self.go_on(&before, left.id)?;
            if JournalRow::find(self.connection, &before)?.is_some() {
                self.deleted.more = true;
                return Ok(());
            }
        }
        rows::delete_mailbox(self.connection, &id)?;
        self.hide(id)?;
        rows::put_checkpoint(self.connection, session, None)?;
        self.delete_scopes(artifact_scopes::of_session(session))
    }

    fn delete_scopes(&self, scopes: [String; 4]) -> Result<(), Fault> {
        let mut delete = self
            .connection
            .prepare_cached("DELETE FROM state WHERE scope = ?1")?;
        for scope in scopes {
            delete.execute([scope])?;
        }
        Ok(())
    }

    /// Does this as a whole. Where it meets damage, nothing of it is done, and the damage is told.
    pub(super) fn as_one(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<Result<(), Fault>, Fault> {
        let (left, deleted, doomed) = (self.left, self.deleted, self.doomed.len());
        self.connection.execute_batch("SAVEPOINT deletion")?;
        let done = act(self);
        match &done {
            Ok(()) => {}
            Err(fault) if fault.is_damage() => {
                self.connection.execute_batch("ROLLBACK TO deletion")?;
                (self.left, self.deleted) = (left, deleted);
                self.doomed.truncate(doomed);
            }
            Err(_) => return done.map(Ok),
        }
        self.connection.execute_batch("RELEASE deletion")?;
        Ok(done)
    }

    /// Continues all deletions that were started, as far as the limit allows. A damaged one stays as it is.
    pub(super) fn go_on_with_all(&mut self) -> Result<(), Fault> {
        let mut after = DOOMED.to_owned();
        while let Some((key, journal)) = self.next_doomed(&after)? {
            if self.left == 0 {
                self.deleted.more = true;
                return Ok(());
            }
            if let Err(fault) = self.as_one(|step| step.go_on(&key, journal))? {
                tracing::warn!(
                    ?fault,
                    "the deletion of {} cannot go on",
                    original_key(&key)
                );
                after = key;
            }
        }
        Ok(())
    }

    fn next_doomed(&self, after: &str) -> Result<Option<(String, i64)>, Fault> {
        let mut select = self.connection.prepare_cached(
            "SELECT key, id FROM journals WHERE key > ?1 AND key < ?2 ORDER BY key LIMIT 1",
        )?;
        let columns = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let next = select.query_row([after, BEHIND_DOOMED], columns);
        Ok(next.optional()?)
    }

    /// So many runs of a tree.
    fn runs_of(&self, root: &str, limit: usize) -> Result<Vec<RunRow>, Fault> {
        let sql = format!(
            "SELECT {} FROM runs WHERE root = ?1 LIMIT ?2",
            rows::RUN_COLUMNS
        );
        let mut select = self.connection.prepare_cached(&sql)?;
        let found = params![root, sql_number(limit as u64)];
        select.query_and_then(found, rows::read_run)?.collect()
    }

    /// An earlier program may have left the runs below: they are deleted first, because they are found through their
    /// root.
    fn go_on(&mut self, key: &str, journal: i64) -> Result<(), Fault> {
        let below = self.runs_of(original_key(key), self.left)?;
        if below.is_empty() {
            return self.delete_entries(journal);
        }
        below.iter().try_for_each(|row| self.doom(row))
    }

    /// Removes a run from the index and hides its journal.
    fn doom(&mut self, row: &RunRow) -> Result<(), Fault> {
        let (connection, run) = (self.connection, row.run.to_string());
        for mailbox in row.mailboxes_deleted() {
            rows::delete_mailbox(connection, &mailbox)?;
        }
        if let Some((mailbox, before)) = row.mailbox_left() {
            rows::forget_taken(connection, &mailbox, before)?;
        }
        self.hide(JournalId::Run(row.run))?;
        let mut indexed = connection.prepare_cached("DELETE FROM runs WHERE run = ?1")?;
        indexed.execute([&run])?;
        remember(connection, &run, self.at)?;
        self.deleted.runs += 1;
        self.left = self.left.saturating_sub(1);
        Ok(())
    }

    /// Hides a journal from readers.
    fn hide(&mut self, id: JournalId) -> Result<(), Fault> {
        let (connection, key) = (self.connection, id.to_string());
        if let Some(journal) = JournalRow::find(connection, &key)? {
            let doomed = format!("{DOOMED}{key}");
            let mut rename =
                connection.prepare_cached("UPDATE journals SET key = ?1 WHERE id = ?2")?;
            rename.execute(params![doomed, journal.id])?;
            let owner = None;
            JournalRow { owner, ..journal }.write(connection, &doomed)?;
        }
        self.doomed.push(id);
        Ok(())
    }

    fn delete_entries(&mut self, journal: i64) -> Result<(), Fault> {
        let connection = self.connection;
        let mut last = connection.prepare_cached(
            "SELECT position, hash FROM entries WHERE journal = ?1 \
             ORDER BY sequence DESC LIMIT ?2",
        )?;
        let columns = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Hash>(1)?));
        let limit = sql_number(self.left as u64);
        let going = last.query_map(params![journal, limit], columns)?;
        let going: Vec<(i64, Hash)> = going.collect::<Result<_, _>>()?;
        let mut keep =
            connection.prepare_cached("INSERT INTO gone(position, hash) VALUES (?1, ?2)")?;
        let mut delete = connection.prepare_cached("DELETE FROM entries WHERE position = ?1")?;
        for (position, hash) in &going {
            keep.execute(params![position, hash])?;
            delete.execute([position])?;
        }
        if going.len() < self.left {
            let mut delete = connection.prepare_cached("DELETE FROM journals WHERE id = ?1")?;
            delete.execute([journal])?;
            self.left -= 1;
        }
        self.left = self.left.saturating_sub(going.len());
        self.deleted.entries += going.len() as u64;
        let mut folded = i64::MAX;
        for (position, _) in going {
            // Entries are deleted from the last to the first, so a fold covers the ones that
            // follow.
            if position <= folded
                && let Some(start) = fold(connection, position, self.anchored)?
            {
                folded = start;
            }
        }
        Ok(())
    }
}

/// Remembers for a while that a run existed.
fn remember(connection: &Connection, run: &str, at: Timestamp) -> Result<(), Fault> {
    let at = at.0.cast_signed();
    let mut insert = connection.prepare_cached(
        "INSERT INTO deleted(run, at, digest) VALUES (?1, ?2, ?3) \
         ON CONFLICT(run) DO UPDATE SET at = ?2, digest = ?3",
    )?;
    insert.execute(params![run, at, deletion_check(run, at).done()])?;
    let mut forget = connection
        .prepare_cached("DELETE FROM deleted WHERE id <= (SELECT max(id) FROM deleted) - ?1")?;
    forget.execute([sql_number(DELETIONS_KNOWN)])?;
    Ok(())
}

fn deletion_check(run: &str, at: i64) -> Check {
    Check::of("deleted").text(run).number(Some(at))
}

/// See `Deletion::deleted`.
pub(super) fn deleted(connection: &Connection, run: RunId) -> Result<Option<Timestamp>, Fault> {
    let mut select =
        connection.prepare_cached("SELECT run, at, digest FROM deleted WHERE run = ?1")?;
    let mut found = select.query([run.to_string()])?;
    found.next()?.map(read_deletion).transpose()
}

/// The time of a run's deletion, from the columns `run, at, digest`.
pub(super) fn read_deletion(row: &Row<'_>) -> Result<Timestamp, Fault> {
    let (run, at) = (rows::needed(row, 0)?, row.get::<_, i64>(1)?);
    let name = || format!("the deletion of run {run}");
    rows::verify(deletion_check(run, at), rows::hash(row, 2)?, name)?;
    Ok(Timestamp(at.cast_unsigned()))
}

/// A row of `commits`.
#[derive(Clone, Copy, Debug)]
struct CommitRow {
    number: i64,
    /// The first commit that this row stands for.
    first: i64,
    /// The position of the last entry of this commit or, if it has none, of an earlier commit.
    end: i64,
}

impl CommitRow {
    /// The row with this condition, or none.
    fn find(connection: &Connection, condition: &str, number: i64) -> Result<Option<Self>, Fault> {
        let sql = format!(
            "SELECT number, coalesce(first, number), position FROM commits WHERE {condition}"
        );
        let columns = |row: &Row<'_>| {
            let (number, first, end) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(Self { number, first, end })
        };
        let mut select = connection.prepare_cached(&sql)?;
        Ok(select.query_row([number], columns).optional()?)
    }

    fn before(self, connection: &Connection) -> Result<Option<Self>, Fault> {
        let condition = "number < ?1 ORDER BY number DESC LIMIT 1";
        Self::find(connection, condition, self.number)
    }

    fn after(self, connection: &Connection) -> Result<Option<Self>, Fault> {
        let condition = "number > ?1 ORDER BY number LIMIT 1";
        Self::find(connection, condition, self.number)
    }
}

/// The commit that contains the entry at this position: numbers and positions rise together.
fn commit_of(connection: &Connection, position: i64) -> Result<Option<CommitRow>, Fault> {
    let from = "number >= ?1 ORDER BY number LIMIT 1";
    let last: i64 = connection
        .prepare_cached("SELECT coalesce(max(number), 0) FROM commits")?
        .query_row([], |row| row.get(0))?;
    let (mut low, mut high) = (1, last);
    while low < high {
        let middle = low + (high - low) / 2;
        match CommitRow::find(connection, from, middle)? {
            Some(row) if row.end < position => low = row.number + 1,
            Some(_) => high = middle,
            None => return Ok(None),
        }
    }
    CommitRow::find(connection, from, low)
}

/// Whether a commit that ends at `end`, after one that ends at `start`, has entries.
fn has_entries(connection: &Connection, start: i64, end: i64) -> Result<bool, Fault> {
    let mut any = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM entries WHERE position > ?1 AND position <= ?2)",
    )?;
    Ok(start < end && any.query_row([start, end], |row| row.get(0))?)
}

/// Folds the commit of this position, if it has no entries left, together with its neighbours that
/// have none either. Returns the position after which everything is folded then.
fn fold(connection: &Connection, position: i64, anchored: u64) -> Result<Option<i64>, Fault> {
    let foldable = |row: &CommitRow| row.number.cast_unsigned() < anchored;
    let Some(mut row) = commit_of(connection, position)?.filter(foldable) else {
        return Ok(None);
    };
    let mut before = row.before(connection)?;
    let mut start = before.map_or(0, |before| before.end);
    if has_entries(connection, start, row.end)? {
        return Ok(None);
    }
    let mut going = Vec::new();
    while let Some(candidate) = before {
        before = candidate.before(connection)?;
        let begins = before.map_or(0, |before| before.end);
        if has_entries(connection, begins, candidate.end)? {
            break;
        }
        going.push(candidate.number);
        (row.first, start) = (candidate.first, begins);
    }
    while let Some(after) = row.after(connection)?.filter(foldable) {
        if has_entries(connection, row.end, after.end)? {
            break;
        }
        going.push(row.number);
        let first = row.first;
        row = CommitRow { first, ..after };
    }
    let mut delete = connection.prepare_cached("DELETE FROM commits WHERE number = ?1")?;
    for number in going {
        delete.execute([number])?;
    }
    let mut set = connection.prepare_cached("UPDATE commits SET first = ?2 WHERE number = ?1")?;
    set.execute([row.number, row.first])?;
    let mut forget =
        connection.prepare_cached("DELETE FROM gone WHERE position > ?1 AND position <= ?2")?;
    forget.execute([start, row.end])?;
    Ok(Some(start))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::contract::RunStatus;
    use rusqlite::StatementStatus;

    use super::{super::schema, *};

    #[test]
    fn a_page_of_expired_trees_is_found_without_reading_them_all() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection, 0, schema::MIGRATIONS).unwrap();
        for number in 1..=1_000 {
            let mut run = RunRow::new(RunId::from_random(number), "team", "agent");
            (run.status, run.updated_at) = (RunStatus::Answered, Timestamp(number as u64));
            rows::write_run(&connection, &run).unwrap();
        }
        let steps = |keep: i64| {
            let mut select = connection.prepare(&EXPIRED).unwrap();
            let found = select.query_map([keep, 900, 10], |row| row.get::<_, i64>("updated_at"));
            let found: Vec<i64> = found.unwrap().map(Result::unwrap).collect();
            assert_eq!(found, (1..=10).collect::<Vec<i64>>());
            select.get_status(StatementStatus::VmStep)
        };
        for keep in [0, 10] {
            assert!(steps(keep) < 2_000, "{} steps", steps(keep));
        }
    }
}
