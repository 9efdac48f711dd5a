//! Reading the records of a tree of runs.

use std::collections::btree_map::Entry;

use super::SystemError;
use crate::{
    contract::{RunRow, StoreError, StoreHandle, TreeLine},
    run::{Recording, operations},
    vocabulary::{self, Digest, JournalId, RunId, RunStart},
};

/// How many entries are read at once.
const PAGE: usize = 4096;

/// All records of a run's tree: the runs, their definitions, and the session before them. This
/// function only reads. Of a run that is under way it reads the entries up to some commit, and no
/// part of a later commit.
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
        // The artifact that an ended run loaded may be deleted; a replay says what is missing.
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

/// The row of a run in the index. The error tells a deleted run from one that never existed, as
/// long as the store knows the deletion.
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
    each_line(store, root, 0, |line| -> Result<(), SystemError> {
        lines.push(line);
        Ok(())
    })
    .await?;
    Ok(lines)
}

/// Reads the entries of a tree after this position, page after page.
pub(crate) async fn each_line<E: From<StoreError>>(
    store: &StoreHandle,
    root: RunId,
    mut after: u64,
    mut take: impl FnMut(TreeLine) -> Result<(), E>,
) -> Result<(), E> {
    loop {
        let page = store.read_tree(root, after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = last.stored.position;
        page.into_iter().try_for_each(&mut take)?;
    }
}

/// The content of the artifact that an entry says was loaded.
fn loaded(line: &TreeLine) -> Option<Digest> {
    // Most entries belong to other operations, which is seen without decoding them.
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
