//! Mailboxes.

use serde_json::json;

use super::checking::{
    Checked, Place, appending, claim, commit, ensure, making, refused, row, run, same,
};
use crate::{
    contract::{ItemBody, Journals, MailboxItem, Mailboxes, StoreError, turn::Turn},
    vocabulary::{JournalId, Message, OperationId, StopReason, Timestamp, ToolDefinition},
};

fn item(id: &str) -> MailboxItem {
    super::checking::item(id, 5)
}

/// The mailbox of a run.
fn of(number: u8) -> JournalId {
    run(number).into()
}

/// Entries that take these items.
fn taking(number: u8, expected: u64, ids: &[&str]) -> crate::contract::Batch {
    let mut batch = appending(number, expected, &["taken"]);
    batch.taken = ids
        .iter()
        .map(|id| (of(number), (*id).to_owned()))
        .collect();
    batch
}

pub(super) async fn counted_once(place: &impl Place) -> Checked {
    let store = place.open().await?;
    commit(&store, making(row(1), &["a"])).await?;
    ensure!(
        store.post(of(1), item("x")).await?,
        "the first item was not new"
    );
    let mut same_id = item("x");
    same_id.body = ItemBody::Steer(Message::user("another"));
    ensure!(
        !store.post(of(1), same_id.clone()).await?,
        "an id counted twice"
    );
    same!(store.mailbox(of(1)).await?, [item("x")], "the mailbox");
    commit(&store, taking(1, 1, &["x"])).await?;
    same!(store.mailbox(of(1)).await?, [], "the mailbox after taking");
    ensure!(
        !store.post(of(1), same_id).await?,
        "a taken id counted again"
    );
    same!(
        store.mailbox(of(1)).await?,
        [],
        "the mailbox after posting a taken id"
    );
    // Each run has its own ids, and items can be posted to a run that does not exist yet.
    ensure!(
        store.post(of(2), item("x")).await?,
        "another run's item was not new"
    );
    same!(
        store.mailbox(of(2)).await?,
        [item("x")],
        "the other run's mailbox"
    );
    // Taking an item that was never posted, or taken before, does no harm.
    commit(&store, taking(1, 2, &["x", "never"])).await?;
    ensure!(
        store.post(of(1), item("never")).await?,
        "an id that was never posted"
    );
    Ok(())
}

pub(super) async fn taken_with_batch(place: &impl Place) -> Checked {
    let store = place.open().await?;
    commit(&store, making(row(1), &["a"])).await?;
    for id in ["x", "y", "z"] {
        store.post(of(1), item(id)).await?;
    }
    refused!(
        commit(&store, taking(1, 5, &["x"])).await,
        StoreError::Sequence { .. },
        "a batch at a wrong place"
    );
    same!(
        store.mailbox(of(1)).await?,
        [item("x"), item("y"), item("z")],
        "the mailbox"
    );
    commit(&store, taking(1, 1, &["x", "z"])).await?;
    same!(store.mailbox(of(1)).await?, [item("y")], "the mailbox");
    let told = store
        .commit(vec![taking(1, 9, &["y"]), taking(1, 2, &[])])
        .await?;
    ensure!(
        told[0].is_err() && told[1].is_ok(),
        "the commit told {told:?}"
    );
    same!(store.mailbox(of(1)).await?, [item("y")], "the mailbox");
    Ok(())
}

pub(super) async fn posted_with_batch(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let bringing = |expected, id: &str| {
        let mut batch = appending(1, expected, &["told"]);
        batch.posts = vec![(of(1), item(id)), (of(2), item(id))];
        batch
    };
    commit(&store, making(row(1), &["a"])).await?;
    commit(&store, making(row(2), &["a"])).await?;
    let (mark, _) = store.posted(0).await?;
    refused!(
        commit(&store, bringing(5, "lost")).await,
        StoreError::Sequence { .. },
        "a batch at a wrong place"
    );
    same!(
        store.mailbox(of(2)).await?,
        [],
        "the mailbox after a refusal"
    );
    commit(&store, bringing(1, "x")).await?;
    commit(&store, bringing(2, "x")).await?;
    for number in [1, 2] {
        same!(
            store.mailbox(of(number)).await?,
            [item("x")],
            "a mailbox that was told twice of one id"
        );
    }
    let (_, mut told) = store.posted(mark).await?;
    told.sort_unstable();
    same!(told, [of(1), of(2)], "whose mailboxes have news");
    ensure!(!store.post(of(2), item("x")).await?, "the id counted again");
    Ok(())
}

pub(super) async fn order(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let operation = OperationId {
        leg: 1,
        lane: 2,
        number: 3,
    };
    let turn = Turn::text("and then?")
        .id("turn-2")
        .owner("ada")
        .deadline(Timestamp(7))
        .streaming(true)
        .tool(ToolDefinition::new("dig", "digs"));
    let bodies = [
        ItemBody::Answer {
            operation,
            value: json!({"ok": [1, null]}),
        },
        ItemBody::Result {
            operation,
            result: Ok("done".to_owned()),
        },
        ItemBody::Result {
            operation,
            result: Err("failed".to_owned()),
        },
        ItemBody::Message {
            name: "漢字".to_owned(),
            value: json!(1.5),
        },
        ItemBody::Steer(Message::user("be “brief”")),
        ItemBody::SteeringTurn(Box::new(turn.clone())),
        ItemBody::ForwardedTurn(Box::new(turn)),
        ItemBody::Cancel {
            reason: String::new(),
            stop: None,
        },
        ItemBody::Cancel {
            reason: "expired".to_owned(),
            stop: Some(StopReason::Expired(60)),
        },
        ItemBody::CancelCall { operation },
    ];
    let mut wanted = Vec::new();
    for (number, body) in bodies.into_iter().enumerate() {
        // Neither ids nor times follow the order of posting.
        let id = format!("{}", 9 - number);
        let item = MailboxItem::new(id, Timestamp(100 - number as u64), body);
        ensure!(
            store.post(of(1), item.clone()).await?,
            "{item:?} was not new"
        );
        store.post(of(2), item.clone()).await?;
        wanted.push(item);
    }
    same!(store.mailbox(of(1)).await?, wanted, "the mailbox");
    Ok(())
}

pub(super) async fn marks(place: &impl Place) -> Checked {
    let store = place.open().await?;
    commit(&store, making(row(1), &["a"])).await?;
    let (start, none) = store.posted(0).await?;
    same!(none, [], "runs with news before any");
    store.post(of(1), item("a")).await?;
    store.post(of(2), item("b")).await?;
    store.post(of(1), item("c")).await?;
    let (mark, mut runs) = store.posted(start).await?;
    runs.sort_unstable();
    same!(runs, [of(1), of(2)], "runs with news, each once");
    ensure!(mark > start, "the mark stays at {mark}");
    same!(
        store.posted(mark).await?,
        (mark, vec![]),
        "what is new after the mark"
    );
    store.post(of(1), item("a")).await?;
    same!(
        store.posted(mark).await?,
        (mark, vec![]),
        "what a repeated id changes"
    );

    store.post(of(3), item("d")).await?;
    let (later, runs) = store.posted(mark).await?;
    same!(runs, [of(3)], "runs with news after the mark");
    // Commits of entries are no news, and neither are items that were taken.
    commit(&store, taking(1, 1, &["a", "c"])).await?;
    same!(
        store.posted(later).await?,
        (later, vec![]),
        "what entries change"
    );
    let (_, mut runs) = store.posted(start).await?;
    runs.sort_unstable();
    same!(runs, [of(2), of(3)], "runs with news that were not taken");
    Ok(())
}

pub(super) async fn read_on(place: &impl Place) -> Checked {
    let store = place.open().await?;
    commit(&store, making(row(1), &["a"])).await?;
    for id in ["x", "y", "z"] {
        store.post(of(1), item(id)).await?;
        store.post(of(2), item(id)).await?;
    }
    let all = store.mailbox_after(of(1), 0).await?;
    let ids: Vec<&str> = all.iter().map(|(_, item)| &*item.id).collect();
    same!(ids, ["x", "y", "z"], "what is read from the beginning");
    ensure!(
        all.is_sorted_by_key(|(mark, _)| *mark) && all.iter().all(|(mark, _)| *mark > 0),
        "the marks do not grow: {all:?}"
    );
    for (place, (mark, _)) in all.iter().enumerate() {
        let rest = store.mailbox_after(of(1), *mark).await?;
        same!(rest, all[place + 1..], "what is read after a mark");
    }
    commit(&store, taking(1, 1, &["y"])).await?;
    let first = all.first().map_or(0, |(mark, _)| *mark);
    let rest = store.mailbox_after(of(1), first).await?;
    same!(rest, all[2..], "what is read after one was taken");
    let last = all.last().map_or(0, |(mark, _)| *mark);
    store.post(of(1), item("later")).await?;
    let rest = store.mailbox_after(of(1), last).await?;
    let ids: Vec<&str> = rest.iter().map(|(_, item)| &*item.id).collect();
    same!(ids, ["later"], "what is read of what came later");
    Ok(())
}

pub(super) async fn from_outside(place: &impl Place) -> Checked {
    let owner = place.open().await?;
    let outside = place.open().await?;
    commit(&owner, making(row(1), &["a"])).await?;
    let (mark, _) = owner.posted(0).await?;
    ensure!(
        outside.post(of(1), item("x")).await?,
        "the item was not new"
    );
    ensure!(!owner.post(of(1), item("x")).await?, "the id counted twice");
    same!(owner.posted(mark).await?.1, [of(1)], "the runs with news");
    same!(owner.mailbox(of(1)).await?, [item("x")], "the mailbox");
    // Posting took nothing from the owner.
    commit(&owner, taking(1, 1, &["x"])).await?;
    same!(
        outside.mailbox(of(1)).await?,
        [],
        "the mailbox after taking"
    );
    ensure!(
        !outside.post(of(1), item("x")).await?,
        "a taken id counted again"
    );
    same!(
        claim(&owner, run(1)).await?.epoch,
        2,
        "the owner's next epoch"
    );
    Ok(())
}
