//! Ownership: claims and epochs, while processes live, die and close.

use super::checking::{
    Checked, Place, appending, claim, commit, ensure, item, lines, making, refused, row, run, same,
    session, texts,
};
use crate::contract::{Append, Batch, Claim, Index, Journals, Mailboxes, Store, StoreError};

pub(super) async fn claims(place: &impl Place) -> Checked {
    let store = place.open().await?;
    for epoch in 1..=3 {
        let claimed = claim(&store, session("s")).await?;
        same!((claimed.epoch, claimed.entries), (epoch, 0), "the claim");
    }
    let append = Append::new(session("s"), 0, 3, lines(&["a", "b"]));
    commit(&store, Batch::of(append)).await?;
    let claimed = claim(&store, session("s")).await?;
    same!(
        (claimed.epoch, claimed.entries),
        (4, 2),
        "the claim after entries"
    );
    commit(&store, making(row(1), &["a"])).await?;
    let claimed = claim(&store, run(1)).await?;
    same!(
        (claimed.epoch, claimed.entries),
        (2, 1),
        "the claim of a made run"
    );
    let owner = store.claim(run(1).into(), true).await?;
    same!(
        owner.epoch,
        3,
        "the epoch when the owner takes over from itself"
    );
    Ok(())
}

pub(super) async fn claims_together(place: &impl Place) -> Checked {
    let (store, other) = (place.open().await?, place.open().await?);
    for (store, number) in [(&store, 1), (&store, 2), (&other, 3)] {
        commit(store, making(row(number), &["a"])).await?;
    }
    commit(&store, appending(2, 1, &["b"])).await?;
    let none = store.claim_all(Vec::new()).await?;
    ensure!(none.is_empty(), "the claims of nothing: {none:?}");
    let journals = vec![
        run(1).into(),
        run(3).into(),
        session("s").into(),
        run(2).into(),
    ];
    let claims = store.claim_all(journals).await?;
    same!(claims.len(), 4, "how many claims were answered");
    let told = |claim: &Result<Claim, StoreError>| match claim {
        Ok(claim) => Some((claim.epoch, claim.entries)),
        Err(_) => None,
    };
    let told: Vec<_> = claims.iter().map(told).collect();
    let wanted = [Some((2, 1)), None, Some((1, 0)), Some((2, 2))];
    same!(told, wanted, "the claims, one of a run whose owner lives");
    refused!(
        &claims[1],
        StoreError::Owned { journal, .. } if *journal == run(3).into(),
        "the claim of a run whose owner lives"
    );
    // These claims count: the epochs before them are closed, and theirs are open.
    refused!(
        commit(&store, appending(1, 1, &["x"])).await,
        StoreError::Stale { current: 2, .. },
        "an append of the epoch before"
    );
    let append = Append::new(run(1), 1, 2, lines(&["b"]));
    commit(&store, Batch::of(append)).await?;
    same!(texts(&store, run(1)).await?, ["a", "b"], "the journal");
    commit(&other, appending(3, 1, &["b"])).await?;
    Ok(())
}

pub(super) async fn held_elsewhere(place: &impl Place) -> Checked {
    let (store, other) = (place.open().await?, place.open().await?);
    commit(&store, making(row(1), &["a"])).await?;
    commit(&other, making(row(2), &["a"])).await?;
    claim(&other, session("s")).await?;
    let journals = || {
        vec![
            run(1).into(),
            run(2).into(),
            run(3).into(),
            session("s").into(),
        ]
    };
    same!(
        store.held_elsewhere(journals()).await?,
        [false, true, false, true],
        "what another process holds"
    );
    same!(
        other.held_elsewhere(journals()).await?,
        [true, false, false, false],
        "what the first one holds"
    );
    let none = store.held_elsewhere(Vec::new()).await?;
    ensure!(none.is_empty(), "what is held of nothing: {none:?}");
    // The question changed nothing: the epochs are as before.
    commit(&other, appending(2, 1, &["b"])).await?;
    other.close().await?;
    same!(
        store.held_elsewhere(journals()).await?,
        [false; 4],
        "what a process held that let go of it"
    );
    Ok(())
}

pub(super) async fn stale_epoch(place: &impl Place) -> Checked {
    let store = place.open().await?;
    commit(&store, making(row(1), &["a"])).await?;
    claim(&store, run(1)).await?;
    for wrong in [0, 1, 3, u64::MAX] {
        let append = Append::new(run(1), 1, wrong, lines(&["x"]));
        refused!(
            commit(&store, Batch::of(append)).await,
            StoreError::Stale { journal, epoch, current: 2 }
                if *journal == run(1).into() && *epoch == wrong,
            format!("an append of epoch {wrong}")
        );
    }
    same!(texts(&store, run(1)).await?, ["a"], "the journal");
    let append = Append::new(run(1), 1, 2, lines(&["b"]));
    commit(&store, Batch::of(append)).await?;
    same!(texts(&store, run(1)).await?, ["a", "b"], "the journal");
    Ok(())
}

pub(super) async fn unclaimed(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let cases = [(0, 0), (0, 1), (1, 1), (0, 2)];
    for (expected, epoch) in cases {
        let append = Append::new(run(1), expected, epoch, lines(&["x"]));
        refused!(
            commit(&store, Batch::of(append)).await,
            StoreError::Stale { current: 0, .. },
            format!("an append at {expected} of epoch {epoch}")
        );
    }
    // A row makes a run only as its first entry of its first epoch.
    for (expected, epoch) in [(1, 1), (0, 2), (0, 0)] {
        let append = Append::new(run(1), expected, epoch, lines(&["x"])).row(row(1));
        ensure!(
            commit(&store, Batch::of(append)).await.is_err(),
            "a run was made at {expected} of epoch {epoch}"
        );
    }
    same!(store.run(run(1)).await?, None, "the row");
    same!(claim(&store, run(1)).await?.epoch, 1, "the first epoch");
    Ok(())
}

pub(super) async fn session_made_once(place: &impl Place) -> Checked {
    let owner = place.open().await?;
    let making_both = || {
        let mut batch = making(row(1), &["a"]);
        let first = Append::new(session("s"), 0, 1, lines(&["s"]));
        batch.appends.push(first);
        batch
    };
    commit(&owner, making_both()).await?;
    same!(texts(&owner, session("s")).await?, ["s"], "the session");
    let other = place.open().await?;
    refused!(
        claim(&other, session("s")).await,
        StoreError::Owned { .. },
        "a claim of a session that the owner made"
    );
    let claimed = claim(&owner, session("s")).await?;
    same!((claimed.epoch, claimed.entries), (2, 1), "its claim");
    ensure!(
        commit(&owner, making_both()).await.is_err(),
        "a session was made twice"
    );
    let twice = Append::new(session("s"), 0, 1, lines(&["no"]));
    ensure!(
        commit(&owner, Batch::of(twice)).await.is_err(),
        "a session that was claimed was made again"
    );
    same!(texts(&owner, session("s")).await?, ["s"], "the session");
    Ok(())
}

pub(super) async fn living_owner(place: &impl Place) -> Checked {
    let owner = place.open().await?;
    let other = place.open().await?;
    claim(&owner, session("s")).await?;
    commit(&owner, making(row(1), &["a"])).await?;
    refused!(
        claim(&other, session("s")).await,
        StoreError::Owned { journal, owner } if *journal == session("s").into() && !owner.is_empty(),
        "a claim of a claimed journal"
    );
    refused!(
        claim(&other, run(1)).await,
        StoreError::Owned { .. },
        "a claim of a run that the owner made"
    );
    // The refused claims have not raised the epochs.
    commit(&owner, appending(1, 1, &["b"])).await?;
    same!(
        texts(&other, run(1)).await?,
        ["a", "b"],
        "what the other process reads"
    );
    same!(
        claim(&owner, session("s")).await?.epoch,
        2,
        "the owner's next epoch"
    );
    // Both processes write to their own journals, in one order of commits.
    commit(&other, making(row(2), &["c"])).await?;
    commit(&owner, appending(1, 2, &["d"])).await?;
    commit(&other, appending(2, 1, &["e"])).await?;
    same!(
        texts(&owner, run(2)).await?,
        ["c", "e"],
        "the other's journal"
    );
    same!(
        texts(&other, run(1)).await?,
        ["a", "b", "d"],
        "the owner's journal"
    );
    Ok(())
}

pub(super) async fn take_over(place: &impl Place) -> Checked {
    let former = place.open().await?;
    let other = place.open().await?;
    commit(&former, making(row(1), &["a"])).await?;
    let claimed = other.claim(run(1).into(), true).await?;
    same!((claimed.epoch, claimed.entries), (2, 1), "the claim");
    refused!(
        commit(&former, appending(1, 1, &["x"])).await,
        StoreError::Stale {
            epoch: 1,
            current: 2,
            ..
        },
        "an append by the former owner"
    );
    let append = Append::new(run(1), 1, 2, lines(&["b"]));
    commit(&other, Batch::of(append)).await?;
    refused!(
        claim(&former, run(1)).await,
        StoreError::Owned { .. },
        "a claim by the former owner"
    );
    same!(texts(&former, run(1)).await?, ["a", "b"], "the journal");
    let back = former.claim(run(1).into(), true).await?;
    same!((back.epoch, back.entries), (3, 2), "the claim back");
    let append = Append::new(run(1), 2, 3, lines(&["c"]));
    commit(&former, Batch::of(append)).await?;
    same!(texts(&other, run(1)).await?, ["a", "b", "c"], "the journal");
    Ok(())
}

pub(super) async fn confirmed(place: &impl Place) -> Checked {
    let former = place.open().await?;
    let other = place.open().await?;
    commit(&former, making(row(1), &["a"])).await?;
    let term = former.confirm(run(1).into(), 1).await?;
    same!(former.term(), Some(term), "the term of an owner");
    refused!(
        other.confirm(run(1).into(), 1).await,
        StoreError::Stale { .. },
        "what a process is told that never owned it"
    );
    other.claim(run(1).into(), true).await?;
    refused!(
        former.confirm(run(1).into(), 1).await,
        StoreError::Stale {
            epoch: 1,
            current: 2,
            ..
        },
        "what the former owner is told"
    );
    other.confirm(run(1).into(), 2).await?;
    Ok(())
}

pub(super) async fn below(place: &impl Place) -> Checked {
    let (first, second) = (place.open().await?, place.open().await?);
    for number in [1, 2] {
        commit(&first, making(row(number), &["a"])).await?;
    }
    let below = |store, epoch| Journals::claim_below(store, run(2).into(), run(1).into(), epoch);
    same!(below(&first, 1).await?.epoch, 2, "the owner's claim below");
    // Only the owner of the journal above has its epoch.
    refused!(
        below(&second, 1).await,
        StoreError::Stale { .. },
        "a claim below what another owns"
    );
    let above = second.claim(run(1).into(), true).await?;
    same!(above.epoch, 2, "the epoch above, taken over");
    let claimed = below(&second, 2).await?;
    same!((claimed.epoch, claimed.entries), (3, 1), "the claim below");
    for epoch in [1, 2, 3] {
        refused!(
            below(&first, epoch).await,
            StoreError::Stale { .. },
            "a claim back"
        );
    }
    refused!(
        commit(&first, appending(2, 1, &["late"])).await,
        StoreError::Stale { .. } | StoreError::Owned { .. },
        "entries of who was taken it from"
    );
    let append = Append::new(run(2), 1, 3, lines(&["b"]));
    commit(&second, Batch::of(append)).await?;
    Ok(())
}

pub(super) async fn dead_owner(place: &impl Place) -> Checked {
    let owner = place.open().await?;
    let other = place.open().await?;
    commit(&owner, making(row(1), &["a"])).await?;
    claim(&owner, session("s")).await?;
    claim(&owner, run(2)).await?;
    place.crash(owner).await;
    let claimed = claim(&other, run(1)).await?;
    same!(
        (claimed.epoch, claimed.entries),
        (2, 1),
        "the claim of a run"
    );
    same!(
        claim(&other, session("s")).await?.epoch,
        2,
        "the epoch of a session"
    );
    let append = Append::new(run(1), 1, 2, lines(&["b"]));
    commit(&other, Batch::of(append)).await?;
    same!(texts(&other, run(1)).await?, ["a", "b"], "the journal");
    // A claim before the first entry does not stop another process from making the run.
    commit(&other, making(row(2), &["c"])).await?;
    same!(
        texts(&other, run(2)).await?,
        ["c"],
        "the run that was claimed only"
    );
    Ok(())
}

pub(super) async fn made_once(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let other = place.open().await?;
    commit(&store, making(row(1), &["a"])).await?;
    refused!(
        commit(&store, making(row(1), &["x"])).await,
        StoreError::Sequence {
            expected: 0,
            have: 1,
            ..
        },
        "making it again"
    );
    refused!(
        commit(&other, making(row(1), &["x"])).await,
        StoreError::Owned { .. },
        "making it again in another process"
    );
    let told = store
        .commit(vec![making(row(2), &["b"]), making(row(2), &["x"])])
        .await?;
    ensure!(told[0].is_ok(), "making a run: {:?}", told[0]);
    refused!(
        told[1].clone(),
        StoreError::Sequence { .. },
        "making it twice in one commit"
    );
    same!(texts(&store, run(1)).await?, ["a"], "the first run");
    same!(texts(&store, run(2)).await?, ["b"], "the second run");
    Ok(())
}

pub(super) async fn closing(place: &impl Place) -> Checked {
    let store = place.open().await?;
    commit(&store, making(row(1), &["a"])).await?;
    store.close().await?;
    refused!(
        store.commit(vec![appending(1, 1, &["x"])]).await,
        StoreError::Closed,
        "a commit"
    );
    refused!(claim(&store, run(1)).await, StoreError::Closed, "a claim");
    let item = item("item", 1);
    refused!(
        store.post(run(1).into(), item).await,
        StoreError::Closed,
        "a post"
    );
    store.close().await?;

    let other = place.open().await?;
    same!(
        claim(&other, run(1)).await?.epoch,
        2,
        "the epoch after closing"
    );
    same!(texts(&other, run(1)).await?, ["a"], "the journal");
    same!(other.mailbox(run(1).into()).await?, [], "the mailbox");
    Ok(())
}
