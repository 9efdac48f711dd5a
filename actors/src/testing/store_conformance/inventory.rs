//! The inventory, from which a copy is made.

use serde_json::value::to_raw_value;

use super::checking::{
    Checked, Place, claim, commit, ensure, item, lines, making, row, run, same, session,
};
use crate::{
    contract::{Append, Batch, Expected, Index, Inventory, Mailboxes, StateWrite},
    vocabulary::Digest,
};

fn write(key: &str, value: Option<u8>) -> Batch {
    let value = value.and_then(|value| to_raw_value(&value).ok());
    Batch {
        writes: vec![StateWrite {
            scope: "scope".to_owned(),
            key: key.to_owned(),
            value,
            expected: Expected::Any,
        }],
        ..Batch::default()
    }
}

pub(super) async fn names(place: &impl Place) -> Checked {
    let store = place.open().await?;
    same!(store.inventory().await?, Inventory::default(), "at first");

    commit(&store, making(row(2), &["a"])).await?;
    commit(&store, making(row(1), &["a"])).await?;
    claim(&store, run(1)).await?;
    claim(&store, session("s")).await?;
    let first = Append::new(session("r"), 0, 1, lines(&["a"]));
    commit(&store, Batch::of(first)).await?;
    for batch in [
        write("kept", Some(1)),
        write("kept", Some(2)),
        write("gone", Some(1)),
        write("gone", None),
    ] {
        commit(&store, batch).await?;
    }
    for (number, id) in [(2, "b"), (1, "c"), (1, "a")] {
        store.post(run(number).into(), item(id, 1)).await?;
    }
    let bytes: &[u8] = b"bytes";
    commit(
        &store,
        Batch {
            blobs: vec![(Digest::of(bytes), bytes.into())],
            taken: vec![(run(1).into(), "c".to_owned())],
            ..Batch::default()
        },
    )
    .await?;

    let found = store.inventory().await?;
    let journals = [
        (run(1).into(), 2),
        (run(2).into(), 1),
        (session("r").into(), 1),
        (session("s").into(), 1),
    ];
    same!(found.journals, journals, "journals and their epochs");
    let values = [("gone", 2), ("kept", 2)]
        .map(|(key, version)| ("scope".to_owned(), key.to_owned(), version));
    same!(found.values, values, "values and their versions");
    let items =
        [(2, "b"), (1, "c"), (1, "a")].map(|(number, id)| (run(number).into(), id.to_owned()));
    same!(found.items, items, "items in the order of their posts");
    same!(found.blobs, [Digest::of(bytes)], "blobs");
    Ok(())
}
