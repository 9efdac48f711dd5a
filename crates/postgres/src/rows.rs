//! Converts rows of the tables to the contract's types.

use ghostlight_actors::{
    contract::{RunRow, RunStatus, StateSlot},
    vocabulary::{Digest, RunId, SessionId, Timestamp},
};
use serde_json::Value;
use tokio_postgres::Row;

use crate::{fault::Fault, text};

/// The states of a run that has not ended, as SQL. The index `runs_open` contains the same list.
pub(crate) const OPEN: &str = "status IN ('running', 'waiting', 'parked', 'cancelling')";

/// The time by which a run goes on by itself, as SQL: 0 if it is at work, NULL if it does not. The index `runs_by_due`
/// has the same expression.
pub(crate) const DUE: &str =
    "CASE status WHEN 'running' THEN 0 WHEN 'cancelling' THEN 0 WHEN 'waiting' THEN wake_at END";

/// The columns of a run, in the order of [`run`].
pub(crate) const RUN_COLUMNS: &str = "run, root, parent, session_team, session_key, team, agent, path, status, \
     title, wake_at, started_at, updated_at, owner, version, asks, begun_as";

/// A number as PostgreSQL stores it; a larger number than it can store becomes its largest.
pub(crate) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A column with an unsigned number.
pub(crate) fn count(row: &Row, column: usize) -> Result<u64, Fault> {
    Ok(row.try_get::<_, i64>(column)?.cast_unsigned())
}

/// A column that holds a hash.
pub(crate) fn digest(row: &Row, column: usize) -> Result<Digest, Fault> {
    digest_of(row.try_get(column)?)
}

/// A column with an optional hash.
pub(crate) fn digest_or_none(row: &Row, column: usize) -> Result<Option<Digest>, Fault> {
    let bytes: Option<&[u8]> = row.try_get(column)?;
    bytes.map(digest_of).transpose()
}

fn digest_of(bytes: &[u8]) -> Result<Digest, Fault> {
    let bytes: Result<[u8; 32], _> = bytes.try_into();
    bytes
        .map(Digest)
        .map_err(|_| Fault::Damaged("a hash of a wrong length".to_owned()))
}

/// A run from [`RUN_COLUMNS`].
pub(crate) fn run(row: &Row) -> Result<RunRow, Fault> {
    let id: &str = row.try_get(0)?;
    let odd = |column: &str| Fault::Damaged(format!("the row of run {id} has an odd {column}"));
    let time = |column| {
        let time: Option<i64> = row.try_get(column)?;
        Ok::<_, Fault>(time.map(|time| Timestamp(time.cast_unsigned())))
    };
    let parsed: RunId = id.parse().map_err(|_| odd("id"))?;
    let mut found = RunRow::new(
        parsed,
        text::read(row.try_get(5)?),
        text::read(row.try_get(6)?),
    );
    let first: Option<&str> = row.try_get(16)?;
    found.first = first
        .map(str::parse)
        .transpose()
        .map_err(|_| odd("first id"))?;
    found.root = row
        .try_get::<_, &str>(1)?
        .parse()
        .map_err(|_| odd("root"))?;
    let parent: Option<&str> = row.try_get(2)?;
    found.parent = parent
        .map(str::parse)
        .transpose()
        .map_err(|_| odd("parent"))?;
    let (team, key): (Option<&str>, Option<&str>) = (row.try_get(3)?, row.try_get(4)?);
    found.session = team.zip(key).map(|(team, key)| SessionId {
        team: text::read(team).into(),
        key: text::read(key).into(),
    });
    found.path = serde_json::from_str(row.try_get(7)?).map_err(|_| odd("path"))?;
    found.status = RunStatus::parse(row.try_get(8)?).ok_or_else(|| odd("status"))?;
    found.title = text::read(row.try_get(9)?);
    found.wake_at = time(10)?;
    found.started_at = time(11)?.unwrap_or_default();
    found.updated_at = time(12)?.unwrap_or_default();
    let owner: Option<&str> = row.try_get(13)?;
    found.owner = owner.map(text::read);
    found.version = u32::try_from(row.try_get::<_, i64>(14)?).map_err(|_| odd("version"))?;
    let asks: Option<&str> = row.try_get(15)?;
    // A program of before the column wrote none.
    let asks = asks.unwrap_or("[]");
    found.asks = serde_json::from_str(asks).map_err(|_| odd("list of questions"))?;
    Ok(found)
}

/// A slot of shared state, from its value and version.
pub(crate) fn slot(value: Option<&str>, version: i64) -> Result<StateSlot, Fault> {
    let value: Option<Value> = value
        .map(serde_json::from_str)
        .transpose()
        .map_err(|error| Fault::Damaged(format!("a value of shared state: {error}")))?;
    let version = version.cast_unsigned();
    Ok(StateSlot { value, version })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The indexes of open and of ended runs repeat the states, because SQL cannot use the Rust
    /// list.
    #[test]
    fn the_indexes_know_every_open_state() {
        let states = OPEN.trim_start_matches("status IN ");
        let schema = include_str!("schema/8.sql");
        assert!(schema.contains(&format!("WHERE status IN {states}")));
        assert!(schema.contains(&format!("status NOT IN {states}")));
    }
}
