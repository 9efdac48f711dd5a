//! Missing rows: a row to which another one refers must be there, and its absence is damage too.

use ghostlight_actors::{
    contract::Line,
    vocabulary::{Digest, RunId, Timestamp},
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{fault::Fault, rows, rows::JournalRow};

/// How many of the latest runs are checked when not all are.
const LATEST: i64 = 64;

/// Checks that each run with entries has its row in the index, and the definition to which its
/// first entry refers. A large file is not checked as a whole: without `everything`, only the
/// latest runs are.
pub(super) fn check(connection: &Connection, everything: bool) -> Result<(), Fault> {
    let mut journals = connection.prepare(
        "SELECT key, (SELECT body FROM entries WHERE journal = journals.id AND sequence = 0), \
             EXISTS (SELECT 1 FROM runs WHERE run = journals.key) \
         FROM journals WHERE root IS NOT NULL AND NOT (key >= 'deleted:' AND key < 'deleted;') \
         ORDER BY id DESC LIMIT ?1",
    )?;
    let mut blob = connection.prepare("SELECT 1 FROM blobs WHERE hash = ?1")?;
    let limit = if everything { -1 } else { LATEST };
    let mut found = journals.query([limit])?;
    while let Some(row) = found.next()? {
        // A journal without entries was only claimed, or is named by a child run.
        let Some(first) = rows::text(row, 1)? else {
            continue;
        };
        let key = rows::needed(row, 0)?;
        if !row.get::<_, bool>(2)? {
            return Err(no_row(key));
        }
        if let Some(definition) = definition_of(first)
            && !blob.exists([definition.0])?
        {
            return Err(Fault::Damaged(format!(
                "run {key} is there, and the definition {definition} is missing to which it refers"
            )));
        }
    }
    Ok(())
}

/// The definition to which a run's first entry refers. `None` where the entry cannot be read, since
/// a later version of the program may write it differently.
fn definition_of(first: &str) -> Option<Digest> {
    let (at, text) = (Timestamp::default(), first.into());
    Line { at, text }.blob().ok()?
}

/// Distinguishes a run that never existed from a run whose row is missing.
pub(super) fn check_run(connection: &Connection, run: RunId) -> Result<(), Fault> {
    let key = run.to_string();
    let Some(journal) = JournalRow::find(connection, &key)? else {
        return Ok(());
    };
    let mut first =
        connection.prepare_cached("SELECT 1 FROM entries WHERE journal = ?1 AND sequence = 0")?;
    let first: Option<i64> = first
        .query_row(params![journal.id], |row| row.get(0))
        .optional()?;
    match first {
        Some(_) => Err(no_row(&key)),
        None => Ok(()),
    }
}

fn no_row(key: &str) -> Fault {
    Fault::Damaged(format!(
        "run {key} has entries, and its row is missing from the table of runs"
    ))
}
