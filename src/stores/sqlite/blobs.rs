//! Finding and deleting the blobs to which nothing refers any more.

use std::collections::HashSet;

use ghostlight_actors::{
    contract::{Line, artifact_scopes},
    vocabulary::{Digest, Timestamp},
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    chain::Hash,
    fault::Fault,
    rows::{self, StateRow},
};

/// How much of a store was searched for references to blobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looked {
    /// The position of its last entry.
    position: i64,
    /// The id and the digest of its last row of state. As long as that row exists, later rows have
    /// greater ids; once it is deleted, its id may be used again.
    state: Option<(i64, Hash)>,
}

impl Looked {
    /// The id after which rows of state are new since the search; 0 when that is unknown.
    fn last_state(&self, connection: &Connection) -> Result<i64, Fault> {
        let Some((id, digest)) = &self.state else {
            return Ok(0);
        };
        let there = "SELECT EXISTS (SELECT 1 FROM state WHERE id = ?1 AND digest = ?2)";
        let is_there: bool = connection.query_row(there, params![id, digest], |row| row.get(0))?;
        Ok(if is_there { *id } else { 0 })
    }
}

/// Blobs to which neither an entry nor a version of an artifact refers, and how much was searched.
pub(super) fn unused_blobs(connection: &Connection) -> Result<(Looked, HashSet<Digest>), Fault> {
    let position = "SELECT coalesce(max(position), 0) FROM entries";
    let state = "SELECT id, digest FROM state ORDER BY id DESC LIMIT 1";
    let row = connection.query_row(state, [], |row| Ok((row.get(0)?, row.get(1)?)));
    let looked = Looked {
        position: connection.query_row(position, [], |row| row.get(0))?,
        state: row.optional()?,
    };
    let mut select = connection.prepare("SELECT hash FROM blobs")?;
    let all = select.query_map([], |row| Ok(Digest(row.get(0)?)))?;
    let mut unused: HashSet<Digest> = all.collect::<Result<_, _>>()?;
    // The latest roots first, since most blobs are theirs. An agent that a run made has a
    // definition of its own.
    keep_unused(connection, "root = id ORDER BY id DESC", &mut unused)?;
    keep_unused(connection, "root <> id", &mut unused)?;
    keep_unreferred(connection, 0, &mut unused)?;
    Ok((looked, unused))
}

/// Deletes those of these blobs to which nothing new refers. Returns how many.
pub(super) fn delete_blobs(
    connection: &Connection,
    looked: Looked,
    mut unused: HashSet<Digest>,
) -> Result<u64, Fault> {
    let mut begun = connection.prepare(
        "SELECT body FROM entries WHERE position > ?1 AND sequence = 0 AND root IS NOT NULL",
    )?;
    let mut found = begun.query([looked.position])?;
    while let Some(row) = found.next()? {
        forget_used(rows::needed(row, 0)?, &mut unused);
    }
    keep_unreferred(connection, looked.last_state(connection)?, &mut unused)?;
    let mut delete = connection.prepare_cached("DELETE FROM blobs WHERE hash = ?1")?;
    for digest in &unused {
        delete.execute([digest.0])?;
    }
    Ok(unused.len() as u64)
}

/// Removes the blobs to which the first entries of these journals refer.
fn keep_unused(
    connection: &Connection,
    journals: &str,
    unused: &mut HashSet<Digest>,
) -> Result<(), Fault> {
    let mut roots = connection.prepare(&format!("SELECT id FROM journals WHERE {journals}"))?;
    let mut first =
        connection.prepare("SELECT body FROM entries WHERE journal = ?1 AND sequence = 0")?;
    let mut roots = roots.query([])?;
    while let Some(root) = roots.next()?.filter(|_| !unused.is_empty()) {
        let mut entry = first.query([root.get::<_, i64>(0)?])?;
        if let Some(row) = entry.next()? {
            forget_used(rows::needed(row, 0)?, unused);
        }
    }
    Ok(())
}

/// Removes the blobs to which versions of artifacts refer, in rows after this one. Such a row is
/// written once, so rows that were searched before need no second search.
fn keep_unreferred(
    connection: &Connection,
    after: i64,
    unused: &mut HashSet<Digest>,
) -> Result<(), Fault> {
    // The range ends at the prefix with its last character replaced by the next one.
    let (from, to) = (artifact_scopes::REFERRING, "artifact-versions;");
    let mut select = connection.prepare(
        "SELECT scope, key, value, version, digest FROM state \
         WHERE scope >= ?1 AND scope < ?2 AND id > ?3",
    )?;
    let mut rows = select.query(params![from, to, after])?;
    while let Some(row) = rows.next()?.filter(|_| !unused.is_empty()) {
        let Some(found) = StateRow::from_row(row)?.visible()?.present() else {
            continue;
        };
        match artifact_scopes::referred(&found.value) {
            Ok(used) => {
                unused.remove(&used);
            }
            // A version of a later format may refer to any of them.
            Err(_) => unused.clear(),
        }
    }
    Ok(())
}

fn forget_used(body: &str, unused: &mut HashSet<Digest>) {
    let (at, text) = (Timestamp::default(), body.into());
    match (Line { at, text }).blob() {
        Ok(used) => {
            if let Some(used) = used {
                unused.remove(&used);
            }
        }
        // An entry of a later format may refer to any of them.
        Err(_) => unused.clear(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stores::sqlite::schema::MIGRATIONS;

    fn save(connection: &Connection, scope: &str, content: Digest) {
        let (scope, key) = (
            artifact_scopes::versions(scope),
            artifact_scopes::key("n", 1),
        );
        let value = json!({ "content": content }).to_string();
        rows::write_state(connection, &scope, &key, Some(&value), 1).unwrap();
    }

    #[test]
    fn a_blob_stays_whose_version_took_the_id_of_one_that_went_meanwhile() {
        let connection = Connection::open_in_memory().unwrap();
        for step in MIGRATIONS {
            connection.execute_batch(step).unwrap();
        }
        let kept = Digest::of(b"kept");
        let insert = "INSERT INTO blobs(hash, bytes) VALUES (?1, ?2)";
        connection
            .execute(insert, params![kept.0, b"kept".as_slice()])
            .unwrap();
        save(&connection, "run:1", Digest::of(b"other"));
        let (looked, unused) = unused_blobs(&connection).unwrap();
        assert_eq!(unused, HashSet::from([kept]));
        connection.execute("DELETE FROM state", []).unwrap();
        save(&connection, "session:t/s", kept);
        assert_eq!(delete_blobs(&connection, looked, unused).unwrap(), 0);

        // An unused blob is deleted, and unchanged rows are not searched twice.
        connection.execute("DELETE FROM state", []).unwrap();
        save(&connection, "session:t/s", Digest::of(b"other"));
        let (looked, unused) = unused_blobs(&connection).unwrap();
        assert_eq!(looked.last_state(&connection).unwrap(), 1);
        assert_eq!(delete_blobs(&connection, looked, unused).unwrap(), 1);
    }
}
