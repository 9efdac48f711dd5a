//! The tables, their versions, and the header of a store's file.

use rusqlite::{Connection, TransactionBehavior};

use super::fault::Fault;

/// Marks this program's files among SQLite's: "Ghst".
pub(super) const APPLICATION_ID: i32 = 0x4768_7374;

/// The first version that is read. Stores of earlier versions were never promised to be.
pub(super) const FIRST: u32 = 4;

/// The first step makes the tables of the first version, and each later one leads from the version before to the next. A
/// released step never changes; new steps are appended.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
    include_str!("schema/6.sql"),
];

/// The version that these steps lead to.
fn version_of(steps: &[&str]) -> u32 {
    FIRST - 1 + u32::try_from(steps.len()).unwrap_or(u32::MAX / 2)
}

/// The version that this program writes.
pub(super) fn current_version() -> u32 {
    version_of(MIGRATIONS)
}

/// Takes all steps from this version on, or none. Version 0 is a file without tables.
pub(super) fn migrate(connection: &mut Connection, from: u32, steps: &[&str]) -> Result<(), Fault> {
    let taken = from.saturating_sub(FIRST - 1) as usize;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for step in steps.get(taken..).unwrap_or_default() {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", version_of(steps))?;
    transaction.commit()?;
    Ok(())
}

/// Shows the runs of a file of an older version as those of this one, to a connection that only reads:
/// for it a view stands for the table.
pub(super) fn show_as_current(connection: &Connection) -> Result<(), Fault> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version < 5 {
        connection.execute_batch(
            "CREATE TEMP VIEW runs AS SELECT id, run, root, parent, session_team, session_key, team, agent, \
             path, status, title, wake_at, started_at, updated_at, digest, owner, version, NULL AS asks, \
             NULL AS begun_as FROM main.runs",
        )?;
    }
    Ok(())
}

/// Checks that the tables are those of this version: with damage in their description, or another
/// program's changes, no later answer could be trusted.
pub(super) fn check_tables(connection: &Connection, version: u32) -> Result<(), Fault> {
    let steps = version.saturating_sub(FIRST - 1) as usize;
    let steps = MIGRATIONS.get(..steps).unwrap_or_default();
    let mut model = Connection::open_in_memory()?;
    migrate(&mut model, 0, steps)?;
    if tables(connection)? == tables(&model)? {
        Ok(())
    } else {
        Err(Fault::damaged("its tables are not those of its version"))
    }
}

type Table = (String, String, String, Option<String>);

fn tables(connection: &Connection) -> Result<Vec<Table>, Fault> {
    // `sqlite_stat*` tables appear when a person runs ANALYZE, and do no harm.
    let mut statement = connection.prepare(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema \
         WHERE name NOT LIKE 'sqlite\\_stat%' ESCAPE '\\' ORDER BY type, name",
    )?;
    let columns =
        |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let found = statement.query_map([], columns)?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// The identity of a file, by its first hundred bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// It is a store of this version.
    Store(u32),
    /// It is another program's file, or damaged, for this reason.
    Foreign(&'static str),
}

/// Reads a file's header without SQLite, which would start to repair the file that it opens. The
/// known bytes are compared, since SQLite ignores damage in some of them. See
/// <https://sqlite.org/fileformat2.html#the_database_header>.
pub(super) fn read_header(header: &[u8]) -> Header {
    let number = |at: usize| {
        let bytes: Option<[u8; 4]> = header.get(at..at + 4).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u32::from_be_bytes)
    };
    if header.len() < 100 || !header.starts_with(b"SQLite format 3\0") {
        return Header::Foreign("it is not an SQLite file, so perhaps another file was meant");
    }
    if number(68) != APPLICATION_ID as u32 {
        return Header::Foreign(
            "it is another program's SQLite file, so perhaps another file was meant",
        );
    }
    let version = number(60);
    if version == 0 {
        return Header::Foreign("it has no format version");
    }
    // A later version may choose other values; it is refused by its version number.
    let page_and_fractions = [0x10, 0x00, 2, 2, 0, 64, 32, 32];
    let known = header[16..24] == page_and_fractions
        && number(44) == 4 // schema format
        && number(52) == 0 // no auto-vacuum
        && number(56) == 1 // UTF-8
        && number(64) == 0 // no incremental vacuum
        && header[72..92].iter().all(|byte| *byte == 0);
    if version <= current_version() && !known {
        return Header::Foreign("its header is damaged");
    }
    Header::Store(version)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::contract::RunStatus;

    use super::*;

    #[test]
    fn steps_are_taken_from_the_version_that_is_there() {
        let mut connection = Connection::open_in_memory().unwrap();
        let steps = [
            "CREATE TABLE a(x)",
            "ALTER TABLE a ADD COLUMN y",
            "CREATE TABLE b(x)",
        ];
        migrate(&mut connection, 0, &steps[..1]).unwrap();
        migrate(&mut connection, FIRST, &steps).unwrap();
        connection
            .execute("INSERT INTO a(x, y) VALUES (1, 2)", [])
            .unwrap();
        connection.execute("INSERT INTO b VALUES (1)", []).unwrap();
        let version: i64 = connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .unwrap();
        assert_eq!(version, i64::from(FIRST) + 2);
    }

    #[test]
    fn a_step_that_fails_leaves_the_version_that_was_there() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, 0, &["CREATE TABLE a(x)"]).unwrap();
        let steps = ["CREATE TABLE a(x)", "CREATE TABLE b(x)", "no SQL"];
        migrate(&mut connection, FIRST, &steps).unwrap_err();
        let found = tables(&connection).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        let version: i64 = connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .unwrap();
        assert_eq!(version, i64::from(FIRST));
    }

    #[test]
    fn tables_that_were_changed_are_noticed() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, 0, MIGRATIONS).unwrap();
        check_tables(&connection, current_version()).unwrap();
        connection
            .execute_batch("DROP INDEX entries_by_tree")
            .unwrap();
        check_tables(&connection, current_version()).unwrap_err();
    }

    /// SQLite cannot call Rust, so the indexes of open and of ended runs list the open states themselves.
    #[test]
    fn the_indexes_of_runs_know_every_open_state() {
        use super::super::rows::OPEN;
        let last = MIGRATIONS[2].replace('\n', " ");
        let listed = OPEN.trim_matches(['(', ')']);
        assert_eq!(last.matches(listed).count(), 2, "{last}");
        for status in [
            RunStatus::Running,
            RunStatus::Waiting,
            RunStatus::Parked,
            RunStatus::Cancelling,
            RunStatus::Answered,
            RunStatus::Stopped,
            RunStatus::Failed,
            RunStatus::Cancelled,
            RunStatus::Continued,
        ] {
            let named = OPEN.contains(&format!("status = '{status}'"));
            assert_eq!(named, !status.is_ended(), "{status}");
        }
    }
}
