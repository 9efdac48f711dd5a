//! Reads, checking the hash chain of each journal. Each read is one statement, so it sees one
//! moment.

use std::{
    collections::{HashMap, HashSet, hash_map},
    sync::Arc,
    time::Duration,
};

use deadpool_postgres::{Pool, PoolError};
use ghostlight_actors::{
    contract::{
        Expiry, Line, MailboxItem, RunFilter, RunRow, SessionFilter, SessionRow, StateSlot,
        StateValue, StoredLine, TreeLine,
    },
    vocabulary::{Digest, JournalId, RunId, SessionId, Timestamp},
};
use tokio::time::{self, Instant};
use tokio_postgres::{Row, types::ToSql};

use crate::{
    chain,
    fault::Fault,
    health::Health,
    rows::{self, count, digest, digest_or_none, number},
    text::{self, stored},
};

type Parameters<'p> = &'p [&'p (dyn ToSql + Sync)];

/// Connections for reads, and for operations that need no group commit.
pub(crate) struct Readers {
    pub(crate) pool: Pool,
    pub(crate) health: Arc<Health>,
    /// How long a read waits for an unreachable database.
    pub(crate) patience: Duration,
}

impl Readers {
    /// The rows of one statement. If the database is unreachable, the statement is repeated.
    pub(crate) async fn rows(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Fault> {
        let end = Instant::now() + self.patience;
        let mut pause = Duration::from_millis(10);
        loop {
            self.health.check().map_err(Fault::Told)?;
            match self.once(sql, parameters, end).await {
                Err(Fault::Away(_)) if Instant::now() + pause < end => {}
                result => return result,
            }
            time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    async fn once(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
        end: Instant,
    ) -> Result<Vec<Row>, Fault> {
        let late = |_| Fault::Away("it does not answer".to_owned());
        let client = time::timeout_at(end, self.client()).await.map_err(late)??;
        let query = async {
            let statement = client.prepare_cached(sql).await?;
            Ok(client.query(&statement, parameters).await?)
        };
        let answered = time::timeout_at(end, query).await;
        answered.unwrap_or_else(|elapsed| {
            // What waits on this connection must not be answered to somebody else.
            drop(deadpool_postgres::Object::take(client));
            Err(late(elapsed))
        })
    }

    pub(crate) async fn client(&self) -> Result<deadpool_postgres::Object, Fault> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => error.into(),
            other => Fault::Away(other.to_string()),
        })
    }

    /// See `Journals::read`.
    pub(crate) async fn entries(
        &self,
        journal: &JournalId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<StoredLine>, Fault> {
        let key = journal.to_string();
        if i64::try_from(from).is_err() || limit == 0 {
            return Ok(Vec::new());
        }
        // The entry before the first one is read too, for its hash.
        let first = from.saturating_sub(1);
        let limit = number(limit as u64).saturating_add(i64::from(from > 0));
        let select = "SELECT e.position, e.sequence, e.at, e.body, e.hash FROM entries AS e \
             JOIN journals AS j ON j.id = e.journal \
             WHERE j.key = $1 AND e.sequence >= $2 ORDER BY e.sequence LIMIT $3";
        let found = self
            .rows(select, &[&stored(&key), &number(first), &limit])
            .await?;
        let mut found = found.iter();
        let mut follower = Follower::new(&key, 0, chain::genesis(&key));
        if from > 0 {
            let Some(before) = found.next() else {
                return Ok(Vec::new());
            };
            if count(before, 1)? != first {
                return Err(gap(&key, first));
            }
            follower = Follower::new(&key, from, digest(before, 4)?);
        }
        found.map(|row| follower.entry(row)).collect()
    }

    /// See `Journals::read_tree`.
    pub(crate) async fn tree(
        &self,
        root: RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<TreeLine>, Fault> {
        // Most trees are their root alone, so its entries have no index by position. Positions rise with the numbers of
        // a journal's entries, so halving finds the first one to read. The hash before the first entry of each journal
        // is read too.
        let select = "WITH RECURSIVE tree AS (SELECT id, root, entries FROM journals WHERE key = $1), \
                 halves(first, last) AS (SELECT 0::bigint, entries FROM tree WHERE root = id UNION ALL \
                     SELECT CASE WHEN e.position > $2 THEN first ELSE e.sequence + 1 END, \
                         CASE WHEN e.position > $2 THEN e.sequence ELSE last END \
                     FROM halves JOIN entries AS e \
                         ON e.journal = (SELECT id FROM tree) AND e.sequence = (first + last) / 2 \
                     WHERE first < last AND $2 > 0) \
             SELECT e.position, e.sequence, e.at, e.body, e.hash, j.key, \
                 CASE WHEN row_number() OVER (PARTITION BY e.journal ORDER BY e.position) = 1 THEN \
                     (SELECT p.hash FROM entries AS p \
                      WHERE p.journal = e.journal AND p.sequence = e.sequence - 1) END \
             FROM (SELECT * FROM ( \
                     (SELECT * FROM entries WHERE journal = (SELECT id FROM tree) \
                         AND sequence >= (SELECT max(first) FROM halves) AND position > $2 \
                         ORDER BY sequence LIMIT $3) \
                     UNION ALL \
                     (SELECT * FROM entries WHERE root = (SELECT id FROM tree) AND journal <> root \
                         AND position > $2 ORDER BY position LIMIT $3)) AS parts \
                 ORDER BY position LIMIT $3) AS e \
             JOIN journals AS j ON j.id = e.journal ORDER BY e.position";
        let parameters: Parameters<'_> =
            &[&root.to_string(), &number(after), &number(limit as u64)];
        let found = self.rows(select, parameters).await?;
        let mut runs: HashMap<String, (RunId, Follower)> = HashMap::new();
        let mut lines = Vec::with_capacity(found.len());
        for row in &found {
            let key: String = row.try_get(5)?;
            let (run, follower) = match runs.entry(key) {
                hash_map::Entry::Occupied(place) => place.into_mut(),
                hash_map::Entry::Vacant(place) => {
                    let key = place.key().clone();
                    let odd = |_| {
                        Fault::Damaged(format!("journal {key} is not a run, but stands in a tree"))
                    };
                    let run = key.parse().map_err(odd)?;
                    let sequence = count(row, 1)?;
                    let before = match digest_or_none(row, 6)? {
                        Some(before) => before,
                        None if sequence == 0 => chain::genesis(&key),
                        None => return Err(gap(&key, sequence - 1)),
                    };
                    place.insert((run, Follower::new(&key, sequence, before)))
                }
            };
            lines.push(TreeLine {
                run: *run,
                stored: follower.entry(row)?,
            });
        }
        Ok(lines)
    }

    /// See `Index::run`.
    pub(crate) async fn run(&self, run: RunId) -> Result<Option<RunRow>, Fault> {
        let columns = rows::RUN_COLUMNS;
        let key = run.to_string();
        let select = format!("SELECT {columns} FROM runs WHERE run = $1");
        let found = self.rows(&select, &[&key]).await?;
        if let Some(row) = found.first() {
            return rows::run(row).map(Some);
        }
        // If something else refers to a missing run, the store is damaged.
        let entries = "SELECT 1 FROM journals WHERE key = $1 AND entries > 0";
        match self.rows(entries, &[&key]).await?.is_empty() {
            true => Ok(None),
            // The run may have been created between the two queries.
            false => match self.rows(&select, &[&key]).await?.first() {
                Some(row) => rows::run(row).map(Some),
                None => Err(Fault::Damaged(format!(
                    "run {run} has entries, and its row is missing from the table of runs"
                ))),
            },
        }
    }

    /// See `Index::runs`.
    pub(crate) async fn runs(&self, filter: &RunFilter) -> Result<Vec<RunRow>, Fault> {
        let mut query = Query::of(format!("SELECT {} FROM runs WHERE true", rows::RUN_COLUMNS));
        if filter.open {
            query.and(rows::OPEN);
        }
        if filter.roots {
            query.and("parent IS NULL");
        }
        if let Some(time) = filter.awake_by {
            // With both ends the planner expects few rows, also where it has no statistics.
            query.compare(&format!("{} BETWEEN 0 AND", rows::DUE), number(time.0));
        }
        if let Some(session) = &filter.session {
            query.compare("session_team =", stored(&session.team).into_owned());
            query.compare("session_key =", stored(&session.key).into_owned());
        }
        if let Some(root) = filter.root {
            query.compare("root =", root.to_string());
        }
        if let Some(team) = &filter.team {
            query.compare("team =", stored(team).into_owned());
        }
        if !filter.statuses.is_empty() {
            // These are our own words, without quotes in them.
            let words = filter.statuses.iter().map(|status| format!("'{status}'"));
            let words: Vec<String> = words.collect();
            query.and(&format!("status IN ({})", words.join(", ")));
        }
        if let Some(since) = filter.since {
            query.compare("started_at >=", since.0.cast_signed());
        }
        if let Some(after) = &filter.after {
            let at = after.started_at.0.cast_signed();
            query
                .values
                .extend([Box::new(at) as Value, Box::new(after.run.to_string())]);
            let (at, run) = (query.values.len() - 1, query.values.len());
            query.and(&format!(
                "started_at <= ${at} AND (started_at < ${at} \
                 OR id < (SELECT id FROM runs WHERE run = ${run}))"
            ));
        }
        if let Some(prefix) = &filter.prefix {
            let Some(from) = RunId::prefix(prefix) else {
                return Ok(Vec::new());
            };
            // The next character is a hexadecimal digit or a hyphen, which is less than "g".
            query.compare("run <", format!("{from}g"));
            query.compare("run >=", from);
        }
        // No index has the sum, so what is due is sorted, rather than all runs read in this order.
        let sum = filter.awake_by.map_or("", |_| " + 0");
        query
            .sql
            .push_str(&format!(" ORDER BY started_at{sum} DESC, id DESC"));
        query.limit(filter.limit);
        let found = self.rows(&query.sql, &query.parameters()).await?;
        found.iter().map(rows::run).collect()
    }

    /// See `Index::sessions`.
    pub(crate) async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionRow>, Fault> {
        let team = filter.team.as_deref().map(stored);
        let (from, to) = match team {
            Some(team) => (format!("session:{team}/"), format!("session:{team}0")),
            None => ("session:".to_owned(), "session;".to_owned()),
        };
        let mut query =
            Query::of("SELECT key, entries, heard_at FROM journals WHERE heard_at IS NOT NULL");
        query.compare("key >=", from);
        query.compare("key <", to);
        if let Some(since) = filter.since {
            query.compare("heard_at >=", since.0.cast_signed());
        }
        if let Some(after) = &filter.after {
            let at = after.updated_at.0.cast_signed();
            let key = JournalId::Session(after.session.clone()).to_string();
            let key = stored(&key).into_owned();
            query.values.extend([Box::new(at) as Value, Box::new(key)]);
            let (at, key) = (query.values.len() - 1, query.values.len());
            // The first comparison is the part that the index can begin with.
            query.and(&format!(
                "heard_at <= ${at} AND (heard_at < ${at} OR key > ${key})"
            ));
        }
        query.sql.push_str(" ORDER BY heard_at DESC, key");
        query.limit(filter.limit);
        let found = self.rows(&query.sql, &query.parameters()).await?;
        let session = |row: &Row| {
            let key = text::read(row.try_get(0)?);
            let Ok(JournalId::Session(session)) = key.parse() else {
                return Err(Fault::Damaged(format!("journal {key} is not a session")));
            };
            Ok(SessionRow {
                session,
                entries: count(row, 1)?,
                updated_at: Timestamp(count(row, 2)?),
            })
        };
        found.iter().map(session).collect()
    }

    /// See `State::state`.
    pub(crate) async fn state(&self, scope: &str, key: &str) -> Result<StateSlot, Fault> {
        let select = "SELECT value, version FROM state WHERE scope = $1 AND key = $2";
        let place: Parameters<'_> = &[&stored(scope), &stored(key)];
        match self.rows(select, place).await?.first() {
            Some(row) => rows::slot(row.try_get(0)?, row.try_get(1)?),
            None => Ok(StateSlot::default()),
        }
    }

    /// See `State::scope`.
    pub(crate) async fn scope(&self, scope: &str) -> Result<Vec<(String, StateValue)>, Fault> {
        let select = "SELECT key, value, version FROM state \
             WHERE scope = $1 AND value IS NOT NULL ORDER BY key";
        let mut values = Vec::new();
        for row in self.rows(select, &[&stored(scope)]).await? {
            let slot = rows::slot(row.try_get(1)?, row.try_get(2)?)?;
            let key = text::read(row.try_get(0)?);
            values.extend(slot.present().map(|value| (key, value)));
        }
        Ok(values)
    }

    /// See `State::blob`.
    pub(crate) async fn blob(&self, wanted: Digest) -> Result<Option<Arc<[u8]>>, Fault> {
        let select = "SELECT bytes FROM blobs WHERE hash = $1";
        let found = self.rows(select, &[&wanted.0.as_slice()]).await?;
        let Some(row) = found.first() else {
            return Ok(None);
        };
        let bytes: &[u8] = row.try_get(0)?;
        if Digest::of(bytes) == wanted {
            Ok(Some(bytes.into()))
        } else {
            Err(Fault::Damaged(format!(
                "blob {wanted} does not match its hash"
            )))
        }
    }

    /// See `Mailboxes::mailbox_after`.
    pub(crate) async fn mailbox_after(
        &self,
        mailbox: &JournalId,
        after: u64,
    ) -> Result<Vec<(u64, MailboxItem)>, Fault> {
        let select = "SELECT mark, id, at, body FROM inbox \
             WHERE run = $1 AND mark > $2 AND body IS NOT NULL ORDER BY mark";
        let found = self
            .rows(select, &[&stored(&mailbox.to_string()), &number(after)])
            .await?;
        let item = |row: &Row| {
            let (id, body): (String, &str) = (text::read(row.try_get(1)?), row.try_get(3)?);
            let body = serde_json::from_str(body).map_err(|error| {
                let reason = format!("mailbox item {id} of {mailbox} cannot be read: {error}");
                // Valid JSON of an unknown shape was written by a later program.
                match error.is_data() {
                    true => Fault::Newer(reason),
                    false => Fault::Damaged(reason),
                }
            })?;
            let at = Timestamp(count(row, 2)?);
            Ok((count(row, 0)?, MailboxItem::new(id, at, body)))
        };
        found.iter().map(item).collect()
    }

    /// See `Mailboxes::posted`.
    pub(crate) async fn posted(&self, after: u64) -> Result<(u64, Vec<JournalId>), Fault> {
        let select = "SELECT tail.mark, inbox.run FROM tail LEFT JOIN inbox \
             ON inbox.mark > $1 AND inbox.body IS NOT NULL ORDER BY inbox.mark";
        let mut last = after;
        let (mut mailboxes, mut seen) = (Vec::new(), HashSet::new());
        for row in self.rows(select, &[&number(after)]).await? {
            last = last.max(count(&row, 0)?);
            let Some(of) = row.try_get::<_, Option<String>>(1)? else {
                continue;
            };
            let of = text::read(&of);
            if seen.contains(&of) {
                continue;
            }
            match of.parse() {
                Ok(mailbox) => mailboxes.push(mailbox),
                Err(_) => tracing::warn!("a mailbox item of {of:?}, which is not a run"),
            }
            seen.insert(of);
        }
        Ok((last, mailboxes))
    }

    /// See `State::checkpoint`.
    pub(crate) async fn checkpoint(&self, session: &SessionId) -> Result<Option<Vec<u8>>, Fault> {
        let select = "SELECT bytes, digest FROM checkpoints WHERE session = $1";
        let found = self.rows(select, &[&stored(&session.to_string())]).await?;
        let Some(row) = found.first() else {
            return Ok(None);
        };
        let bytes: Vec<u8> = row.try_get(0)?;
        match Digest::of(&bytes) == digest(row, 1)? {
            true => Ok(Some(bytes)),
            false => Err(Fault::Damaged(format!(
                "the checkpoint of session {session} does not match its hash"
            ))),
        }
    }

    /// See `State::put_checkpoint`.
    pub(crate) async fn put_checkpoint(
        &self,
        session: &SessionId,
        bytes: Option<&[u8]>,
    ) -> Result<(), Fault> {
        let session = session.to_string();
        let session = stored(&session);
        match bytes {
            None => {
                self.rows("DELETE FROM checkpoints WHERE session = $1", &[&session])
                    .await?;
            }
            Some(bytes) => {
                let put = "INSERT INTO checkpoints(session, bytes, digest) VALUES ($1, $2, $3) \
                     ON CONFLICT (session) DO UPDATE SET bytes = excluded.bytes, digest = excluded.digest";
                let digest = Digest::of(bytes);
                self.rows(put, &[&session, &bytes, &digest.0.as_slice()])
                    .await?;
            }
        }
        Ok(())
    }

    /// See `Deletion::expired`.
    pub(crate) async fn expired(&self, expiry: &Expiry) -> Result<Vec<RunRow>, Fault> {
        let (columns, open) = (rows::RUN_COLUMNS, rows::OPEN);
        let ended = format!(
            "FROM runs WHERE parent IS NULL AND NOT ({open}) AND run = root AND NOT EXISTS \
                 (SELECT 1 FROM runs AS below WHERE below.root = runs.run AND below.{open})"
        );
        // The latest that may go is found first, so that those that are kept are read, and not all.
        let select = format!(
            "SELECT {columns} {ended} AND updated_at < $2 AND (updated_at, run) <= \
                 (SELECT updated_at, run {ended} ORDER BY updated_at DESC, run DESC OFFSET $1 LIMIT 1) \
             ORDER BY updated_at, run LIMIT $3"
        );
        let before = expiry.ended_before.map_or(i64::MAX, |at| number(at.0));
        let limit = match expiry.limit {
            0 => i64::MAX,
            limit => number(limit as u64),
        };
        let found = self
            .rows(&select, &[&number(expiry.keep as u64), &before, &limit])
            .await?;
        found.iter().map(rows::run).collect()
    }

    /// See `Deletion::deleted`.
    pub(crate) async fn deleted(&self, run: RunId) -> Result<Option<Timestamp>, Fault> {
        let select = "SELECT at FROM deleted WHERE run = $1";
        let found = self.rows(select, &[&run.to_string()]).await?;
        found
            .first()
            .map(|row| Ok(Timestamp(count(row, 0)?)))
            .transpose()
    }
}

type Value = Box<dyn ToSql + Sync + Send>;

/// An SQL statement under construction.
struct Query {
    sql: String,
    values: Vec<Value>,
}

impl Query {
    fn of(sql: impl Into<String>) -> Self {
        let sql = sql.into();
        Self {
            sql,
            values: Vec::new(),
        }
    }

    fn and(&mut self, condition: &str) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
    }

    /// Adds a condition that compares with this value.
    fn compare(&mut self, left: &str, value: impl ToSql + Sync + Send + 'static) {
        self.values.push(Box::new(value));
        let place = self.values.len();
        self.and(&format!("{left} ${place}"));
    }

    /// Adds a limit; 0 means no limit.
    fn limit(&mut self, limit: usize) {
        if limit > 0 {
            self.values.push(Box::new(number(limit as u64)));
            let place = self.values.len();
            self.sql.push_str(&format!(" LIMIT ${place}"));
        }
    }

    fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        let plain = |value| -> &(dyn ToSql + Sync) { value };
        self.values.iter().map(|value| plain(&**value)).collect()
    }
}

/// Checks one journal's chain.
struct Follower {
    key: String,
    next: u64,
    before: Digest,
}

impl Follower {
    /// A follower before the entry of this number.
    fn new(key: &str, next: u64, before: Digest) -> Self {
        let key = key.to_owned();
        Self { key, next, before }
    }

    /// An entry, from columns that begin with `position, sequence, at, body, hash`.
    fn entry(&mut self, row: &Row) -> Result<StoredLine, Fault> {
        let (position, sequence, at) = (count(row, 0)?, count(row, 1)?, count(row, 2)?);
        let body: &str = row.try_get(3)?;
        if sequence != self.next {
            return Err(gap(&self.key, self.next));
        }
        let hash = chain::link(&self.before, position, sequence, at, body);
        if hash != digest(row, 4)? {
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
                at: Timestamp(at),
                text: body.into(),
            },
        })
    }
}

fn gap(key: &str, sequence: u64) -> Fault {
    Fault::Damaged(format!("entry {sequence} of {key} is missing"))
}
