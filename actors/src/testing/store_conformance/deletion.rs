//! Deletion: ended trees and sessions go, and nothing else does.

use std::sync::Arc;

use super::checking::{
    Checked, Found, Place, appending, commit, deletion, ensure, item, lines, making, refused, row,
    run, same, session, texts,
};
use crate::{
    contract::{
        Append, Batch, Expected, Expiry, Index, Journals, Line, Mailboxes, RunRow, RunStatus,
        State, StateWrite, Store, StoreError, artifact_scopes,
    },
    run::operations::artifact_writes,
    vocabulary::{ArtifactInfo, Digest, Entry, Message, RunStart, Timestamp},
};

/// The time of the deletions.
const NOW: Timestamp = Timestamp(9_000);

/// A run of a tree, with this status.
fn of_tree(number: u8, root: u8, status: RunStatus) -> RunRow {
    let mut row = row(number);
    (row.root, row.status) = (run(root), status);
    row.parent = (number != root).then(|| run(root));
    row
}

/// A tree of the ended runs 1 and 2, the ended run 3, and the open run 4. Their entries are interleaved.
async fn plant(store: &impl Store) -> Checked {
    use RunStatus::{Answered, Failed, Running};
    for (number, root, status) in [
        (1, 1, Answered),
        (2, 1, Failed),
        (3, 3, Answered),
        (4, 4, Running),
    ] {
        commit(store, making(of_tree(number, root, status), &["a", "b"])).await?;
    }
    for sequence in 2..5 {
        for number in 1..=4 {
            commit(store, appending(number, sequence, &["c"])).await?;
        }
    }
    let mut both = appending(1, 5, &["d"]);
    both.appends.extend(appending(4, 5, &["d", "e"]).appends);
    for scope in [run(1), run(4)] {
        both.writes.push(StateWrite {
            scope: format!("run:{scope}"),
            key: "k".to_owned(),
            value: serde_json::value::to_raw_value(&1).ok(),
            expected: Expected::Any,
        });
    }
    commit(store, both).await?;
    for number in [1, 2, 4] {
        let item = item("i", 1);
        store.post(run(number).into(), item).await?;
    }
    Ok(())
}

pub(super) async fn marks(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let note = |id: &str| item(id, 1);
    let open = of_tree(9, 9, RunStatus::Running);
    commit(&store, making(open, &["a"])).await?;
    for number in 1..=3 {
        let ended = of_tree(number, number, RunStatus::Answered);
        commit(&store, making(ended, &["a"])).await?;
        for id in ["x", "y", "z"] {
            store.post(run(number).into(), note(id)).await?;
        }
        let (mark, _) = store.posted(0).await?;
        while deletion(&store)?
            .delete_tree(run(number), NOW, 100)
            .await?
            .more
        {}
        same!(store.posted(mark).await?.1, [], "what a deletion tells");
        let id = format!("after {number}");
        store.post(run(9).into(), note(&id)).await?;
        same!(
            store.posted(mark).await?.1,
            [run(9).into()],
            "what is told of an item that came after a deletion"
        );
    }
    Ok(())
}

/// Runs 1, 2 and 3 are one run in three journals, of which the last has ended.
pub(super) async fn going_on(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let closed_at = Timestamp(100);
    for number in 1..=3 {
        let mut journal = of_tree(number, number, RunStatus::Continued);
        journal.updated_at = closed_at;
        journal.first = (number > 1).then(|| run(1));
        if number == 3 {
            journal.status = RunStatus::Answered;
        }
        commit(&store, making(journal.clone(), &["a"])).await?;
        same!(
            store.run(run(number)).await?,
            Some(journal),
            "the row of a run that went on"
        );
        store.post(run(number).into(), item("own", 1)).await?;
    }
    for (id, at) in [("early", 1), ("waiting", 1), ("late", 100)] {
        store.post(run(1).into(), item(id, at)).await?;
    }
    let mut batch = appending(3, 1, &["b"]);
    batch.taken = ["early", "late"]
        .map(|id| (run(1).into(), id.to_owned()))
        .into();
    commit(&store, batch).await?;
    while deletion(&store)?.delete_tree(run(1), NOW, 100).await?.more {}
    while deletion(&store)?.delete_tree(run(2), NOW, 100).await?.more {}
    same!(
        store.mailbox(run(1).into()).await?,
        [item("own", 1), item("waiting", 1)],
        "the mailbox of the run that went on"
    );
    same!(
        store.mailbox(run(2).into()).await?,
        [],
        "the mailbox of a journal that is deleted"
    );
    ensure!(
        !store.post(run(1).into(), item("late", 100)).await?,
        "an item that was taken in the journal that is left counted again"
    );
    ensure!(
        store.post(run(1).into(), item("early", 1)).await?,
        "the id of an item from a journal that is deleted is kept for ever"
    );
    while deletion(&store)?.delete_tree(run(3), NOW, 100).await?.more {}
    for number in [1, 3] {
        same!(
            store.mailbox(run(number).into()).await?,
            [],
            "the mailbox of a run that has ended"
        );
    }
    Ok(())
}

const WHOLE: [&str; 6] = ["a", "b", "c", "c", "c", "d"];

pub(super) async fn whole_trees(place: &impl Place) -> Checked {
    let store = place.open().await?;
    plant(&store).await?;
    let mut calls = 0;
    let (mut runs, mut entries) = (0, 0);
    loop {
        let deleted = deletion(&store)?.delete_tree(run(1), NOW, 2).await?;
        (runs, entries) = (runs + deleted.runs, entries + deleted.entries);
        for number in [1, 2] {
            same!(
                texts(&store, run(number)).await?.len(),
                0,
                "entries that can still be read"
            );
        }
        calls += 1;
        ensure!(calls < 100, "deleting a small tree does not end");
        if !deleted.more {
            break;
        }
    }
    same!((runs, entries), (2, 11), "what was deleted");
    drop_is_seen(&store).await?;
    place.crash(store).await;
    let store = place.open().await?;
    drop_is_seen(&store).await?;
    // The remaining run goes on.
    let claim = store.claim(run(4).into(), false).await?;
    same!(claim.entries, 7, "entries of the run beside it");
    let append = Append::new(run(4), 7, claim.epoch, lines(&["f"]));
    commit(&store, Batch::of(append)).await?;
    same!(texts(&store, run(4)).await?.len(), 8, "entries after that");
    same!(
        deletion(&store)?.delete_tree(run(1), NOW, 2).await?,
        Default::default(),
        "deleting it twice"
    );
    Ok(())
}

/// Checks that runs 1 and 2 are gone, and no others.
async fn drop_is_seen(store: &impl Store) -> Checked {
    for number in [1, 2] {
        let gone = run(number);
        same!(store.run(gone).await?, None, "the row of a deleted run");
        same!(
            texts(store, gone).await?.len(),
            0,
            "entries of a deleted run"
        );
        same!(
            store.mailbox(gone.into()).await?,
            vec![],
            "the mailbox of a deleted run"
        );
        same!(
            deletion(store)?.deleted(gone).await?,
            Some(NOW),
            "when it was deleted"
        );
    }
    same!(
        store.read_tree(run(1), 0, 100).await?,
        vec![],
        "a deleted tree"
    );
    same!(
        store.scope(format!("run:{}", run(1))).await?,
        vec![],
        "its memory"
    );
    same!(
        texts(store, run(3)).await?,
        WHOLE[..5],
        "the ended run beside it"
    );
    let open = texts(store, run(4)).await?;
    same!(open[..6], WHOLE, "the open run beside it");
    same!(store.read_tree(run(4), 0, 100).await?.len(), 7, "its tree");
    same!(store.mailbox(run(4).into()).await?.len(), 1, "its mailbox");
    same!(
        store.scope(format!("run:{}", run(4))).await?.len(),
        1,
        "its memory"
    );
    let left: Vec<_> = store.runs(Default::default()).await?;
    let left: Vec<_> = left.iter().map(|row| row.run).collect();
    same!(left, [run(4), run(3)], "the runs that are left");
    for number in [3, 4, 9] {
        same!(
            deletion(store)?.deleted(run(number)).await?,
            None,
            "a run that was not deleted"
        );
    }
    Ok(())
}

pub(super) async fn open_trees(place: &impl Place) -> Checked {
    use RunStatus::{Answered, Cancelling, Parked, Running, Waiting};
    let store = place.open().await?;
    for (at, status) in [Running, Waiting, Parked, Cancelling]
        .into_iter()
        .enumerate()
    {
        let (root, below) = (10 + 2 * at as u8, 11 + 2 * at as u8);
        commit(&store, making(of_tree(root, root, Answered), &["a"])).await?;
        commit(&store, making(of_tree(below, root, status), &["a"])).await?;
        refused!(
            deletion(&store)?.delete_tree(run(root), NOW, 100).await,
            StoreError::Open { run: open } if *open == run(below),
            format!("deleting a tree with a run that is {status}")
        );
        same!(
            texts(&store, run(root)).await?.len(),
            1,
            "entries of a refused tree"
        );
        same!(
            store.runs(Default::default()).await?.len(),
            2 * (at + 1),
            "runs"
        );
    }
    same!(
        deletion(&store)?.expired(Expiry::default()).await?,
        vec![],
        "trees that may go"
    );
    Ok(())
}

pub(super) async fn expired(place: &impl Place) -> Checked {
    use RunStatus::{Answered, Cancelled, Continued, Failed, Running, Stopped};
    let store = place.open().await?;
    let ends = [
        (1, 1, Answered, 50),
        (2, 2, Stopped, 20),
        (3, 3, Failed, 40),
        (4, 4, Cancelled, 30),
        (5, 5, Continued, 10),
        // Open roots, runs below a root, and roots above an open run are not listed.
        (6, 6, Running, 1),
        (7, 1, Answered, 2),
        (8, 8, Answered, 3),
        (9, 8, Running, 4),
    ];
    for (number, root, status, ended) in ends {
        let mut row = of_tree(number, root, status);
        row.updated_at = Timestamp(ended);
        commit(&store, making(row, &["a"])).await?;
    }
    let of = |before: Option<u64>, keep: usize, limit: usize| Expiry {
        ended_before: before.map(Timestamp),
        keep,
        limit,
    };
    let cases: [(Expiry, &[u8]); 7] = [
        (of(None, 0, 0), &[5, 2, 4, 3, 1]),
        (of(Some(40), 0, 0), &[5, 2, 4]),
        (of(None, 2, 0), &[5, 2, 4]),
        (of(Some(20), 2, 0), &[5]),
        (of(Some(60), 4, 0), &[5]),
        (of(None, 9, 0), &[]),
        (of(None, 1, 2), &[5, 2]),
    ];
    for (expiry, wanted) in cases {
        let found = deletion(&store)?.expired(expiry).await?;
        let found: Vec<_> = found.iter().map(|row| row.run).collect();
        let wanted: Vec<_> = wanted.iter().map(|number| run(*number)).collect();
        same!(found, wanted, format!("trees that may go by {expiry:?}"));
    }
    Ok(())
}

pub(super) async fn blobs(place: &impl Place) -> Checked {
    let store = place.open().await?;
    // Runs 1 and 2 share a definition. Run 3 has its own, and so has run 4, whose agent was made by run 2.
    for (number, root, definition) in [
        (1, 1, "shared"),
        (2, 2, "shared"),
        (3, 3, "own"),
        (4, 2, "made"),
    ] {
        let bytes: Arc<[u8]> = definition.as_bytes().into();
        let digest = Digest::of(&bytes);
        let start = RunStart::new(run(number), "t", "a", digest, Message::user("go"));
        let line = Line::encode(Timestamp(1), &Entry::RunStarted(Box::new(start)))?;
        let row = of_tree(number, root, RunStatus::Answered);
        let mut batch = Batch::of(Append::new(run(number), 0, 1, vec![line]).row(row));
        batch.blobs.push((digest, bytes));
        commit(&store, batch).await?;
    }
    let left = async || {
        let there = async |text: &str| store.blob(Digest::of(text.as_bytes())).await;
        Ok::<_, Found>((
            there("shared").await?.is_some(),
            there("own").await?.is_some(),
            there("made").await?.is_some(),
        ))
    };
    for (delete, dropped, wanted) in [
        (None, 0, (true, true, true)),
        (Some(1), 0, (true, true, true)),
        (Some(3), 1, (true, false, true)),
        (Some(2), 2, (false, false, false)),
    ] {
        if let Some(number) = delete {
            deletion(&store)?.delete_tree(run(number), NOW, 100).await?;
        }
        same!(
            deletion(&store)?.drop_blobs().await?,
            dropped,
            "blobs that were dropped"
        );
        same!(left().await?, wanted, "blobs that are left");
    }
    Ok(())
}

pub(super) async fn artifacts(place: &impl Place) -> Checked {
    let store = place.open().await?;
    commit(&store, making(of_tree(1, 1, RunStatus::Answered), &["a"])).await?;
    let save = async |scope: &str, version: u64, text: &str| {
        let info = ArtifactInfo::of("n", version, "text/plain", text.as_bytes(), NOW);
        let batch = Batch {
            writes: artifact_writes(scope, &info, Expected::Any),
            blobs: vec![(info.content, text.as_bytes().into())],
            ..Batch::default()
        };
        commit(&store, batch).await
    };
    let tree = format!("run:{}", run(1));
    save("session:t/s", 1, "first").await?;
    save("session:t/s", 2, "second").await?;
    save("session:t/s", 3, "first").await?;
    save(&tree, 1, "of a tree").await?;
    save(&tree, 2, "second").await?;
    let there = async |text: &str| store.blob(Digest::of(text.as_bytes())).await;
    same!(
        deletion(&store)?.drop_blobs().await?,
        0,
        "blobs dropped that artifacts refer to"
    );
    deletion(&store)?.delete_tree(run(1), NOW, 100).await?;
    for scope in artifact_scopes::of_tree(run(1)) {
        same!(
            store.scope(scope).await?,
            vec![],
            "artifacts of a deleted tree"
        );
    }
    same!(
        deletion(&store)?.drop_blobs().await?,
        1,
        "blobs dropped with a tree's artifacts"
    );
    same!(
        there("of a tree").await?,
        None,
        "the content of a deleted artifact"
    );
    for text in ["first", "second"] {
        ensure!(there(text).await?.is_some(), "the content {text:?} is gone");
    }
    let versions = store
        .scope(artifact_scopes::versions("session:t/s"))
        .await?;
    same!(versions.len(), 3, "versions of the other artifact");
    Ok(())
}

/// Entries for a session's journal that this process makes.
fn in_session(key: &str, texts: &[&str]) -> Batch {
    Batch::of(Append::new(session(key), 0, 1, lines(texts)))
}

pub(super) async fn sessions(place: &impl Place) -> Checked {
    let store = place.open().await?;
    // One commit has entries of both sessions and of a run.
    let mut both = in_session("a", &["a", "b", "c"]);
    both.appends.extend(in_session("ab", &["d", "e"]).appends);
    let mut ended = of_tree(1, 1, RunStatus::Answered);
    ended.session = Some(session("a"));
    both.appends.extend(making(ended, &["f"]).appends);
    for key in ["a", "ab"] {
        let content = format!("of {key}");
        let info = ArtifactInfo::of("n", 1, "text/plain", content.as_bytes(), NOW);
        let scope = format!("session:{}", session(key));
        both.writes
            .extend(artifact_writes(&scope, &info, Expected::Any));
        both.writes
            .push(artifact_scopes::file_row(&scope, info.content));
        both.writes.push(StateWrite {
            scope,
            key: "k".to_owned(),
            value: serde_json::value::to_raw_value(&1).ok(),
            expected: Expected::Any,
        });
        both.blobs.push((info.content, content.as_bytes().into()));
    }
    commit(&store, both).await?;
    for key in ["a", "ab"] {
        let kept = Some(key.as_bytes().to_vec());
        store.put_checkpoint(session(key), kept).await?;
    }
    for key in ["a", "ab"] {
        let item = item("i", 1);
        store.post(session(key).into(), item).await?;
    }
    let mut entries = 0;
    loop {
        let deleted = deletion(&store)?.delete_session(session("a"), 2).await?;
        entries += deleted.entries;
        session_is_gone(&store).await?;
        if !deleted.more {
            break;
        }
    }
    same!(entries, 3, "entries that were deleted");
    place.crash(store).await;
    let store = place.open().await?;
    session_is_gone(&store).await?;
    let again = deletion(&store)?.delete_session(session("a"), 2).await?;
    same!(again, Default::default(), "deleting it twice");
    same!(
        store.mailbox(session("ab").into()).await?.len(),
        1,
        "the mailbox beside it"
    );
    // The key is free for another session, which can be deleted as well.
    for text in ["g", "h"] {
        commit(&store, in_session("a", &[text])).await?;
        same!(
            texts(&store, session("a")).await?,
            [text],
            "the session that has its key"
        );
        while deletion(&store)?
            .delete_session(session("a"), 1)
            .await?
            .more
        {}
        session_is_gone(&store).await?;
    }
    Ok(())
}

/// Checks that the session `a` is gone, and no other.
async fn session_is_gone(store: &impl Store) -> Checked {
    same!(
        texts(store, session("a")).await?.len(),
        0,
        "entries of a deleted session"
    );
    let listed = store.sessions(Default::default()).await?;
    let listed: Vec<_> = listed.into_iter().map(|row| row.session).collect();
    same!(listed, [session("ab")], "sessions that are listed");
    same!(
        store.checkpoint(session("a")).await?,
        None,
        "the checkpoint of a deleted session"
    );
    for scope in artifact_scopes::of_session(&session("a")) {
        same!(store.scope(scope).await?.len(), 0, "its state");
    }
    same!(
        store.mailbox(session("a").into()).await?,
        [],
        "the mailbox of a deleted session"
    );
    same!(
        texts(store, session("ab")).await?,
        ["d", "e"],
        "the session beside it"
    );
    for scope in artifact_scopes::of_session(&session("ab")) {
        same!(store.scope(scope).await?.len(), 1, "the state beside it");
    }
    ensure!(
        store.checkpoint(session("ab")).await?.is_some(),
        "the checkpoint beside it is gone"
    );
    same!(texts(store, run(1)).await?, ["f"], "its run, which stays");
    Ok(())
}

pub(super) async fn open_sessions(place: &impl Place) -> Checked {
    use RunStatus::{Answered, Parked};
    let store = place.open().await?;
    let mut batch = in_session("a", &["a"]);
    let mut row = of_tree(1, 1, Parked);
    row.session = Some(session("a"));
    batch.appends.extend(making(row.clone(), &["b"]).appends);
    commit(&store, batch).await?;
    refused!(
        deletion(&store)?.delete_session(session("a"), 100).await,
        StoreError::Open { run: open } if *open == run(1),
        "deleting a session with a run that is parked"
    );
    row.status = Answered;
    let end = Append::new(run(1), 1, 1, lines(&["c"])).row(row);
    commit(&store, Batch::of(end)).await?;
    let other = place.open().await?;
    refused!(
        deletion(&other)?.delete_session(session("a"), 100).await,
        StoreError::Owned { .. },
        "deleting a session that another process owns"
    );
    same!(
        texts(&other, session("a")).await?,
        ["a"],
        "entries of a session that was not deleted"
    );
    place.crash(store).await;
    let deleted = deletion(&other)?.delete_session(session("a"), 100).await?;
    same!(deleted.entries, 1, "entries of a session whose owner died");
    Ok(())
}
