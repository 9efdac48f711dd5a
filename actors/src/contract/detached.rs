//! Files beside the entries that hold them: a store keeps the bytes of a file once, however many entries hold it.
//!
//! Everybody reads and writes entries through a [`StoreHandle`](super::StoreHandle). It takes each long file out of the
//! text of an entry before the store gets it, and puts it back when the entry is read. In between the text is
//!
//! ```json
//! {"detached":{"files":[{"at":PLACE,"content":HASH}],"entry":ENTRY}}
//! ```
//!
//! `ENTRY` is the entry's text, in which an empty text stands for the base64 of each file, and `PLACE` is the place in it,
//! in bytes, where the base64 belongs. The bytes are a blob, and a row of the session or of the tree of runs refers to it:
//! both are in the commit that brings the entry, and the row goes when the session or the tree is deleted. So an entry
//! finds the files of its own session or tree alone, and nobody who writes an entry can name a hash: a text that was
//! written in this form is taken for what it is, a text, and put into this form once more.
//!
//! A program that does not know this form takes it for an entry of a later one, and leaves it alone.

use std::{
    collections::{BTreeMap, HashMap, hash_map},
    sync::{Arc, OnceLock},
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    Append, Batch, Claim, Committed, DynStore, LineText, MailboxItem, StoreError, StoreHandle,
    StoreWrapper, StoredLine, TreeLine, artifact_scopes,
};
use crate::vocabulary::{Data, Digest, JournalId, Message, RunId, SessionId};

/// The beginning of a text without its files.
const BEGIN: &str = "{\"detached\":";
/// The text before the base64 of a file, in an entry.
const FILE: &str = "\"base64\":\"";

/// Whether a text is in the form without files.
pub(super) fn is_detached(text: &str) -> bool {
    text.starts_with(BEGIN)
}

/// Whether files may be in a text that a store keeps beside it.
pub(crate) fn may_have_files(text: &str) -> bool {
    text.len() > Data::MAX_INLINE && text.contains(FILE)
}

/// An entry with the files that a store keeps beside it.
pub(super) struct Attached {
    entry: Box<str>,
    files: Vec<File>,
    text: OnceLock<Box<str>>,
}

struct File {
    at: usize,
    hash: Digest,
    content: Arc<[u8]>,
}

impl Attached {
    fn new(entry: impl Into<Box<str>>, files: Vec<File>) -> Self {
        Self {
            entry: entry.into(),
            files,
            text: OnceLock::new(),
        }
    }

    /// Finds the files in the text of an entry; `None` where there are none. What it finds is written back as it was: base64
    /// that has another form than ours stays in the entry.
    pub(super) fn find(text: &str) -> Option<Self> {
        if is_detached(text) {
            return Some(Self::new(text, Vec::new()));
        }
        if !may_have_files(text) {
            return None;
        }
        let (mut entry, mut files, mut rest) = (String::new(), Vec::new(), text);
        // In JSON no quote inside of a text is followed by these characters, so a text begins behind them.
        while let Some(at) = rest.find(FILE) {
            let (before, value) = rest.split_at(at + FILE.len());
            entry.push_str(before);
            rest = value;
            let base64 = &value[..value.find('"').unwrap_or(0)];
            if base64.len() > Data::MAX_INLINE
                && let Ok(content) = BASE64.decode(base64)
            {
                files.push(File {
                    at: entry.len(),
                    hash: Digest::of(&content),
                    content: content.into(),
                });
                rest = &value[base64.len()..];
            }
        }
        entry.push_str(rest);
        (!files.is_empty()).then(|| Self::new(entry, files))
    }

    /// The entry, with an empty text for each file.
    pub(super) fn entry(&self) -> &str {
        &self.entry
    }

    pub(super) fn files(&self) -> Vec<(Digest, Arc<[u8]>)> {
        let each = self.files.iter();
        each.map(|file| (file.hash, file.content.clone())).collect()
    }

    /// The form in which a store keeps it.
    pub(super) fn detached(&self) -> Box<str> {
        let place = |file: &File| FileAt {
            at: file.at,
            content: file.hash,
        };
        let files: Vec<FileAt> = self.files.iter().map(place).collect();
        // Numbers and hashes always have a form as JSON.
        let files = serde_json::to_string(&files).unwrap_or_default();
        let entry = &self.entry;
        format!("{BEGIN}{{\"files\":{files},\"entry\":{entry}}}}}").into()
    }

    /// Writes the text.
    pub(super) fn write(&self) -> String {
        let mut text = String::with_capacity(self.len());
        let mut written = 0;
        for File { at, content, .. } in &self.files {
            text.push_str(&self.entry[written..*at]);
            BASE64.encode_string(content, &mut text);
            written = *at;
        }
        text.push_str(&self.entry[written..]);
        text
    }

    /// The text, which is kept from now on.
    pub(super) fn text(&self) -> &str {
        self.text.get_or_init(|| self.write().into())
    }

    /// The length of the text.
    pub(super) fn len(&self) -> usize {
        let files = self.files.iter();
        let files: usize = files.map(|file| file.content.len().div_ceil(3) * 4).sum();
        self.entry.len() + files
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form<'t> {
    #[serde(borrow)]
    Detached(Detached<'t>),
}

/// An entry without its files, as a store has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Detached<'t> {
    files: Vec<FileAt>,
    #[serde(borrow)]
    pub(super) entry: &'t RawValue,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileAt {
    at: usize,
    content: Digest,
}

impl<'t> Detached<'t> {
    /// The hashes of its files.
    pub(super) fn hashes(&self) -> Vec<Digest> {
        self.files.iter().map(|file| file.content).collect()
    }

    /// Reads the text of an entry without its files.
    ///
    /// # Errors
    /// The fault of the text.
    pub(super) fn read(text: &'t str) -> Result<Self, String> {
        let read = serde_json::from_str(text);
        let Form::Detached(read) = read.map_err(|error| error.to_string())?;
        let entry = read.entry.get();
        let is_place = |file: &FileAt| entry.is_char_boundary(file.at);
        let are_places = read.files.iter().all(is_place);
        if are_places && read.files.is_sorted_by_key(|file| file.at) {
            Ok(read)
        } else {
            Err("a file has no place in its entry".to_owned())
        }
    }
}

/// Takes the files out of the entries of a batch. Their contents become blobs of it, to which a row of the session or of
/// the tree refers.
fn detach(batch: &mut Batch) {
    let mut found: BTreeMap<(String, Digest), Arc<[u8]>> = BTreeMap::new();
    for append in &mut batch.appends {
        let lines = append.lines.iter_mut();
        let files: Vec<_> = lines.flat_map(|line| line.text.detach()).collect();
        if files.is_empty() {
            continue;
        }
        let scope = scope_of(append);
        for (hash, content) in files {
            found.insert((scope.clone(), hash), content);
        }
    }
    for ((scope, hash), content) in found {
        batch.writes.push(artifact_scopes::file_row(&scope, hash));
        batch.blobs.push((hash, content));
    }
}

/// The scope that goes with the entries of an append.
fn scope_of(append: &Append) -> String {
    match &append.journal {
        JournalId::Session(session) => artifact_scopes::session(session),
        JournalId::Run(run) => artifact_scopes::tree(append.root.unwrap_or(*run)),
    }
}

/// A store that keeps files beside the entries that hold them.
pub(super) struct FilesApart(pub(super) Arc<dyn DynStore>);

impl FilesApart {
    /// Gives these entries their files.
    async fn attach<'l>(
        &self,
        lines: impl Iterator<Item = &'l mut StoredLine> + Send,
    ) -> Result<(), StoreError> {
        let mut known: HashMap<Digest, Arc<[u8]>> = HashMap::new();
        for stored in lines.filter(|stored| stored.line.text.is_detached()) {
            let damaged = |reason: String| StoreError::Damaged {
                place: format!("the entry at position {}", stored.position),
                reason,
            };
            let read = Detached::read(&stored.line.text).map_err(damaged)?;
            let entry: Box<str> = read.entry.get().into();
            let mut files = Vec::with_capacity(read.files.len());
            for FileAt { at, content: hash } in read.files {
                let content = match known.entry(hash) {
                    hash_map::Entry::Occupied(known) => known.get().clone(),
                    hash_map::Entry::Vacant(place) => {
                        let missing = || damaged(format!("its file {hash} is missing"));
                        let found = self.0.blob(hash).await?;
                        place.insert(found.ok_or_else(missing)?).clone()
                    }
                };
                files.push(File { at, hash, content });
            }
            stored.line.text = LineText::attached(Attached::new(entry, files));
        }
        Ok(())
    }
}

impl StoreWrapper for FilesApart {
    fn inner(&self) -> &dyn DynStore {
        &*self.0
    }

    async fn commit(
        &self,
        mut batches: Vec<Batch>,
    ) -> Result<Vec<Result<Committed, StoreError>>, StoreError> {
        batches.iter_mut().for_each(detach);
        self.0.commit(batches).await
    }

    async fn read(
        &self,
        journal: JournalId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<StoredLine>, StoreError> {
        let mut lines = self.0.read(journal.clone(), from, limit).await?;
        if self.attach(lines.iter_mut()).await.is_err() {
            // The journal may have been deleted before its files were read.
            lines = self.0.read(journal, from, limit).await?;
            self.attach(lines.iter_mut()).await?;
        }
        Ok(lines)
    }

    async fn read_all(
        &self,
        journals: Vec<JournalId>,
        limit: usize,
    ) -> Result<Vec<Result<Vec<StoredLine>, StoreError>>, StoreError> {
        let mut found = self.0.read_all(journals.clone(), limit).await?;
        for (journal, read) in journals.into_iter().zip(&mut found) {
            if let Ok(lines) = read
                && self.attach(lines.iter_mut()).await.is_err()
            {
                *read = StoreWrapper::read(self, journal, 0, limit).await;
            }
        }
        Ok(found)
    }

    async fn read_tree(
        &self,
        root: RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<TreeLine>, StoreError> {
        let mut lines = self.0.read_tree(root, after, limit).await?;
        let stored = lines.iter_mut().map(|line| &mut line.stored);
        if self.attach(stored).await.is_err() {
            lines = self.0.read_tree(root, after, limit).await?;
            let stored = lines.iter_mut().map(|line| &mut line.stored);
            self.attach(stored).await?;
        }
        Ok(lines)
    }

    async fn claim_all(
        &self,
        journals: Vec<JournalId>,
    ) -> Result<Vec<Result<Claim, StoreError>>, StoreError> {
        self.0.claim_all(journals).await
    }

    async fn mailbox(&self, mailbox: JournalId) -> Result<Vec<MailboxItem>, StoreError> {
        self.0.mailbox(mailbox).await
    }
}

/// Keeps the files in these messages beside a session, for its checkpoint: an earlier program left them in its entries.
pub(crate) async fn keep_files(
    store: &StoreHandle,
    session: &SessionId,
    messages: &[Arc<Message>],
) -> Result<(), StoreError> {
    let scope = artifact_scopes::session(session);
    let mut batch = Batch::default();
    for file in messages.iter().flat_map(|message| message.files()) {
        let Some(content) = file.bytes_apart() else {
            continue;
        };
        let hash = Digest::of(&content);
        let row = artifact_scopes::file_row(&scope, hash);
        let kept = store.state(row.scope.clone(), row.key.clone()).await?;
        if kept.value.is_none() {
            batch.writes.push(row);
            batch.blobs.push((hash, content.into()));
        }
    }
    if !batch.blobs.is_empty() {
        store.commit_one(batch).await?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{
        contract::{EntryError, InMemoryStore, Journals as _, Line, State as _},
        vocabulary::{Entry, SessionTurn, Timestamp},
    };

    fn session(key: &str) -> SessionId {
        SessionId {
            team: "t".into(),
            key: key.into(),
        }
    }

    /// The text as a store has it, and as it is read.
    async fn through(store: &InMemoryStore, key: &str, text: &str) -> (String, String) {
        let (handle, journal) = (StoreHandle::new(store.clone()), session(key));
        let line = Line {
            at: Timestamp(1),
            text: text.into(),
        };
        let append = Append::new(journal.clone(), 0, 1, vec![line]);
        handle.commit_one(Batch::of(append)).await.unwrap();
        let read = handle.read(journal.clone().into(), 0, 9).await.unwrap();
        let raw = store.read(journal.into(), 0, 9).await.unwrap();
        let text = |lines: &[StoredLine]| lines[0].line.text.to_string();
        assert_eq!(read[0].line.text.len(), text(&read).len());
        (text(&raw), text(&read))
    }

    #[tokio::test]
    async fn a_text_is_read_as_it_was_written_whatever_is_in_it() {
        let store = InMemoryStore::new();
        let file = BASE64.encode([5; 5_000]);
        let other = BASE64.encode([6; 4_001]);
        let texts = [
            format!(r#"{{"a":{{"base64":"{file}"}},"b":["ü",{{"base64":"{other}"}}]}}"#),
            format!(r#"{{"base64":"{file}","base64":"{file}"}}"#),
            // A key that ends like it, a text in a text, and text in which a file seems to begin.
            format!(r#"{{"\"base64":"{file}"}}"#),
            format!(r#"{{"x":"{{\"base64\":\"{file}\"}}"}}"#),
            format!(r#"{{"x":"\"base64","base64":"{file}"}}"#),
            // Base64 that has another form than ours.
            format!(r#"{{"base64":"{file}="}}"#),
            format!(r#"{{"base64":"{}"}}"#, file.replace('F', "\\u0046")),
            format!(r#"{{"base64":" {file}"}}"#),
            format!(r#"{{"base64":"{}B=="}}"#, "A".repeat(5_001)),
            format!(r#"{{"base64":"{}","x":{{"base64":""}}}}"#, &file[..4_096]),
            format!(r#"{{"base64": "{file}"}}"#),
        ];
        for (number, text) in texts.iter().enumerate() {
            let (raw, read) = through(&store, &number.to_string(), text).await;
            assert_eq!(read, *text);
            let is_apart = raw.len() < 1_000;
            assert_eq!(is_apart, matches!(number, 0..=2 | 4), "{number}: {raw}");
        }
        for bytes in [vec![5; 5_000], vec![6; 4_001]] {
            assert_eq!(
                store.blob(Digest::of(&bytes)).await.unwrap().unwrap()[..],
                bytes
            );
        }
    }

    #[tokio::test]
    async fn nobody_who_writes_an_entry_can_name_a_file_of_another() {
        let store = InMemoryStore::new();
        let secret = Digest::of(&[5; 5_000]);
        let file = BASE64.encode([5; 5_000]);
        through(&store, "a", &format!(r#"{{"base64":"{file}"}}"#)).await;
        let entry = r#"{"base64":""}"#;
        let forged = format!(
            r#"{{"detached":{{"files":[{{"at":11,"content":"{secret}"}}],"entry":{entry}}}}}"#
        );
        let (raw, read) = through(&store, "b", &forged).await;
        assert_ne!(raw, forged);
        assert_eq!(read, forged);
        // Put into this form once more, it is still a text.
        let (again, read) = through(&store, "c", &raw).await;
        assert_ne!(again, raw);
        assert_eq!(read, raw);
        let line = Line {
            at: Timestamp(1),
            text: forged.as_str().into(),
        };
        let refused = line.decode().unwrap_err();
        assert!(matches!(refused, EntryError::Damaged { .. }), "{refused}");
    }

    #[tokio::test]
    async fn a_file_that_is_missing_is_damage_and_no_empty_file() {
        let store = InMemoryStore::new();
        let said = Message::user("see").attach(Data::from_bytes("a", [5; 5_000]).unwrap());
        let turn = SessionTurn::new("t", RunId::from_random(1), said);
        let line = Line::encode(Timestamp(1), &Entry::TurnStarted(Box::new(turn))).unwrap();
        let mut batch = Batch::of(Append::new(session("a"), 0, 1, vec![line]));
        detach(&mut batch);
        batch.blobs.clear();
        store.commit(vec![batch]).await.unwrap().remove(0).unwrap();
        let handle = StoreHandle::new(store.clone());
        let read = handle.read(session("a").into(), 0, 9).await;
        assert!(
            matches!(&read, Err(StoreError::Damaged { reason, .. }) if reason.contains("missing")),
            "{read:?}"
        );
        let raw = store.read(session("a").into(), 0, 9).await.unwrap();
        let refused = raw[0].line.decode().unwrap_err();
        assert!(refused.to_string().contains("`StoreHandle`"), "{refused}");
        assert_eq!(raw[0].line.blob(), Ok(None));
    }
}
