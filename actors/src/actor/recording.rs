//! Reading what is recorded of a tree of runs.

use std::collections::btree_map::Entry;

use super::SystemError;
use crate::{
    contract::{RunRow, StoreError, StoreHandle, TreeLine},
    run::{Recording, operations},
    vocabulary::{self, Digest, JournalId, RunId, RunStart},
};

/// How many entries are read at once.
const PAGE: usize = 4096;

/// All that is recorded of a run's tree: the runs, their definitions, and the session before them.
/// It only reads, and reads nothing that is written meanwhile in part: a run that is under way is
/// recorded up to some commit.
///
/// # Errors
/// [`SystemError::UnknownRun`], and what the store fails with.
pub async fn recording(store: &StoreHandle, run: RunId) -> Result<Recording, SystemError> {
    let row = row_of(store, run).await?;
    let mut recording = Recording::new(row.root);
    recording.lines = tree(store, row.root).await?;
    let root = if row.root == run {
        Some(row)
    } else {
        store.run(row.root).await?
    };
    recording.session = root.and_then(|root| root.session);
    let starts: Vec<RunStart> = starts(&recording.lines)?;
    for start in &starts {
        if let Entry::Vacant(place) = recording.definitions.entry(start.definition) {
            let bytes = store.blob(start.definition).await?;
            let text = bytes.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
            let text = text.ok_or_else(|| SystemError::Pinned {
                run,
                reason: format!("the store has no blob {}", start.definition),
            })?;
            place.insert(text.into());
        }
    }
    for line in &recording.lines {
        let Some(digest) = loaded(line) else { continue };
        // What an ended run loaded may be gone with its artifact; replaying it says what it lacks.
        if let Some(content) = store.blob(digest).await? {
            recording.contents.insert(digest, content);
        }
    }
    let history = starts.first().map_or(0, |start| start.history);
    if let Some(session) = &recording.session {
        let journal = JournalId::Session(session.clone());
        let limit = usize::try_from(history).unwrap_or(usize::MAX);
        let lines = store.read(journal, 0, limit).await?;
        recording.history = lines.into_iter().map(|stored| stored.line).collect();
    }
    Ok(recording)
}

/// What the index knows of a run. One that was deleted is told apart from one that never was, as
/// long as the store knows it.
pub(crate) async fn row_of(store: &StoreHandle, run: RunId) -> Result<RunRow, SystemError> {
    if let Some(row) = store.run(run).await? {
        return Ok(row);
    }
    match store.deleted(run).await? {
        Some(at) => Err(StoreError::Deleted { run, at }.into()),
        None => Err(SystemError::UnknownRun(run)),
    }
}

/// All entries of a tree, in the order of their commits.
pub(crate) async fn tree(store: &StoreHandle, root: RunId) -> Result<Vec<TreeLine>, SystemError> {
    let mut lines: Vec<TreeLine> = Vec::new();
    loop {
        let after = lines.last().map_or(0, |line| line.stored.position);
        let page = store.read_tree(root, after, PAGE).await?;
        if page.is_empty() {
            return Ok(lines);
        }
        lines.extend(page);
    }
}

/// The content of the artifact that an entry says was loaded.
fn loaded(line: &TreeLine) -> Option<Digest> {
    // Most entries are another operation's, and need not be decoded to tell.
    if !line.stored.line.text.contains(operations::LOAD_ARTIFACT) {
        return None;
    }
    match line.stored.line.decode().ok()? {
        vocabulary::Entry::Completed { kind, result, .. } => operations::content_of(&kind, &result),
        _ => None,
    }
}

fn starts(lines: &[TreeLine]) -> Result<Vec<RunStart>, StoreError> {
    let first = lines.iter().filter(|line| line.stored.sequence == 0);
    let started = first.filter_map(|line| match line.stored.decode(&line.run.into()) {
        Ok(vocabulary::Entry::RunStarted(start)) => Some(Ok(*start)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    });
    started.collect()
}
