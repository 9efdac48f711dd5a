//! Reading the records of a tree of runs.

use std::collections::{BTreeSet, btree_map::Entry};

use super::SystemError;
use crate::{
    contract::{JournalPages, RunRow, StoreError, StoreHandle, TreeLine, TreePages},
    run::{Recording, Written, operations},
    vocabulary::{self, Digest, JournalId, RunId, RunStart, SessionId},
};

/// All records of a run's tree: the runs, their definitions, and the session before them. This
/// function only reads. Of a run that is under way it reads the entries up to some commit, and no
/// part of a later commit.
///
/// # Errors
/// [`SystemError::UnknownRun`], and what the store fails with.
pub async fn recording(store: &StoreHandle, run: RunId) -> Result<Recording, SystemError> {
    let row = read_row(store, run).await?;
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
            place.insert(definition(store, run, start.definition).await?.into());
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

async fn definition(
    store: &StoreHandle,
    run: RunId,
    digest: Digest,
) -> Result<String, SystemError> {
    let bytes = store.blob(digest).await?;
    let text = bytes.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
    text.ok_or_else(|| SystemError::Pinned {
        run,
        reason: format!("the store has no blob {digest}"),
    })
}

/// The text of a run's [`recording`], as [`Recording::to_json_lines`] has it, of which only a few
/// entries are in memory at a time.
#[derive(Clone, Debug)]
pub struct RecordedText {
    store: StoreHandle,
    run: RunId,
    root: RunId,
    session: Option<SessionId>,
    /// How many entries of the session's journal stand before the run.
    history: u64,
    definitions: BTreeSet<Digest>,
    contents: BTreeSet<Digest>,
    /// The position of the last entry.
    until: u64,
}

impl RecordedText {
    /// Reads what the recording consists of. It has the entries that are there now, however often its
    /// lines are read.
    ///
    /// # Errors
    /// As [`recording`].
    pub async fn of(store: &StoreHandle, run: RunId) -> Result<Self, SystemError> {
        let row = read_row(store, run).await?;
        let root = match row.root == run {
            true => Some(row.clone()),
            false => store.run(row.root).await?,
        };
        let mut text = Self {
            store: store.clone(),
            run,
            root: row.root,
            session: root.and_then(|root| root.session),
            history: 0,
            definitions: BTreeSet::new(),
            contents: BTreeSet::new(),
            until: 0,
        };
        let mut history = None;
        each_line(store, row.root, 0, |line| -> Result<(), SystemError> {
            text.until = line.stored.position;
            text.contents.extend(loaded(&line));
            if let Some(start) = start(&line)? {
                text.definitions.insert(start.definition);
                history.get_or_insert(start.history);
            }
            Ok(())
        })
        .await?;
        text.history = history.unwrap_or(0);
        Ok(text)
    }

    /// Gives each line, in order.
    ///
    /// # Errors
    /// The errors of the store, and those of `take`.
    pub async fn each_line<E: From<SystemError>>(
        &self,
        mut take: impl FnMut(String) -> Result<(), E>,
    ) -> Result<(), E> {
        let store = &self.store;
        take(Written::head(self.root, self.session.clone()).json())?;
        for digest in &self.definitions {
            let text = definition(store, self.run, *digest).await?;
            take(Written::definition(*digest, &text).json())?;
        }
        for digest in &self.contents {
            // The artifact that an ended run loaded may be deleted; a replay says what is missing.
            if let Some(content) = store.blob(*digest).await.map_err(SystemError::from)? {
                take(Written::content(*digest, &content).json())?;
            }
        }
        if let Some(session) = &self.session {
            let mut pages = JournalPages::new(session.clone(), 0).until(self.history);
            loop {
                let lines = pages.next(store).await.map_err(SystemError::from)?;
                if lines.is_empty() {
                    break;
                }
                for line in lines {
                    take(Written::history(&line.line).json())?;
                }
            }
        }
        let mut pages = TreePages::new(self.root, 0);
        while pages.read_to() < self.until {
            let lines = pages.next(store).await.map_err(SystemError::from)?;
            if lines.is_empty() {
                break;
            }
            for line in lines
                .iter()
                .filter(|line| line.stored.position <= self.until)
            {
                take(Written::entry(line).json())?;
            }
        }
        Ok(())
    }
}

/// The row of a run in the index. The error tells a deleted run from one that never existed, as
/// long as the store knows the deletion.
pub(crate) async fn read_row(store: &StoreHandle, run: RunId) -> Result<RunRow, SystemError> {
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
    after: u64,
    mut take: impl FnMut(TreeLine) -> Result<(), E>,
) -> Result<(), E> {
    let mut pages = TreePages::new(root, after);
    loop {
        let page = pages.next(store).await?;
        if page.is_empty() {
            return Ok(());
        }
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
    let started = lines.iter().map(start);
    started.filter_map(Result::transpose).collect()
}

/// How the run of this line began, where the line is its first.
fn start(line: &TreeLine) -> Result<Option<RunStart>, StoreError> {
    if line.stored.sequence > 0 {
        return Ok(None);
    }
    Ok(match line.stored.decode(&line.run.into())? {
        vocabulary::Entry::RunStarted(start) => Some(*start),
        _ => None,
    })
}
