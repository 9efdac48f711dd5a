//! Shared state, blobs and checkpoints.

use std::sync::Arc;

use serde_json::{Value, json};

use super::checking::{
    Checked, Found, Place, commit, ensure, making, refused, row, run, same, session, texts,
};
use crate::{
    contract::{Batch, Expected, Index, Journals, State, StateSlot, StateWrite, Store, StoreError},
    vocabulary::Digest,
};

fn write(key: &str, value: Value, expected: Expected) -> StateWrite {
    StateWrite {
        scope: "scope".to_owned(),
        key: key.to_owned(),
        value: serde_json::value::to_raw_value(&value).ok(),
        expected,
    }
}

fn delete(key: &str, expected: Expected) -> StateWrite {
    StateWrite {
        value: None,
        ..write(key, Value::Null, expected)
    }
}

fn writing(writes: impl IntoIterator<Item = StateWrite>) -> Batch {
    Batch {
        writes: writes.into_iter().collect(),
        ..Batch::default()
    }
}

async fn value(store: &impl Store, key: &str) -> Result<Option<(Value, u64)>, Found> {
    let found = store.state("scope".to_owned(), key.to_owned()).await?;
    Ok(found.present().map(|found| (found.value, found.version)))
}

pub(super) async fn versions(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let first = json!({"a": [1, 2.5, "ß", null, true]});
    commit(
        &store,
        writing([write("k", first.clone(), Expected::Absent)]),
    )
    .await?;
    same!(
        value(&store, "k").await?,
        Some((first, 1)),
        "the first value"
    );
    commit(
        &store,
        writing([write("k", json!(2), Expected::Version(1))]),
    )
    .await?;
    same!(
        value(&store, "k").await?,
        Some((json!(2), 2)),
        "the second value"
    );
    commit(&store, writing([write("k", json!(null), Expected::Any)])).await?;
    same!(
        value(&store, "k").await?,
        Some((json!(null), 3)),
        "null is a value"
    );
    same!(value(&store, "other").await?, None, "another key");
    let elsewhere = store.state("scope2".to_owned(), "k".to_owned()).await?;
    same!(elsewhere, StateSlot::default(), "another scope");

    commit(&store, writing([delete("k", Expected::Version(3))])).await?;
    same!(
        store.state("scope".to_owned(), "k".to_owned()).await?,
        StateSlot {
            value: None,
            version: 4
        },
        "a deleted value"
    );
    same!(
        store.scope("scope".to_owned()).await?,
        [],
        "the scope of a deleted value"
    );
    commit(&store, writing([delete("k", Expected::Any)])).await?;
    commit(
        &store,
        writing([write("k", json!(4), Expected::Version(5))]),
    )
    .await?;
    // A reader of versions 1 to 3 must not take the new value for the one that it read.
    same!(
        value(&store, "k").await?,
        Some((json!(4), 6)),
        "a value written after its deletion"
    );
    commit(
        &store,
        writing([write("new", json!(5), Expected::Version(0))]),
    )
    .await?;
    same!(
        value(&store, "new").await?,
        Some((json!(5), 1)),
        "a value that was expected never to have been written"
    );
    // Characters that a store may have to write as others.
    for key in ["a\0", "\u{1}", "\0\u{1}\u{1}0"] {
        for (expected, number) in [(Expected::Absent, 1), (Expected::Version(1), 2)] {
            commit(&store, writing([write(key, json!(number), expected)])).await?;
            same!(
                value(&store, key).await?,
                Some((json!(number), number)),
                "a value under a key with control characters"
            );
        }
    }
    Ok(())
}

pub(super) async fn conflicts(place: &impl Place) -> Checked {
    let store = place.open().await?;
    commit(&store, writing([write("k", json!(1), Expected::Any)])).await?;
    let gone = [
        write("gone", json!(1), Expected::Any),
        delete("gone", Expected::Any),
    ];
    commit(&store, writing(gone)).await?;
    let cases = [
        (write("gone", json!(0), Expected::Version(0)), None),
        (write("gone", json!(0), Expected::Version(1)), None),
        (write("k", json!(0), Expected::Absent), Some(1)),
        (write("k", json!(0), Expected::Version(2)), Some(1)),
        (write("k", json!(0), Expected::Version(0)), Some(1)),
        (delete("k", Expected::Absent), Some(1)),
        (delete("k", Expected::Version(9)), Some(1)),
        (write("none", json!(0), Expected::Version(1)), None),
        (delete("none", Expected::Version(1)), None),
    ];
    for (refused, has) in cases {
        let what = format!("{refused:?}");
        let mut batch = making(row(1), &["x"]);
        batch
            .writes
            .push(write("innocent", json!(0), Expected::Any));
        batch.writes.push(refused.clone());
        batch.blobs.push((Digest::of(b"x"), Arc::from(*b"x")));
        refused!(
            commit(&store, batch).await,
            StoreError::Conflict { scope, key, version }
                if scope == "scope" && *key == refused.key && *version == has,
            what
        );
    }
    same!(value(&store, "k").await?, Some((json!(1), 1)), "the value");
    same!(
        value(&store, "innocent").await?,
        None,
        "the other value of the batch"
    );
    same!(texts(&store, run(1)).await?, [""; 0], "the batch's entries");
    same!(store.run(run(1)).await?, None, "the batch's row");
    same!(
        store.blob(Digest::of(b"x")).await?,
        None,
        "the batch's blob"
    );
    commit(&store, making(row(1), &["a"])).await?;
    Ok(())
}

pub(super) async fn staged_writes(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let batch = writing([
        write("k", json!("a"), Expected::Absent),
        write("k", json!("b"), Expected::Version(1)),
        delete("k", Expected::Version(2)),
        write("k", json!("c"), Expected::Absent),
        write("l", json!("d"), Expected::Absent),
    ]);
    commit(&store, batch).await?;
    let kept = value(&store, "k").await?.map(|(value, _)| value);
    same!(kept, Some(json!("c")), "the last write of the batch");
    let batch = writing([
        write("l", json!("e"), Expected::Version(1)),
        write("l", json!("f"), Expected::Version(1)),
    ]);
    refused!(
        commit(&store, batch).await,
        StoreError::Conflict {
            version: Some(2),
            ..
        },
        "two writes that expect the same version"
    );
    same!(
        value(&store, "l").await?,
        Some((json!("d"), 1)),
        "the value"
    );
    // Batches of one commit see each other's writes as well.
    let told = store
        .commit(vec![
            writing([write("l", json!("g"), Expected::Version(1))]),
            writing([write("l", json!("h"), Expected::Version(1))]),
            writing([write("l", json!("i"), Expected::Version(2))]),
        ])
        .await?;
    let kept: Vec<bool> = told.iter().map(Result::is_ok).collect();
    same!(
        kept,
        [true, false, true],
        "which batches of a commit were kept"
    );
    same!(
        value(&store, "l").await?,
        Some((json!("i"), 3)),
        "the value"
    );
    Ok(())
}

pub(super) async fn copies(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let copy = |value, version| write("k", json!(value), Expected::Copy(version));
    commit(&store, writing([copy(1, 100_000)])).await?;
    same!(
        value(&store, "k").await?,
        Some((json!(1), 100_000)),
        "a copied value"
    );
    let next = write("k", json!(2), Expected::Version(100_000));
    commit(&store, writing([next])).await?;
    same!(
        value(&store, "k").await?,
        Some((json!(2), 100_001)),
        "what was written over a copy"
    );
    // No version is ever used twice.
    commit(&store, writing([copy(3, 7), copy(4, 100_010)])).await?;
    same!(
        value(&store, "k").await?,
        Some((json!(4), 100_010)),
        "copies of lower and of higher versions"
    );
    commit(&store, writing([copy(5, 7)])).await?;
    same!(
        value(&store, "k").await?,
        Some((json!(5), 100_011)),
        "a copy of a lower version"
    );
    Ok(())
}

pub(super) async fn scopes(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let keys = ["b", "a", "ä", "", "B", "a/b", "a\u{0}", "10", "9"];
    commit(
        &store,
        writing(keys.map(|key| write(key, json!(key), Expected::Any))),
    )
    .await?;
    let mut elsewhere = write("b", json!("elsewhere"), Expected::Any);
    elsewhere.scope = "scope/b".to_owned();
    commit(&store, writing([elsewhere])).await?;
    let found = store.scope("scope".to_owned()).await?;
    let mut wanted = keys;
    wanted.sort_unstable();
    let names: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
    same!(names, wanted, "the keys of a scope, by their bytes");
    let own = found
        .iter()
        .all(|(key, value)| value.value == json!(key) && value.version == 1);
    ensure!(own, "the values of a scope: {found:?}");
    Ok(())
}

pub(super) async fn blobs(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let every_byte: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..300_000_u32).map(|n| (n / 7) as u8).collect();
    for bytes in [&b""[..], b"text", &every_byte, &large] {
        let digest = Digest::of(bytes);
        for _ in 0..2 {
            let batch = Batch {
                blobs: vec![(digest, Arc::from(bytes)), (digest, Arc::from(bytes))],
                ..Batch::default()
            };
            commit(&store, batch).await?;
            let found = store.blob(digest).await?;
            ensure!(
                found.as_deref() == Some(bytes),
                "a blob of {} bytes came back changed",
                bytes.len()
            );
        }
    }
    Ok(())
}

pub(super) async fn checkpoints(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let large = vec![7; 100_000];
    for bytes in [&[][..], &[0, 255, 1], &large] {
        store
            .put_checkpoint(session("s"), Some(bytes.to_vec()))
            .await?;
        let found = store.checkpoint(session("s")).await?;
        ensure!(
            found.as_deref() == Some(bytes),
            "a checkpoint of {} bytes",
            bytes.len()
        );
    }
    same!(
        store.checkpoint(session("t")).await?,
        None,
        "another session's checkpoint"
    );
    store.put_checkpoint(session("t"), Some(vec![1])).await?;
    store.put_checkpoint(session("s"), None).await?;
    store.put_checkpoint(session("u"), None).await?;
    same!(
        store.checkpoint(session("s")).await?,
        None,
        "a deleted checkpoint"
    );
    same!(
        store.checkpoint(session("t")).await?,
        Some(vec![1]),
        "the other checkpoint"
    );
    Ok(())
}
