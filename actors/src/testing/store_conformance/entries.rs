//! Entries: batches, sequence numbers, positions.

use std::sync::Arc;

use futures_util::future;

use super::checking::{
    Checked, Found, Place, appending, claim, commit, decoded, ensure, item, lines, making, read,
    refused, row, run, same, session, texts,
};
use crate::{
    contract::{
        Append, Batch, Expected, Index, Journals, Line, Mailboxes, State, StateSlot, StateWrite,
        Store, StoreError,
    },
    vocabulary::{Digest, JournalId, Timestamp},
};

pub(super) async fn unknown_is_empty(place: &impl Place) -> Checked {
    let store = place.open().await?;
    same!(texts(&store, run(1)).await?, [""; 0], "a run's journal");
    same!(
        texts(&store, session("s")).await?,
        [""; 0],
        "a session's journal"
    );
    same!(store.read_tree(run(1), 0, 10).await?, [], "a tree");
    same!(store.run(run(1)).await?, None, "a row");
    same!(store.runs(Default::default()).await?, [], "the runs");
    let value = store.state("scope".to_owned(), "key".to_owned()).await?;
    same!(value, StateSlot::default(), "a value");
    same!(store.scope("scope".to_owned()).await?, [], "a scope");
    same!(store.blob(Digest::of(b"none")).await?, None, "a blob");
    same!(store.mailbox(run(1).into()).await?, [], "a mailbox");
    same!(store.posted(0).await?, (0, vec![]), "the marks");
    same!(store.checkpoint(session("s")).await?, None, "a checkpoint");
    Ok(())
}

pub(super) async fn read_as_committed(place: &impl Place) -> Checked {
    let store = place.open().await?;
    commit(&store, making(row(1), &["a", "b"])).await?;
    commit(&store, appending(1, 2, &["c", "d", "e"])).await?;
    let all = read(&store, run(1)).await?;
    let wanted: Vec<Line> = [lines(&["a", "b"]), lines(&["c", "d", "e"])].concat();
    let found: Vec<Line> = all.iter().map(|stored| stored.line.clone()).collect();
    same!(found, wanted, "the entries");
    for from in 0..=6 {
        for limit in 0..=6 {
            let found = store.read(run(1).into(), from as u64, limit).await?;
            let wanted: Vec<_> = all.iter().skip(from).take(limit).cloned().collect();
            same!(found, wanted, format!("{limit} entries from {from} on"));
        }
    }
    let beyond = store.read(run(1).into(), u64::MAX, 1).await?;
    same!(beyond, [], "entries beyond the end");
    Ok(())
}

pub(super) async fn any_text(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let long = "ß".repeat(1 << 20);
    let odd = [
        "",
        "naïve 漢字 👩‍👩‍👧 \u{202e}",
        "\u{0}\r\n\"\\'; DROP TABLE entries",
        &long,
    ];
    commit(&store, making(row(1), &odd)).await?;
    same!(texts(&store, run(1)).await?, odd, "the texts of a run");

    // The key of a session's journal may be any text.
    for key in ["ключ/с/чертой", "", "a' --", "a\u{0}b", "a"] {
        let epoch = claim(&store, session(key)).await?.epoch;
        let append = Append::new(session(key), 0, epoch, lines(&[key]));
        commit(&store, Batch::of(append)).await?;
        same!(
            texts(&store, session(key)).await?,
            [key],
            format!("session {key:?}")
        );
    }
    let last = Line {
        at: Timestamp(i64::MAX as u64),
        text: "null".into(),
    };
    let append = Append::new(run(1), odd.len() as u64, 1, vec![last.clone()]);
    commit(&store, Batch::of(append)).await?;
    let found = store.read(run(1).into(), odd.len() as u64, 1).await?;
    same!(
        found.first().map(|l| &l.line),
        Some(&last),
        "the latest time"
    );
    Ok(())
}

/// A batch of everything whose last append is refused.
fn doomed() -> Batch {
    let mut batch = Batch::of(Append::new(run(1), 1, 1, lines(&["no"])).row({
        let mut changed = row(1);
        changed.title = "changed".to_owned();
        changed
    }));
    batch
        .appends
        .push(Append::new(run(3), 0, 1, lines(&["no"])).row(row(3)));
    batch
        .appends
        .push(Append::new(run(2), 7, 1, lines(&["no"])));
    batch.writes.push(StateWrite {
        scope: "scope".to_owned(),
        key: "key".to_owned(),
        value: serde_json::value::to_raw_value("no").ok(),
        expected: Expected::Any,
    });
    batch.blobs.push((Digest::of(b"no"), Arc::from(*b"no")));
    batch.taken.push((run(1).into(), "item".to_owned()));
    batch
}

pub(super) async fn batch_is_atomic(place: &impl Place) -> Checked {
    let store = place.open().await?;
    commit(&store, making(row(1), &["a"])).await?;
    commit(&store, making(row(2), &["b"])).await?;
    let item = item("item", 1);
    store.post(run(1).into(), item.clone()).await?;

    refused!(
        commit(&store, doomed()).await,
        StoreError::Sequence {
            expected: 7,
            have: 1,
            ..
        },
        "the batch"
    );
    same!(texts(&store, run(1)).await?, ["a"], "the first journal");
    same!(texts(&store, run(2)).await?, ["b"], "the second journal");
    same!(
        texts(&store, run(3)).await?,
        [""; 0],
        "the journal to be made"
    );
    same!(store.run(run(3)).await?, None, "its row");
    same!(store.run(run(1)).await?, Some(row(1)), "the first row");
    same!(store.read_tree(run(3), 0, 9).await?, [], "its tree");
    let value = store.state("scope".to_owned(), "key".to_owned()).await?;
    same!(value, StateSlot::default(), "the value");
    same!(store.blob(Digest::of(b"no")).await?, None, "the blob");
    same!(store.mailbox(run(1).into()).await?, [item], "the mailbox");
    // A run that was not made has no owner.
    let other = place.open().await?;
    same!(
        claim(&other, run(3)).await?.epoch,
        1,
        "the epoch of a first claim"
    );

    let mut batch = appending(1, 1, &["c"]);
    batch.appends.push(Append::new(run(2), 1, 1, lines(&["d"])));
    // Two appends to one journal follow each other.
    batch.appends.push(Append::new(run(1), 2, 1, lines(&["e"])));
    commit(&store, batch).await?;
    same!(
        texts(&store, run(1)).await?,
        ["a", "c", "e"],
        "the first journal"
    );
    same!(
        texts(&store, run(2)).await?,
        ["b", "d"],
        "the second journal"
    );
    Ok(())
}

pub(super) async fn wrong_sequence(place: &impl Place) -> Checked {
    let store = place.open().await?;
    commit(&store, making(row(1), &["a", "b"])).await?;
    for wrong in [0, 1, 3, u64::MAX] {
        refused!(
            commit(&store, appending(1, wrong, &["x"])).await,
            StoreError::Sequence { journal, expected, have: 2 }
                if *journal == run(1).into() && *expected == wrong,
            format!("an append at {wrong}")
        );
    }
    same!(texts(&store, run(1)).await?, ["a", "b"], "the journal");
    // A refusal must not spoil what the store remembers of the journal.
    commit(&store, appending(1, 2, &["c"])).await?;
    same!(texts(&store, run(1)).await?, ["a", "b", "c"], "the journal");
    Ok(())
}

pub(super) async fn refusal_is_contained(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let told = store
        .commit(vec![
            making(row(1), &["a"]),
            appending(1, 5, &["x"]),
            appending(1, 1, &["b"]),
            doomed(),
            making(row(2), &["c"]),
            appending(1, 2, &["d"]),
        ])
        .await?;
    let kept: Vec<bool> = told.iter().map(Result::is_ok).collect();
    same!(
        kept,
        [true, false, true, false, true, true],
        "what was kept"
    );
    same!(
        texts(&store, run(1)).await?,
        ["a", "b", "d"],
        "the first journal"
    );
    same!(texts(&store, run(2)).await?, ["c"], "the second journal");
    same!(
        store.commit(vec![]).await?.len(),
        0,
        "answers to no batches"
    );
    Ok(())
}

pub(super) async fn positions(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let mut wide = making(row(1), &["a", "b"]);
    wide.appends
        .push(Append::new(run(2), 0, 1, lines(&["c"])).row(row(2)));
    let told = store
        .commit(vec![wide, appending(1, 9, &["x"]), appending(2, 1, &["d"])])
        .await?;
    let first = told[0].clone()?.position;
    ensure!(first > 0, "position 0 cannot be read after anything");
    same!(
        told[2].clone()?.position,
        first + 3,
        "the third batch's position"
    );
    let next = commit(&store, appending(1, 2, &["e"])).await?;
    same!(next.position, first + 4, "the next commit's position");

    let of = async |number| {
        let found = read(&store, run(number)).await?;
        Ok::<_, Found>(found.iter().map(|l| l.position - first).collect::<Vec<_>>())
    };
    same!(of(1).await?, [0, 1, 4], "positions in the first journal");
    same!(of(2).await?, [2, 3], "positions in the second journal");
    Ok(())
}

pub(super) async fn tree_order(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let child = |number| {
        let mut child = row(number);
        child.root = run(1);
        child.parent = Some(run(1));
        child
    };
    commit(&store, making(row(1), &["a"])).await?;
    commit(&store, making(row(9), &["other tree"])).await?;
    let mut batch = appending(1, 1, &["b"]);
    batch
        .appends
        .push(Append::new(run(2), 0, 1, lines(&["c"])).row(child(2)));
    batch
        .appends
        .push(Append::new(run(3), 0, 1, lines(&["d"])).row(child(3)));
    commit(&store, batch).await?;
    commit(&store, appending(9, 1, &["other tree"])).await?;
    commit(&store, appending(2, 1, &["e", "f"])).await?;
    commit(&store, appending(1, 2, &["g"])).await?;
    // A run that was claimed before it was made belongs to the tree in its row.
    let epoch = claim(&store, run(4)).await?.epoch;
    let append = Append::new(run(4), 0, epoch, lines(&["h"])).row(child(4));
    commit(&store, Batch::of(append)).await?;
    let append = Append::new(run(4), 1, epoch, lines(&["i"]));
    commit(&store, Batch::of(append)).await?;

    let all = store.read_tree(run(1), 0, usize::MAX).await?;
    let found: Result<Vec<_>, _> = all.iter().map(|l| decoded(&l.stored.line)).collect();
    same!(
        found?,
        ["a", "b", "c", "d", "e", "f", "g", "h", "i"],
        "the tree"
    );
    let runs: Vec<_> = all.iter().map(|line| line.run).collect();
    same!(
        runs,
        [1, 1, 2, 3, 2, 2, 1, 4, 4].map(run),
        "the runs of the tree"
    );
    let rising = all.is_sorted_by(|a, b| a.stored.position < b.stored.position);
    ensure!(rising, "positions do not rise: {all:?}");
    let of_child = all.iter().filter(|l| l.run == run(2));
    let of_child: Vec<_> = of_child.map(|l| l.stored.clone()).collect();
    same!(of_child, read(&store, run(2)).await?, "a child's entries");
    for start in 0..all.len() {
        let after = all[start].stored.position;
        let page = store.read_tree(run(1), after, 3).await?;
        let wanted: Vec<_> = all.iter().skip(start + 1).take(3).cloned().collect();
        same!(page, wanted, format!("3 entries after position {after}"));
    }
    // A child is no root, so it has no tree.
    same!(store.read_tree(run(2), 0, 9).await?, [], "a child's tree");
    Ok(())
}

pub(super) async fn read_together(place: &impl Place) -> Checked {
    let store = place.open().await?;
    commit(&store, making(row(1), &["a", "b", "c"])).await?;
    commit(&store, making(row(2), &["d"])).await?;
    let epoch = claim(&store, session("s")).await?.epoch;
    let append = Append::new(session("s"), 0, epoch, lines(&["e", "f"]));
    commit(&store, Batch::of(append)).await?;
    let journals: Vec<JournalId> = vec![
        run(2).into(),
        run(9).into(),
        session("s").into(),
        run(1).into(),
    ];
    for limit in [0, 1, 2, usize::MAX] {
        let together = store.read_all(journals.clone(), limit).await?;
        same!(together.len(), journals.len(), "how many were answered");
        for (found, journal) in together.into_iter().zip(&journals) {
            let alone = store.read(journal.clone(), 0, limit).await?;
            same!(
                found?,
                alone,
                format!("{journal:?}, at most {limit} entries")
            );
        }
    }
    Ok(())
}

pub(super) async fn large_batch(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let many: Vec<String> = (0..5_000)
        .map(|n| format!("{n} {}", "x".repeat(200)))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    commit(&store, making(row(1), &many)).await?;
    let mut wide = Batch::default();
    for number in 2..=255 {
        let append = Append::new(run(number), 0, 1, lines(&["a"]));
        wide.appends.push(append.row(row(number)));
    }
    let large: Arc<[u8]> = (0..1 << 20)
        .map(|n: u32| n as u8 ^ (n >> 8) as u8)
        .collect();
    wide.blobs.push((Digest::of(&large), large.clone()));
    commit(&store, wide).await?;
    ensure!(
        texts(&store, run(1)).await? == many,
        "the entries came back changed"
    );
    for number in 2..=255 {
        same!(
            texts(&store, run(number)).await?,
            ["a"],
            format!("run {number}")
        );
    }
    let found = store.blob(Digest::of(&large)).await?;
    ensure!(found == Some(large), "the blob came back changed");
    Ok(())
}

pub(super) async fn concurrent_commits(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let writers = (1..=32).map(async |number| {
        commit(&store, making(row(number), &["0"])).await?;
        for sequence in 1..20 {
            let text = sequence.to_string();
            commit(&store, appending(number, sequence, &[&text])).await?;
        }
        Ok::<_, Found>(())
    });
    future::try_join_all(writers).await?;
    let wanted: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    for number in 1..=32 {
        same!(
            texts(&store, run(number)).await?,
            wanted,
            format!("run {number}")
        );
    }
    Ok(())
}

pub(super) async fn outlives_the_process(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let mut batch = making(row(1), &["a", "b"]);
    batch.writes.push(StateWrite {
        scope: "scope".to_owned(),
        key: "key".to_owned(),
        value: serde_json::value::to_raw_value(&[1, 2]).ok(),
        expected: Expected::Absent,
    });
    batch.blobs.push((Digest::of(b"blob"), Arc::from(*b"blob")));
    let position = commit(&store, batch).await?.position;
    store.post(run(1).into(), item("left", 5)).await?;
    store.post(run(1).into(), item("taken", 5)).await?;
    let mut batch = appending(1, 2, &["c"]);
    batch.taken.push((run(1).into(), "taken".to_owned()));
    commit(&store, batch).await?;
    place.crash(store).await;

    for _ in 0..2 {
        let store = place.open().await?;
        same!(texts(&store, run(1)).await?, ["a", "b", "c"], "the journal");
        same!(
            read(&store, run(1)).await?[0].position,
            position,
            "the first position"
        );
        same!(store.run(run(1)).await?, Some(row(1)), "the row");
        let value = store.state("scope".to_owned(), "key".to_owned()).await?;
        let value = (value.value, value.version);
        same!(value, (Some(serde_json::json!([1, 2])), 1), "the value");
        let blob = store.blob(Digest::of(b"blob")).await?;
        same!(blob.as_deref(), Some(&b"blob"[..]), "the blob");
        same!(
            store.mailbox(run(1).into()).await?,
            [item("left", 5)],
            "the mailbox"
        );
        ensure!(
            !store.post(run(1).into(), item("taken", 5)).await?,
            "a taken id came again"
        );
        store.close().await?;
    }
    let store = place.open().await?;
    let claimed = claim(&store, run(1)).await?;
    same!(
        (claimed.epoch, claimed.entries),
        (2, 3),
        "the epoch and entries of the claim"
    );
    let append = Append::new(run(1), 3, 2, lines(&["d"]));
    same!(
        commit(&store, Batch::of(append)).await?.position,
        position + 3,
        "the next position"
    );
    Ok(())
}
