//! Files in entries, which the store has once, beside them.

use std::sync::Arc;

use super::checking::{Checked, Found, Place, ensure, row, run, same, session};
use crate::{
    contract::{Append, Batch, DynDeletion, Line, RunStatus, StoreHandle, StoredLine},
    vocabulary::{Data, Digest, Entry, JournalId, Message, RunStart, SessionTurn, Timestamp},
};

const NOW: Timestamp = Timestamp(9_000);

/// A message with a file of this content, which is too long to stand in an entry.
fn said(content: &[u8]) -> Result<Message, Found> {
    let file = Data::from_bytes("file", content).map_err(|error| error.to_string())?;
    Ok(Message::user("see").attach(file))
}

fn parts(store: &StoreHandle) -> Result<&dyn DynDeletion, Found> {
    store.deletion().ok_or(Found::NoSuchPart)
}

/// The content of the file in the first entry of a journal.
async fn content(store: &StoreHandle, journal: JournalId) -> Result<Option<Vec<u8>>, Found> {
    let lines = store.read(journal.clone(), 0, 1).await?;
    let Some(first) = lines.first() else {
        return Ok(None);
    };
    let message = match first.decode(&journal)? {
        Entry::RunStarted(start) => start.input,
        Entry::TurnStarted(turn) => turn.message,
        other => return Err(format!("another entry: {other:?}").into()),
    };
    let bytes = message.files().next().and_then(Data::bytes);
    Ok(bytes.transpose()?)
}

/// Two runs and two sessions with files; run 2 and session b have the same one.
pub(super) async fn kept(place: &impl Place) -> Checked {
    let store = StoreHandle::new(place.open().await?);
    let [one, two, both] = [1, 2, 3].map(|byte| vec![byte; 200_000]);
    let definition: Arc<[u8]> = b"definition".as_slice().into();
    for (number, file) in [(1, &one), (2, &both)] {
        let hash = Digest::of(&definition);
        let start = RunStart::new(run(number), "t", "a", hash, said(file)?);
        let line = Line::encode(NOW, &Entry::RunStarted(Box::new(start)))?;
        let mut ended = row(number);
        ended.status = RunStatus::Answered;
        let mut batch = Batch::of(Append::new(run(number), 0, 1, vec![line]).row(ended));
        batch.blobs.push((hash, definition.clone()));
        store.commit_one(batch).await?;
    }
    for (key, file) in [("a", &two), ("b", &both)] {
        let turn = SessionTurn::new("1", run(9), said(file)?);
        let line = Line::encode(NOW, &Entry::TurnStarted(Box::new(turn)))?;
        let append = Append::new(session(key), 0, 1, vec![line.clone(), line]);
        store.commit_one(Batch::of(append)).await?;
    }
    let text = |line: &StoredLine| line.line.text.to_string();
    let lines = store.read(session("a").into(), 0, 9).await?;
    same!(lines.len(), 2, "entries of a session");
    same!(text(&lines[0]), text(&lines[1]), "entries with a file");
    let files = [&one, &two, &both].map(|content| Digest::of(content));
    let there = async || {
        let mut there = Vec::new();
        for hash in [files[0], files[1], files[2], Digest::of(&definition)] {
            there.push(store.blob(hash).await?.is_some());
        }
        Ok::<_, Found>(there)
    };
    same!(there().await?, [true; 4], "the blobs of files");
    for (journal, wanted) in [
        (run(1).into(), &one),
        (run(2).into(), &both),
        (session("a").into(), &two),
        (session("b").into(), &both),
    ] {
        let found = content(&store, journal).await?;
        ensure!(found.as_ref() == Some(wanted), "a file is another one");
    }
    let tree = store.read_tree(run(2), 0, 9).await?;
    same!(tree.len(), 1, "entries of a tree");
    tree[0].stored.decode(&run(2).into())?;

    same!(parts(&store)?.drop_blobs().await?, 0, "blobs dropped");
    parts(&store)?.delete_tree(run(1), NOW, 100).await?;
    same!(
        parts(&store)?.drop_blobs().await?,
        1,
        "files dropped with a tree"
    );
    same!(there().await?, [false, true, true, true], "blobs left");
    parts(&store)?.delete_session(session("b"), 100).await?;
    same!(
        parts(&store)?.drop_blobs().await?,
        0,
        "files of a tree dropped"
    );
    let found = content(&store, run(2).into()).await?;
    ensure!(found.as_ref() == Some(&both), "the file of a tree is gone");
    parts(&store)?.delete_tree(run(2), NOW, 100).await?;
    same!(
        parts(&store)?.drop_blobs().await?,
        2,
        "blobs dropped at last"
    );
    same!(
        there().await?,
        [false, true, false, false],
        "blobs left at last"
    );
    let found = content(&store, session("a").into()).await?;
    ensure!(
        found.as_ref() == Some(&two),
        "the file of a session is gone"
    );
    Ok(())
}
