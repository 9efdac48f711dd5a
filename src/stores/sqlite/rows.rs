//! Rows that may change: journals, runs, state, mailboxes, checkpoints. Each holds a check of its
//! columns, which is compared whenever the row is read.

use std::sync::LazyLock;

use ghostlight_actors::{
    contract::{MailboxItem, RunRow, RunStatus, StateSlot},
    vocabulary::{JournalId, RunId, SessionId, Timestamp},
};
use rusqlite::{Connection, OptionalExtension, Row, params, types::ValueRef};

use super::{
    chain::{Check, Hash},
    fault::Fault,
};

/// That a run has not ended, as SQL. The indexes `runs_open` and `runs_by_end` have the same expression.
pub(super) const OPEN: &str = "(status = 'running' OR status = 'waiting' OR status = 'parked' \
     OR status = 'cancelling')";

/// The time by which a run goes on by itself, as SQL: 0 if it is at work, NULL if it does not. The index `runs_by_due`
/// has the same expression.
pub(super) const DUE: &str = "CASE status WHEN 'running' THEN 0 WHEN 'cancelling' THEN 0 \
     WHEN 'waiting' THEN wake_at END";

/// The columns of a run, in the order of [`read_run`].
pub(super) const RUN_COLUMNS: &str = "run, root, parent, session_team, session_key, team, agent, \
     path, status, title, wake_at, started_at, updated_at, digest, owner, version, asks, begun_as";

/// A column of text, or NULL.
pub(super) fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r str>, Fault> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        value => Ok(Some(value.as_str()?)),
    }
}

/// A column of text that is never NULL.
pub(super) fn needed<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str, Fault> {
    Ok(row.get_ref(column)?.as_str()?)
}

/// A column that holds a hash.
pub(super) fn hash(row: &Row<'_>, column: usize) -> Result<Hash, Fault> {
    let bytes = row.get_ref(column)?.as_blob()?;
    bytes
        .try_into()
        .map_err(|_| Fault::damaged("a hash of a wrong length"))
}

/// Compares a row's check with the one that is stored in it.
pub(super) fn verify(
    check: Check,
    stored: Hash,
    what: impl FnOnce() -> String,
) -> Result<(), Fault> {
    if check.done() == stored {
        Ok(())
    } else {
        Err(Fault::Damaged(format!(
            "{} does not match its check",
            what()
        )))
    }
}

/// A journal's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JournalRow {
    pub(super) id: i64,
    pub(super) root: Option<i64>,
    /// 0 for a root that only its children name so far.
    pub(super) epoch: u64,
    pub(super) owner: Option<String>,
}

impl JournalRow {
    fn check(&self, key: &str) -> Check {
        Check::of("journals")
            .number(Some(self.id))
            .text(key)
            .number(self.root)
            .number(Some(self.epoch.cast_signed()))
            .optional(self.owner.as_deref())
    }

    /// Writes the row, new or changed.
    pub(super) fn write(&self, connection: &Connection, key: &str) -> Result<(), Fault> {
        let mut statement = connection.prepare_cached(
            "INSERT INTO journals(id, key, root, epoch, owner, digest) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
             ON CONFLICT(id) DO UPDATE SET root = ?3, epoch = ?4, owner = ?5, digest = ?6",
        )?;
        statement.execute(params![
            self.id,
            key,
            self.root,
            self.epoch.cast_signed(),
            self.owner,
            self.check(key).done(),
        ])?;
        Ok(())
    }

    /// Reads the row of this key.
    pub(super) fn find(connection: &Connection, key: &str) -> Result<Option<Self>, Fault> {
        let mut statement = connection.prepare_cached(
            "SELECT key, id, root, epoch, owner, digest FROM journals WHERE key = ?1",
        )?;
        let mut rows = statement.query([key])?;
        rows.next()?.map(|row| Self::from_row(row)).transpose()
    }

    /// From the columns `key, id, root, epoch, owner, digest`.
    pub(super) fn from_row(row: &Row<'_>) -> Result<Self, Fault> {
        let key = needed(row, 0)?;
        let found = Self {
            id: row.get(1)?,
            root: row.get(2)?,
            epoch: row.get::<_, i64>(3)?.cast_unsigned(),
            owner: text(row, 4)?.map(str::to_owned),
        };
        verify(found.check(key), hash(row, 5)?, || format!("journal {key}"))?;
        Ok(found)
    }
}

/// Writes a run's row, new or changed. A run stays where it began, in its tree, its session and its time: so the indexes
/// of these are left alone where the row is there.
static WRITE_RUN: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO runs({RUN_COLUMNS}) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, \
         ?18) ON CONFLICT(run) DO UPDATE SET team = ?6, agent = ?7, path = ?8, status = ?9, title = ?10, \
         wake_at = ?11, updated_at = ?13, digest = ?14, owner = ?15, version = ?16, asks = ?17, \
         begun_as = ?18 \
         WHERE root = ?2 AND parent IS ?3 AND session_team IS ?4 AND session_key IS ?5 AND started_at = ?12"
    )
});

/// Writes a run's row, new or changed.
pub(super) fn write_run(connection: &Connection, run: &RunRow) -> Result<(), Fault> {
    let ids = [Some(run.run), Some(run.root), run.parent].map(|id| id.map(|id| id.to_string()));
    let path = serde_json::to_string(&run.path)
        .map_err(|error| Fault::Damaged(format!("the path of run {}: {error}", run.run)))?;
    let texts = [
        ids[0].as_deref(),
        ids[1].as_deref(),
        ids[2].as_deref(),
        run.session.as_ref().map(|session| &*session.team),
        run.session.as_ref().map(|session| &*session.key),
        Some(run.team.as_str()),
        Some(run.agent.as_str()),
        Some(path.as_str()),
        Some(run.status.as_str()),
        Some(run.title.as_str()),
    ];
    let times = [run.wake_at, Some(run.started_at), Some(run.updated_at)];
    let times = times.map(|time| time.map(|time| time.0.cast_signed()));
    let mut statement = connection.prepare_cached(&WRITE_RUN)?;
    for (column, text) in texts.iter().enumerate() {
        statement.raw_bind_parameter(column + 1, text)?;
    }
    for (column, time) in times.iter().enumerate() {
        statement.raw_bind_parameter(column + 11, time)?;
    }
    let asks = serde_json::to_string(&run.asks)
        .map_err(|error| Fault::Damaged(format!("what run {} asks: {error}", run.run)))?;
    let begun_as = run.first.map(|first| first.to_string());
    let later = Later {
        owner: run.owner.as_deref(),
        version: run.version,
        asks: Some(&asks),
        begun_as: begun_as.as_deref(),
    };
    statement.raw_bind_parameter(14, run_check(&texts, &times, later).done())?;
    statement.raw_bind_parameter(15, later.owner)?;
    statement.raw_bind_parameter(16, later.version)?;
    statement.raw_bind_parameter(17, later.asks)?;
    statement.raw_bind_parameter(18, later.begun_as)?;
    match statement.raw_execute()? {
        0 => Err(Fault::Damaged(format!(
            "run {} began in another place than the index says",
            run.run
        ))),
        _ => Ok(()),
    }
}

/// The columns of a run that came in versions 3 and 5.
#[derive(Clone, Copy, Default, PartialEq)]
struct Later<'r> {
    owner: Option<&'r str>,
    version: u32,
    asks: Option<&'r str>,
    begun_as: Option<&'r str>,
}

/// The check of a run's row. The columns of versions 3 and 5, `later`, count where they hold something, so
/// that the checks of older rows stay as they are.
fn run_check(texts: &[Option<&str>; 10], times: &[Option<i64>; 3], later: Later<'_>) -> Check {
    let check = texts
        .iter()
        .fold(Check::of("runs"), |check, text| check.optional(*text));
    let check = times.iter().fold(check, |check, time| check.number(*time));
    let check = match later == Later::default() {
        true => check,
        false => check
            .optional(later.owner)
            .number(Some(later.version.into())),
    };
    // Each by its name, so that none stands for another.
    let named = [("asks", later.asks), ("begun_as", later.begun_as)];
    named
        .into_iter()
        .fold(check, |check, (name, value)| match value {
            None => check,
            value => check.optional(Some(name)).optional(value),
        })
}

/// Reads a run from [`RUN_COLUMNS`].
pub(super) fn read_run(row: &Row<'_>) -> Result<RunRow, Fault> {
    let mut texts = [None; 10];
    for (column, slot) in texts.iter_mut().enumerate() {
        *slot = text(row, column)?;
    }
    let times: [Option<i64>; 3] = [row.get(10)?, row.get(11)?, row.get(12)?];
    let name = || format!("the row of run {}", texts[0].unwrap_or_default());
    let later = Later {
        owner: text(row, 14)?,
        version: row.get(15)?,
        asks: text(row, 16)?,
        begun_as: text(row, 17)?,
    };
    verify(run_check(&texts, &times, later), hash(row, 13)?, name)?;

    let odd = |column: &str| Fault::Damaged(format!("{} has an odd {column}", name()));
    let id = |text: Option<&str>| text.map(str::parse::<RunId>).transpose();
    let owned = |text: Option<&str>| text.map(str::to_owned).ok_or_else(|| odd("text"));
    let time = |time: Option<i64>| time.map(|time| Timestamp(time.cast_unsigned()));
    let run = id(texts[0]).ok().flatten().ok_or_else(|| odd("id"))?;
    let mut found = RunRow::new(run, owned(texts[5])?, owned(texts[6])?);
    found.first = id(later.begun_as).map_err(|_| odd("first id"))?;
    found.root = id(texts[1]).ok().flatten().ok_or_else(|| odd("root"))?;
    found.parent = id(texts[2]).map_err(|_| odd("parent"))?;
    found.session = texts[3].zip(texts[4]).map(|(team, key)| SessionId {
        team: team.into(),
        key: key.into(),
    });
    found.path = serde_json::from_str(&owned(texts[7])?).map_err(|_| odd("path"))?;
    found.status = texts[8]
        .and_then(RunStatus::parse)
        .ok_or_else(|| odd("status"))?;
    found.title = owned(texts[9])?;
    (found.owner, found.version) = (later.owner.map(str::to_owned), later.version);
    // A program of before the column wrote none.
    let asks = later.asks.unwrap_or("[]");
    found.asks = serde_json::from_str(asks).map_err(|_| odd("list of questions"))?;
    found.wake_at = time(times[0]);
    found.started_at = time(times[1]).unwrap_or_default();
    found.updated_at = time(times[2]).unwrap_or_default();
    Ok(found)
}

/// A value of shared state as it is stored.
#[derive(Debug)]
pub(super) struct StateRow {
    /// `None` when it was deleted.
    pub(super) value: Option<String>,
    pub(super) version: u64,
}

impl StateRow {
    /// From the columns `scope, key, value, version, digest`.
    pub(super) fn from_row(row: &Row<'_>) -> Result<Self, Fault> {
        let (scope, key) = (needed(row, 0)?, needed(row, 1)?);
        let found = Self {
            value: text(row, 2)?.map(str::to_owned),
            version: row.get::<_, i64>(3)?.cast_unsigned(),
        };
        let check = state_check(scope, key, found.value.as_deref(), found.version);
        verify(check, hash(row, 4)?, || format!("state {scope}/{key}"))?;
        Ok(found)
    }

    pub(super) fn find(
        connection: &Connection,
        scope: &str,
        key: &str,
    ) -> Result<Option<Self>, Fault> {
        let mut statement = connection.prepare_cached(
            "SELECT scope, key, value, version, digest FROM state WHERE scope = ?1 AND key = ?2",
        )?;
        let mut rows = statement.query([scope, key])?;
        rows.next()?.map(|row| Self::from_row(row)).transpose()
    }

    /// The value as callers see it.
    pub(super) fn visible(&self) -> Result<StateSlot, Fault> {
        let value = self.value.as_deref().map(serde_json::from_str);
        let value = value.transpose();
        let version = self.version;
        value
            .map(|value| StateSlot { value, version })
            .map_err(|error| Fault::Damaged(format!("a value of shared state: {error}")))
    }
}

/// Writes a value, or its deletion, as this version.
pub(super) fn write_state(
    connection: &Connection,
    scope: &str,
    key: &str,
    value: Option<&str>,
    version: u64,
) -> Result<(), Fault> {
    let digest = state_check(scope, key, value, version).done();
    let mut statement = connection.prepare_cached(
        "INSERT INTO state(scope, key, value, version, digest) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT(scope, key) DO UPDATE SET value = ?3, version = ?4, digest = ?5",
    )?;
    statement.execute(params![scope, key, value, version.cast_signed(), digest])?;
    Ok(())
}

fn state_check(scope: &str, key: &str, value: Option<&str>, version: u64) -> Check {
    Check::of("state")
        .text(scope)
        .text(key)
        .optional(value)
        .number(Some(version.cast_signed()))
}

/// Puts an item into a mailbox, unless its id was there before.
pub(super) fn post(
    connection: &Connection,
    mailbox: &JournalId,
    item: &MailboxItem,
) -> Result<bool, Fault> {
    let run = mailbox.to_string();
    let body = serde_json::to_string(&item.body)
        .map_err(|error| Fault::Damaged(format!("mailbox item {}: {error}", item.id)))?;
    let at = item.at.0.cast_signed();
    let digest = mailbox_check(&run, &item.id, at, Some(&body)).done();
    let mut statement = connection.prepare_cached(
        "INSERT INTO inbox(run, id, at, body, digest) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT(run, id) DO NOTHING",
    )?;
    Ok(statement.execute(params![run, item.id, at, body, digest])? == 1)
}

/// Takes an item out of a mailbox; its id stays known, so it cannot be posted again.
pub(super) fn take(connection: &Connection, mailbox: &JournalId, id: &str) -> Result<(), Fault> {
    let run = mailbox.to_string();
    let mut find = connection.prepare_cached(
        "SELECT mark, at FROM inbox WHERE run = ?1 AND id = ?2 AND body IS NOT NULL",
    )?;
    let columns = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let Some((mark, at)) = find.query_row(params![run, id], columns).optional()? else {
        return Ok(());
    };
    let digest = mailbox_check(&run, id, at, None).done();
    let mut take =
        connection.prepare_cached("UPDATE inbox SET body = NULL, digest = ?2 WHERE mark = ?1")?;
    take.execute(params![mark, digest])?;
    Ok(())
}

/// Forgets the ids of items that were posted to a mailbox before this time, and taken. The highest mark is kept, as below.
pub(super) fn forget_taken(
    connection: &Connection,
    mailbox: &JournalId,
    before: Timestamp,
) -> Result<(), Fault> {
    let mut delete = connection.prepare_cached(
        "DELETE FROM inbox WHERE run = ?1 AND body IS NULL AND at < ?2 \
         AND mark < (SELECT max(mark) FROM inbox)",
    )?;
    delete.execute(params![mailbox.to_string(), before.0.cast_signed()])?;
    Ok(())
}

/// Deletes a mailbox. A row without a run keeps the highest mark until a later one is given: if
/// a mark were reused, a reader that had read up to it would miss the new item.
pub(super) fn delete_mailbox(connection: &Connection, mailbox: &JournalId) -> Result<(), Fault> {
    let run = mailbox.to_string();
    let mut find = connection.prepare_cached(
        "SELECT mark, at FROM inbox WHERE run = ?1 AND mark = (SELECT max(mark) FROM inbox)",
    )?;
    let columns = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    if let Some((mark, at)) = find.query_row([&run], columns).optional()? {
        let (nobody, id) = ("", mark.to_string());
        let digest = mailbox_check(nobody, &id, at, None).done();
        let mut keep = connection.prepare_cached(
            "UPDATE inbox SET run = ?2, id = ?3, body = NULL, digest = ?4 WHERE mark = ?1",
        )?;
        keep.execute(params![mark, nobody, id, digest])?;
    }
    let mut delete = connection.prepare_cached(
        "DELETE FROM inbox WHERE run IN (?1, '') AND mark < (SELECT max(mark) FROM inbox)",
    )?;
    delete.execute([&run])?;
    Ok(())
}

/// Compares the check of a mailbox item from the columns `run, id, at, body, digest`.
pub(super) fn check_item(row: &Row<'_>) -> Result<(), Fault> {
    let (run, id, at, body) = (needed(row, 0)?, needed(row, 1)?, row.get(2)?, text(row, 3)?);
    let name = || format!("mailbox item {id} of run {run}");
    verify(mailbox_check(run, id, at, body), hash(row, 4)?, name)
}

/// A mailbox item from the columns `run, id, at, body, digest`; `None` when it was taken.
pub(super) fn read_item(row: &Row<'_>) -> Result<Option<MailboxItem>, Fault> {
    check_item(row)?;
    let (run, id, at) = (needed(row, 0)?, needed(row, 1)?, row.get::<_, i64>(2)?);
    let Some(body) = text(row, 3)? else {
        return Ok(None);
    };
    // The check holds, so JSON that has an unknown form was written by a later version of the
    // program.
    let body = serde_json::from_str(body).map_err(|error| {
        let reason = format!("mailbox item {id} of run {run} cannot be read: {error}");
        match error.is_data() {
            true => Fault::Newer(reason),
            false => Fault::Damaged(reason),
        }
    })?;
    let at = Timestamp(at.cast_unsigned());
    Ok(Some(MailboxItem::new(id, at, body)))
}

fn mailbox_check(run: &str, id: &str, at: i64, body: Option<&str>) -> Check {
    Check::of("inbox")
        .text(run)
        .text(id)
        .number(Some(at))
        .optional(body)
}

/// Replaces or deletes a checkpoint.
pub(super) fn put_checkpoint(
    connection: &Connection,
    session: &SessionId,
    bytes: Option<&[u8]>,
) -> Result<(), Fault> {
    let session = session.to_string();
    let Some(bytes) = bytes else {
        connection
            .prepare_cached("DELETE FROM checkpoints WHERE session = ?1")?
            .execute([session])?;
        return Ok(());
    };
    let digest = checkpoint_check(&session, bytes).done();
    let mut statement = connection.prepare_cached(
        "INSERT INTO checkpoints(session, bytes, digest) VALUES (?1, ?2, ?3) \
         ON CONFLICT(session) DO UPDATE SET bytes = ?2, digest = ?3",
    )?;
    statement.execute(params![session, bytes, digest])?;
    Ok(())
}

/// A checkpoint from the columns `session, bytes, digest`.
pub(super) fn read_checkpoint(row: &Row<'_>) -> Result<Vec<u8>, Fault> {
    let (session, bytes) = (needed(row, 0)?, row.get_ref(1)?.as_blob()?);
    let name = || format!("the checkpoint of session {session}");
    verify(checkpoint_check(session, bytes), hash(row, 2)?, name)?;
    Ok(bytes.to_vec())
}

fn checkpoint_check(session: &str, bytes: &[u8]) -> Check {
    Check::of("checkpoints").text(session).bytes(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::contract::StoreError;

    use super::{super::schema, *};

    #[test]
    fn a_mailbox_item_of_a_later_program_is_newer_and_one_that_was_changed_is_damaged() {
        let connection = Connection::open_in_memory().unwrap();
        let read = |body: &str, checked: &str| {
            let digest = mailbox_check("run", "id", 1, Some(checked)).done();
            let item = "SELECT 'run', 'id', 1, ?1, ?2";
            let read = connection.query_row(item, params![body, digest], |row| Ok(read_item(row)));
            read.unwrap().map_err(|fault| fault.at("a store"))
        };
        let dream = r#"{"dreamt":{"of":"sheep"}}"#;
        assert!(matches!(read(dream, dream), Err(StoreError::Newer { .. })));
        assert!(matches!(read(dream, "{}"), Err(StoreError::Damaged { .. })));
        let torn = r#"{"dreamt"#;
        assert!(matches!(read(torn, torn), Err(StoreError::Damaged { .. })));
        let cancel = r#"{"cancel":{"reason":"enough"}}"#;
        assert!(matches!(read(cancel, cancel), Ok(Some(_))));
    }

    /// SQLite makes and drops a table of its own for a list behind IN, at each write.
    #[test]
    fn writing_a_run_makes_no_table_on_the_way() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection, 0, schema::MIGRATIONS).unwrap();
        let mut explain = connection
            .prepare(&format!("EXPLAIN {}", *WRITE_RUN))
            .unwrap();
        let steps = explain.query_map([None::<i64>; 18], |row| row.get(1));
        let steps: Vec<String> = steps.unwrap().map(Result::unwrap).collect();
        assert!(steps.iter().any(|step| step == "IdxInsert"), "{steps:?}");
        assert!(
            !steps.iter().any(|step| step == "OpenEphemeral"),
            "{steps:?}"
        );
    }

    #[test]
    fn a_row_never_moves_to_another_tree_session_or_time() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection, 0, schema::MIGRATIONS).unwrap();
        let mut run = RunRow::new(RunId::from_random(1), "team", "agent");
        write_run(&connection, &run).unwrap();
        (run.status, run.updated_at) = (RunStatus::Answered, Timestamp(2));
        write_run(&connection, &run).unwrap();
        for change in [
            |run: &mut RunRow| run.root = RunId::from_random(2),
            |run: &mut RunRow| run.parent = Some(RunId::from_random(2)),
            |run: &mut RunRow| {
                run.session = Some(SessionId {
                    team: "team".into(),
                    key: "other".into(),
                })
            },
            |run: &mut RunRow| run.started_at = Timestamp(7),
        ] {
            let mut moved = run.clone();
            change(&mut moved);
            assert!(matches!(
                write_run(&connection, &moved),
                Err(Fault::Damaged(_))
            ));
        }
        let select = format!("SELECT {RUN_COLUMNS} FROM runs");
        let mut select = connection.prepare(&select).unwrap();
        let mut rows = select.query([]).unwrap();
        assert_eq!(read_run(rows.next().unwrap().unwrap()).unwrap(), run);
        assert!(rows.next().unwrap().is_none());
    }
}
