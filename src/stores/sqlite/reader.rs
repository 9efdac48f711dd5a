//! Reading, with every hash compared.

use std::{
    collections::{HashMap, HashSet, hash_map},
    path::{Path, PathBuf},
    sync::Arc,
};

use ghostlight_actors::{
    contract::{
        Line, MailboxItem, RunFilter, RunRow, SessionFilter, SessionRow, StateSlot, StateValue,
        StoreError, StoredLine, TreeLine,
    },
    vocabulary::{Digest, JournalId, RunId, Timestamp},
};
use parking_lot::Mutex;
use rusqlite::{Connection, Row, params, params_from_iter, types::Value};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};

use super::{
    absence,
    chain::{self, Hash},
    committer::Health,
    connection::open_read_only,
    fault::Fault,
    owner,
    rows::{self, JournalRow, StateRow},
};

/// Read-only connections, each used by one blocking thread at a time.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    health: Arc<Health>,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
    /// For [`posted`](Self::posted), which is called so often that a thread would cost more.
    watch: Mutex<Option<Connection>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf, health: Arc<Health>, connections: usize) -> Self {
        Self {
            path,
            health,
            idle: Mutex::new(Vec::new()),
            permits: Arc::new(Semaphore::new(connections.max(1))),
            watch: Mutex::new(None),
        }
    }

    /// Reads on a thread that may block. A read that has begun ends whether or not its caller polls it: a caller that
    /// does something else for a while, as a branch of a `select!` may, keeps no place that others need.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.health.check()?;
        let readers = self.clone();
        let on_thread = move |permit: Option<OwnedSemaphorePermit>| {
            tokio::task::spawn_blocking(move || {
                let result = readers.with_connection(work);
                drop(permit);
                result.map_err(|fault| fault.at(readers.health.place()))
            })
        };
        let ended = match self.permits.clone().try_acquire_owned() {
            Ok(permit) => Some(on_thread(Some(permit)).await),
            Err(_) => {
                let permits = self.permits.clone();
                // A task waits for a permit, and ends with this future.
                let mut task = JoinSet::new();
                // The semaphore is never closed.
                task.spawn(async move { on_thread(permits.acquire_owned().await.ok()).await });
                task.join_next().await.map(Result::flatten)
            }
        };
        let lost = match ended {
            Some(Ok(result)) => return result,
            Some(Err(error)) => error.to_string(),
            None => "its task is gone".to_owned(),
        };
        Err(StoreError::Io {
            place: self.health.place().to_owned(),
            reason: format!("a read did not end: {lost}"),
        })
    }

    fn with_connection<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let idle = self.idle.lock().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => open_read_only(&self.path)?,
        };
        // One snapshot for the whole read.
        let snapshot = connection.transaction()?;
        let result = work(&snapshot)?;
        snapshot.finish()?;
        if self.health.check().is_ok() {
            self.idle.lock().push(connection);
        }
        Ok(result)
    }

    /// Closes the idle connections; the others close when their reads end.
    pub(super) fn close(&self) {
        self.idle.lock().clear();
        self.watch.lock().take();
    }

    /// See `Mailboxes::posted`. When nothing is new, it costs one look-up at the end of a table, and no
    /// thread.
    pub(super) fn posted(&self, after: u64) -> Result<(u64, Vec<JournalId>), StoreError> {
        self.health.check()?;
        // This runs often, also while nothing is committed.
        self.health.check_file()?;
        let mut watch = self.watch.lock();
        let look = |connection: &Connection| posted(connection, after);
        let result = match &*watch {
            Some(connection) => look(connection),
            None => {
                open_read_only(&self.path).and_then(|connection| look(watch.insert(connection)))
            }
        };
        result.map_err(|fault| fault.at(self.health.place()))
    }
}

/// A limit of rows as SQLite's integer.
fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Follows one journal's chain.
struct Follower {
    key: String,
    next: u64,
    before: Hash,
}

impl Follower {
    /// The state before the entry of this number.
    fn at(connection: &Connection, journal: i64, key: &str, next: u64) -> Result<Self, Fault> {
        let before = match next {
            0 => chain::genesis(key),
            _ => {
                let mut find = connection.prepare_cached(
                    "SELECT hash FROM entries WHERE journal = ?1 AND sequence = ?2",
                )?;
                let mut found = find.query(params![journal, (next - 1).cast_signed()])?;
                let row = found.next()?.ok_or_else(|| gap(key, next - 1))?;
                rows::hash(row, 0)?
            }
        };
        Ok(Self {
            key: key.to_owned(),
            next,
            before,
        })
    }

    /// An entry from columns that begin `position, sequence, at, body, hash`.
    fn entry(&mut self, row: &Row<'_>) -> Result<StoredLine, Fault> {
        let position = row.get::<_, i64>(0)?.cast_unsigned();
        let sequence = row.get::<_, i64>(1)?.cast_unsigned();
        let at: i64 = row.get(2)?;
        let body = rows::needed(row, 3)?;
        if sequence != self.next {
            return Err(gap(&self.key, self.next));
        }
        let hash = chain::link(&self.before, position, sequence, at, body);
        if hash != rows::hash(row, 4)? {
            let key = &self.key;
            return Err(Fault::Damaged(format!(
                "entry {sequence} of {key} does not match its hash"
            )));
        }
        self.before = hash;
        self.next += 1;
        Ok(StoredLine {
            sequence,
            position,
            line: Line {
                at: Timestamp(at.cast_unsigned()),
                text: body.into(),
            },
        })
    }
}

fn gap(key: &str, sequence: u64) -> Fault {
    Fault::Damaged(format!("entry {sequence} of {key} is missing"))
}

/// See `Journals::read`.
pub(super) fn entries(
    connection: &Connection,
    journal: &JournalId,
    from: u64,
    limit: usize,
) -> Result<Vec<StoredLine>, Fault> {
    let key = journal.to_string();
    let Some(found) = JournalRow::find(connection, &key)? else {
        return Ok(Vec::new());
    };
    let Ok(first) = i64::try_from(from) else {
        return Ok(Vec::new());
    };
    let mut select = connection.prepare_cached(
        "SELECT position, sequence, at, body, hash FROM entries \
         WHERE journal = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT ?3",
    )?;
    let mut rows = select.query(params![found.id, first, sql_limit(limit)])?;
    let mut lines = Vec::new();
    let mut follower = None;
    while let Some(row) = rows.next()? {
        let follower = match &mut follower {
            Some(follower) => follower,
            None => follower.insert(Follower::at(connection, found.id, &key, from)?),
        };
        lines.push(follower.entry(row)?);
    }
    Ok(lines)
}

/// See `Journals::read_tree`.
pub(super) fn tree(
    connection: &Connection,
    root: RunId,
    after: u64,
    limit: usize,
) -> Result<Vec<TreeLine>, Fault> {
    let key = JournalId::Run(root).to_string();
    let (Some(root), Ok(after)) = (JournalRow::find(connection, &key)?, i64::try_from(after))
    else {
        return Ok(Vec::new());
    };
    let mut select = connection.prepare_cached(
        "SELECT position, sequence, at, body, hash, journal FROM entries \
         WHERE root = ?1 AND position > ?2 ORDER BY position LIMIT ?3",
    )?;
    let mut rows = select.query(params![root.id, after, sql_limit(limit)])?;
    let mut runs: HashMap<i64, (RunId, Follower)> = HashMap::new();
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        let journal: i64 = row.get(5)?;
        if let hash_map::Entry::Vacant(place) = runs.entry(journal) {
            let key = journal_key(connection, journal)?;
            let run = key.parse().map_err(|_| {
                Fault::Damaged(format!("journal {key} is not a run, but stands in a tree"))
            })?;
            let sequence = row.get::<_, i64>(1)?.cast_unsigned();
            place.insert((run, Follower::at(connection, journal, &key, sequence)?));
        }
        if let Some((run, follower)) = runs.get_mut(&journal) {
            lines.push(TreeLine {
                run: *run,
                stored: follower.entry(row)?,
            });
        }
    }
    Ok(lines)
}

fn journal_key(connection: &Connection, id: i64) -> Result<String, Fault> {
    let mut select = connection
        .prepare_cached("SELECT key, id, root, epoch, owner, digest FROM journals WHERE id = ?1")?;
    let mut rows = select.query([id])?;
    let row = rows
        .next()?
        .ok_or_else(|| Fault::Damaged(format!("journal {id} is missing")))?;
    JournalRow::from_row(row)?;
    Ok(rows::needed(row, 0)?.to_owned())
}

/// See `Index::run`.
pub(super) fn run(connection: &Connection, run: RunId) -> Result<Option<RunRow>, Fault> {
    let sql = format!("SELECT {} FROM runs WHERE run = ?1", rows::RUN_COLUMNS);
    let mut select = connection.prepare_cached(&sql)?;
    let mut found = select.query([run.to_string()])?;
    let found = found.next()?.map(rows::read_run).transpose()?;
    if found.is_none() {
        absence::check_run(connection, run)?;
    }
    Ok(found)
}

/// See `Index::runs`.
pub(super) fn runs(connection: &Connection, filter: &RunFilter) -> Result<Vec<RunRow>, Fault> {
    let Some((sql, values)) = runs_sql(filter) else {
        return Ok(Vec::new());
    };
    let mut select = connection.prepare_cached(&sql)?;
    let found = select.query_and_then(params_from_iter(values), rows::read_run)?;
    found.collect()
}

/// The statement that finds these runs, with its values; `None` if there can be none.
fn runs_sql(filter: &RunFilter) -> Option<(String, Vec<Value>)> {
    let mut conditions = vec!["true"];
    let mut values: Vec<Value> = Vec::new();
    let statuses = vec!["?"; filter.statuses.len()].join(", ");
    let statuses = format!("status IN ({statuses})");
    let due = format!("{} <= ?", rows::DUE);
    if filter.open {
        conditions.push(rows::OPEN);
    }
    if filter.roots {
        conditions.push("parent IS NULL");
    }
    let mut first = "started_at";
    if let Some(time) = filter.awake_by {
        conditions.push(&due);
        values.push(i64::try_from(time.0).unwrap_or(i64::MAX).into());
        // Without the sign SQLite would read all runs in this order, rather than sort those that are due.
        first = "+started_at";
    }
    if let Some(session) = &filter.session {
        conditions.push("session_team = ? AND session_key = ?");
        values.extend([
            session.team.to_string().into(),
            session.key.to_string().into(),
        ]);
    }
    if let Some(root) = filter.root {
        conditions.push("root = ?");
        values.push(root.to_string().into());
    }
    if let Some(team) = &filter.team {
        conditions.push("team = ?");
        values.push(team.clone().into());
    }
    if !filter.statuses.is_empty() {
        conditions.push(&statuses);
        values.extend(filter.statuses.iter().map(|it| it.to_string().into()));
    }
    if let Some(since) = filter.since {
        conditions.push("started_at >= ?");
        values.push(since.0.cast_signed().into());
    }
    if let Some(after) = &filter.after {
        conditions.push("(started_at, id) < (?, coalesce((SELECT id FROM runs WHERE run = ?), 0))");
        let at = after.started_at.0.cast_signed();
        values.extend([at.into(), after.run.to_string().into()]);
    }
    if let Some(prefix) = &filter.prefix {
        let from = RunId::prefix(prefix)?;
        // After these digits come other digits or a hyphen, and all of them are less than "g".
        conditions.push("run >= ? AND run < ?");
        values.extend([from.clone().into(), format!("{from}g").into()]);
    }
    let limit = match filter.limit {
        0 => i64::MAX,
        limit => sql_limit(limit),
    };
    values.push(limit.into());
    let sql = format!(
        "SELECT {} FROM runs WHERE {} ORDER BY {first} DESC, id DESC LIMIT ?",
        rows::RUN_COLUMNS,
        conditions.join(" AND ")
    );
    Some((sql, values))
}

/// See `Index::sessions`. Names are in the order of their bytes, as SQLite compares text.
pub(super) fn sessions(
    connection: &Connection,
    filter: &SessionFilter,
) -> Result<Vec<SessionRow>, Fault> {
    let (from, to) = match &filter.team {
        Some(team) => (format!("session:{team}/"), format!("session:{team}0")),
        None => ("session:".to_owned(), "session;".to_owned()),
    };
    let since = filter.since.map_or(0, |since| since.0.cast_signed());
    let after = filter.after.as_ref();
    let (at, key) = match after {
        Some(row) => {
            let key = JournalId::Session(row.session.clone()).to_string();
            (row.updated_at.0.cast_signed(), key)
        }
        None => (i64::MAX, String::new()),
    };
    let limit = match filter.limit {
        0 => i64::MAX,
        limit => sql_limit(limit),
    };
    let mut select = connection.prepare_cached(
        "SELECT j.key, last.sequence + 1, last.at FROM journals AS j \
         JOIN entries AS last ON last.journal = j.id AND last.sequence = \
             (SELECT max(sequence) FROM entries WHERE journal = j.id) \
         WHERE j.key >= ?1 AND j.key < ?2 AND last.at >= ?3 \
             AND (last.at < ?4 OR (last.at = ?4 AND j.key > ?5)) \
         ORDER BY last.at DESC, j.key LIMIT ?6",
    )?;
    let mut found = select.query(params![from, to, since, at, key, limit])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let key = rows::needed(row, 0)?;
        let Ok(JournalId::Session(session)) = key.parse() else {
            return Err(Fault::Damaged(format!("journal {key} is not a session")));
        };
        rows.push(SessionRow {
            session,
            entries: row.get::<_, i64>(1)?.cast_unsigned(),
            updated_at: Timestamp(row.get::<_, i64>(2)?.cast_unsigned()),
        });
    }
    Ok(rows)
}

/// See `State::state`.
pub(super) fn state(connection: &Connection, scope: &str, key: &str) -> Result<StateSlot, Fault> {
    match StateRow::find(connection, scope, key)? {
        Some(row) => row.visible(),
        None => Ok(StateSlot::default()),
    }
}

/// See `State::scope`.
pub(super) fn scope(
    connection: &Connection,
    scope: &str,
) -> Result<Vec<(String, StateValue)>, Fault> {
    let mut select = connection.prepare_cached(
        "SELECT scope, key, value, version, digest FROM state WHERE scope = ?1 ORDER BY key",
    )?;
    let mut rows = select.query([scope])?;
    let mut values = Vec::new();
    while let Some(row) = rows.next()? {
        let key = rows::needed(row, 1)?;
        let value = StateRow::from_row(row)?.visible()?.present();
        values.extend(value.map(|value| (key.to_owned(), value)));
    }
    Ok(values)
}

/// See `State::blob`.
pub(super) fn blob(connection: &Connection, digest: Digest) -> Result<Option<Arc<[u8]>>, Fault> {
    let mut select = connection.prepare_cached("SELECT bytes FROM blobs WHERE hash = ?1")?;
    let mut rows = select.query([digest.0])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let bytes = row.get_ref(0)?.as_blob()?;
    if Digest::of(bytes) == digest {
        Ok(Some(bytes.into()))
    } else {
        Err(Fault::Damaged(format!(
            "blob {digest} does not match its hash"
        )))
    }
}

/// The journals among these that belong to a process that has the store open. A journal whose owner
/// cannot be checked counts as held, so that no process takes it.
pub(super) fn held(
    connection: &Connection,
    folder: &Path,
    journals: &[JournalId],
) -> Result<Vec<bool>, Fault> {
    let held = |journal: &JournalId| {
        let row = JournalRow::find(connection, &journal.to_string())?;
        let owner = row.and_then(|row| row.owner);
        Ok(owner.is_some_and(|id| owner::lives_in(folder, &id).unwrap_or(true)))
    };
    journals.iter().map(held).collect()
}

/// See `Mailboxes::mailbox_after`.
pub(super) fn mailbox_after(
    connection: &Connection,
    mailbox: &JournalId,
    after: u64,
) -> Result<Vec<(u64, MailboxItem)>, Fault> {
    // The index of what waits is ordered by mark within a run.
    let mut select = connection.prepare_cached(
        "SELECT run, id, at, body, digest, mark FROM inbox INDEXED BY inbox_waiting \
         WHERE run = ?1 AND mark > ?2 AND body IS NOT NULL ORDER BY mark",
    )?;
    let mut rows = select.query(params![mailbox.to_string(), after.cast_signed()])?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        let mark = row.get::<_, i64>(5)?.cast_unsigned();
        items.extend(rows::read_item(row)?.map(|item| (mark, item)));
    }
    Ok(items)
}

fn posted(connection: &Connection, after: u64) -> Result<(u64, Vec<JournalId>), Fault> {
    let mut last = connection.prepare_cached("SELECT coalesce(max(mark), 0) FROM inbox")?;
    let last = last
        .query_row([], |row| row.get::<_, i64>(0))?
        .cast_unsigned();
    if last <= after {
        return Ok((after, Vec::new()));
    }
    // From the beginning, many items may be taken already: only those that wait are read.
    let mailbox = match after {
        0 => "inbox INDEXED BY inbox_waiting",
        _ => "inbox",
    };
    let mut select = connection.prepare_cached(&format!(
        "SELECT run, id, at, body, digest, mark FROM {mailbox} \
         WHERE mark > ?1 AND mark <= ?2 AND body IS NOT NULL"
    ))?;
    let mut rows = select.query([after.cast_signed(), last.cast_signed()])?;
    let mut mailboxes = Vec::new();
    let mut seen = HashSet::new();
    while let Some(row) = rows.next()? {
        let of = match rows::check_item(row).and_then(|()| rows::needed(row, 0)) {
            Ok(of) => of.to_owned(),
            // The reader of that mailbox is told of the damage. The address may be damaged in the index alone.
            Err(fault) => {
                tracing::warn!(?fault, "a mailbox item is damaged");
                address(connection, row.get(5)?)?
            }
        };
        if seen.insert(of.clone()) {
            match of.parse() {
                Ok(mailbox) => mailboxes.push(mailbox),
                Err(_) => tracing::warn!("a mailbox item of {of:?}, which is not a run"),
            }
        }
    }
    Ok((last, mailboxes))
}

/// The address of the item with this mark, as its row has it.
fn address(connection: &Connection, mark: i64) -> Result<String, Fault> {
    let mut select =
        connection.prepare_cached("SELECT run FROM inbox NOT INDEXED WHERE mark = ?1")?;
    let of = |row: &Row<'_>| Ok(String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?).into_owned());
    Ok(select.query_row([mark], of)?)
}

/// See `State::checkpoint`.
pub(super) fn checkpoint(connection: &Connection, session: &str) -> Result<Option<Vec<u8>>, Fault> {
    let mut select = connection
        .prepare_cached("SELECT session, bytes, digest FROM checkpoints WHERE session = ?1")?;
    let mut rows = select.query([session])?;
    rows.next()?.map(rows::read_checkpoint).transpose()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::contract::RunStatus;
    use rusqlite::StatementStatus;

    use super::{
        super::{connection::settle, schema},
        *,
    };

    #[test]
    fn of_the_runs_that_go_on_soon_no_others_are_read() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection, 0, schema::MIGRATIONS).unwrap();
        for statuses in [vec![], vec![RunStatus::Waiting]] {
            let mut filter = RunFilter::default();
            (filter.awake_by, filter.statuses) = (Some(Timestamp(9)), statuses);
            let (sql, values) = runs_sql(&filter).unwrap();
            let explain = format!("EXPLAIN QUERY PLAN {sql}");
            let mut explain = connection.prepare(&explain).unwrap();
            let plan = explain.query_map(params_from_iter(values), |row| row.get(3));
            let plan: Vec<String> = plan.unwrap().map(Result::unwrap).collect();
            let begins = plan[0].starts_with("SEARCH runs USING INDEX runs_by_due");
            assert!(begins, "{plan:?}");
        }
    }

    #[test]
    fn a_statement_is_planned_once() {
        let connection = Connection::open_in_memory().unwrap();
        settle(&connection).unwrap();
        connection
            .execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY)")
            .unwrap();
        let mut select = connection
            .prepare("SELECT id FROM t WHERE id >= ?1 LIMIT ?2")
            .unwrap();
        for limit in 1..4 {
            let mut rows = select.query([0, limit]).unwrap();
            assert!(rows.next().unwrap().is_none());
        }
        assert_eq!(select.get_status(StatementStatus::RePrepare), 0);
    }
}
