//! Runs of which another program is needed.

use crate::{
    contract::{RunRow, StoreError, StoreHandle, StoredLine},
    vocabulary::JournalId,
};

/// How many runs are read at once, and how many of the first entries of each: a process that takes
/// up a run records its format at once.
const TOGETHER: usize = 128;
const ENTRIES: usize = 2048;

/// The runs of this list that a later program wrote, or one from before the first format that is read, each with its
/// error. This program neither claims nor changes them; this function only reads.
///
/// # Errors
/// The errors of the store; a run whose journal is damaged is none of them.
pub async fn newer_runs(
    store: &StoreHandle,
    rows: &[RunRow],
) -> Result<Vec<(RunRow, StoreError)>, StoreError> {
    let mut newer = Vec::new();
    for rows in rows.chunks(TOGETHER) {
        let journals: Vec<JournalId> = rows.iter().map(|row| row.run.into()).collect();
        let read = store.read_all(journals.clone(), ENTRIES).await?;
        for ((row, journal), lines) in rows.iter().zip(&journals).zip(read) {
            newer.extend(newer_of(journal, &lines.unwrap_or_default()).map(|e| (row.clone(), e)));
        }
    }
    Ok(newer)
}

/// The error of the first entry of which another program is needed.
fn newer_of(journal: &JournalId, lines: &[StoredLine]) -> Option<StoreError> {
    let errors = lines
        .iter()
        .filter_map(|stored| stored.decode(journal).err());
    let mut foreign = errors.filter(|error| {
        matches!(
            error,
            StoreError::Newer { .. } | StoreError::NoLongerRead { .. }
        )
    });
    foreign.next()
}
