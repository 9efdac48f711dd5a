//! The store around each store that keeps files beside the entries that hold them.

use std::{
    collections::{BTreeMap, HashMap, hash_map},
    sync::Arc,
};

use super::{
    Append, Batch, Claim, Committed, DynStore, LineText, MailboxItem, StoreError, StoreWrapper,
    StoredLine, TreeLine, artifact_scopes,
    detached::{Attached, Detached, File, FileAt},
};
use crate::vocabulary::{Digest, JournalId, RunId};

/// Takes the files out of the entries of a batch. Their contents become blobs of it, to which a row of the session or of
/// the tree refers.
pub(super) fn detach(batch: &mut Batch) {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

    use super::*;
    use crate::{
        contract::{EntryError, InMemoryStore, Line, StoreHandle},
        vocabulary::{Data, Entry, Message, SessionId, SessionTurn, Timestamp},
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
        for bytes in [vec![5_u8; 5_000], vec![6; 4_001]] {
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
