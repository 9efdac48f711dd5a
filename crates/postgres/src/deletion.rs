//! Deletes ended trees and sessions, in steps of bounded size, and unreferenced blobs.
//!
//! The journals of a tree or a session are renamed in one commit to keys that no query uses. Then
//! their entries are deleted from the last to the first, so that the remaining entries form a chain
//! at any time. Each step locks the row `tail` as commits do, so that no commit can interleave.

use ghostlight_actors::{
    contract::{DELETIONS_KNOWN, Deleted, RunRow, StoreError, artifact_scopes},
    vocabulary::{JournalId, RunId, SessionId, Timestamp},
};
use tokio_postgres::{Row, Transaction};

use crate::{
    fault::Fault,
    node,
    reader::Readers,
    rows::{self, number},
    text::stored,
};

/// See `Deletion::delete_tree`.
pub(crate) async fn delete_tree(
    readers: &Readers,
    root: RunId,
    at: Timestamp,
    limit: usize,
) -> Result<Deleted, Fault> {
    readers.health.check().map_err(Fault::Told)?;
    let mut client = readers.client().await?;
    let step = client.transaction().await?;
    step.execute("SELECT 1 FROM tail FOR UPDATE", &[]).await?;
    let tree = root.to_string();
    let open = format!(
        "SELECT run FROM runs WHERE root = $1 AND {} LIMIT 1",
        rows::OPEN
    );
    if let Some(row) = step.query_opt(&open, &[&tree]).await? {
        return Err(is_open(&row)?);
    }
    // All runs of the tree, if this run is its root.
    let below = format!(
        "DELETE FROM runs WHERE root = $1 \
         AND EXISTS (SELECT 1 FROM runs AS root WHERE root.run = $1 AND root.root = $1) RETURNING {}",
        rows::RUN_COLUMNS
    );
    let rows = step.query(&below, &[&tree]).await?;
    let rows: Vec<RunRow> = rows.iter().map(rows::run).collect::<Result<_, _>>()?;
    let doomed: Vec<String> = rows.iter().map(|row| row.run.to_string()).collect();
    if !doomed.is_empty() {
        let hide = "UPDATE journals SET key = 'deleted:' || key, owner = NULL WHERE key = ANY($1)";
        step.execute(hide, &[&doomed]).await?;
        let gone = rows.iter().flat_map(RunRow::mailboxes_deleted);
        let gone: Vec<String> = gone.map(|mailbox| mailbox.to_string()).collect();
        step.execute("DELETE FROM inbox WHERE run = ANY($1)", &[&gone])
            .await?;
        let forget = "DELETE FROM inbox WHERE run = $1 AND body IS NULL AND at < $2";
        for (mailbox, before) in rows.iter().filter_map(RunRow::mailbox_left) {
            let before = before.0.cast_signed();
            step.execute(forget, &[&mailbox.to_string(), &before])
                .await?;
        }
        let scopes = artifact_scopes::of_tree(root).to_vec();
        step.execute("DELETE FROM state WHERE scope = ANY($1)", &[&scopes])
            .await?;
        let remember = "INSERT INTO deleted(run, at) SELECT run, $2 FROM unnest($1::text[]) AS run \
             ON CONFLICT (run) DO UPDATE SET at = excluded.at";
        step.execute(remember, &[&doomed, &at.0.cast_signed()])
            .await?;
        let forget = "DELETE FROM deleted WHERE id <= (SELECT max(id) FROM deleted) - $1";
        step.execute(forget, &[&number(DELETIONS_KNOWN)]).await?;
    }
    let mut deleted = delete_entries(&step, limit).await?;
    step.commit().await?;
    deleted.runs = doomed.len() as u64;
    Ok(deleted)
}

fn is_open(row: &Row) -> Result<Fault, Fault> {
    let odd = |_| Fault::Damaged("a run's id cannot be read".to_owned());
    let run = row.try_get::<_, &str>(0)?.parse().map_err(odd)?;
    Ok(Fault::Told(StoreError::Open { run }))
}

/// Deletes at most `limit` entries of hidden journals, and each such journal with its last entry.
async fn delete_entries(step: &Transaction<'_>, limit: usize) -> Result<Deleted, Fault> {
    let limit = limit.max(1);
    let entries = "DELETE FROM entries WHERE position IN (SELECT e.position FROM entries AS e \
         JOIN journals AS j ON j.id = e.journal WHERE j.key >= 'deleted:' AND j.key < 'deleted;' \
         ORDER BY j.key, e.sequence DESC LIMIT $1)";
    let mut deleted = Deleted::default();
    deleted.entries = step.execute(entries, &[&number(limit as u64)]).await?;
    deleted.more = deleted.entries >= limit as u64;
    if !deleted.more {
        let journals = "DELETE FROM journals WHERE key >= 'deleted:' AND key < 'deleted;'";
        step.execute(journals, &[]).await?;
    }
    Ok(deleted)
}

/// See `Deletion::delete_session`; `this` is the node that asks.
pub(crate) async fn delete_session(
    readers: &Readers,
    this: &str,
    session: &SessionId,
    limit: usize,
) -> Result<Deleted, Fault> {
    readers.health.check().map_err(Fault::Told)?;
    let mut client = readers.client().await?;
    let step = client.transaction().await?;
    step.execute("SELECT 1 FROM tail FOR UPDATE", &[]).await?;
    let journal = JournalId::Session(session.clone());
    let name = journal.to_string();
    let key = stored(&name);
    let held = "SELECT owner FROM journals WHERE key = $1 AND owner <> $2 AND node_lives(owner)";
    if let Some(row) = step.query_opt(held, &[&key, &this]).await? {
        let owner = node::in_words(row.try_get(0)?);
        return Err(Fault::Told(StoreError::Owned { journal, owner }));
    }
    let open = format!(
        "SELECT run FROM runs WHERE session_team = $1 AND session_key = $2 AND {} LIMIT 1",
        rows::OPEN
    );
    let (team, name) = (stored(&session.team), stored(&session.key));
    if let Some(row) = step.query_opt(&open, &[&team, &name]).await? {
        return Err(is_open(&row)?);
    }
    // The number distinguishes it from a session of the same name whose deletion has not finished.
    let hide =
        "UPDATE journals SET key = 'deleted:' || id || '/' || key, owner = NULL WHERE key = $1";
    step.execute(hide, &[&key]).await?;
    step.execute("DELETE FROM inbox WHERE run = $1", &[&key])
        .await?;
    let checkpoint = session.to_string();
    let checkpoint = stored(&checkpoint);
    step.execute("DELETE FROM checkpoints WHERE session = $1", &[&checkpoint])
        .await?;
    let scopes = artifact_scopes::of_session(session);
    let scopes = scopes.each_ref().map(|scope| stored(scope));
    step.execute("DELETE FROM state WHERE scope = ANY($1)", &[&&scopes[..]])
        .await?;
    let deleted = delete_entries(&step, limit).await?;
    step.commit().await?;
    Ok(deleted)
}

/// That nothing refers to a blob, as SQL, with the first and last scope of values that refer to blobs.
const UNUSED: &str = "NOT EXISTS (SELECT 1 FROM journals WHERE definition = blobs.hash AND key NOT LIKE 'deleted:%') \
     AND encode(hash, 'hex') NOT IN (SELECT value::json ->> 'content' FROM state \
         WHERE scope >= $1 AND scope < $2 AND value IS NOT NULL AND value::json ->> 'content' IS NOT NULL)";

/// See `Deletion::drop_blobs`. Blobs are referenced by the definitions of runs and the versions of
/// artifacts.
pub(crate) async fn drop_blobs(readers: &Readers) -> Result<u64, Fault> {
    readers.health.check().map_err(Fault::Told)?;
    let mut client = readers.client().await?;
    // The upper bound is the prefix with its last character replaced by the next character.
    let (from, to) = (artifact_scopes::REFERRING, "artifact-versions;");
    // All are looked through while others commit. Then nobody commits, and those that were found are looked up again.
    let find = format!("SELECT hash FROM blobs WHERE {UNUSED}");
    let found = client.query(&find, &[&from, &to]).await?;
    let found: Vec<Vec<u8>> = found
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()?;
    if found.is_empty() {
        return Ok(0);
    }
    let step = client.transaction().await?;
    step.execute("SELECT 1 FROM tail FOR UPDATE", &[]).await?;
    let drop = format!("DELETE FROM blobs WHERE hash = ANY($3) AND {UNUSED}");
    let dropped = step.execute(&drop, &[&from, &to, &found]).await?;
    step.commit().await?;
    Ok(dropped)
}
