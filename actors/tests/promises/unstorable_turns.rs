//! A turn that a run under way did not hear, and that cannot be recorded as one of its own, holds nobody up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::System,
    contract::{Batch, Committed, DynStore, StoreError, StoreHandle, StoreWrapper},
    definition::WhileBusy,
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{Entry, RunId},
};

use crate::{
    stage::{Stage, pause, text},
    turns::{model, team},
};

const MINUTE: Duration = Duration::from_secs(60);

/// A store that takes the beginning of no turn which says `unstorable`.
#[derive(Debug)]
struct Picky {
    inner: InMemoryStore,
    is_picky: Arc<AtomicBool>,
    refused: Arc<AtomicU32>,
}

fn is_refused(batch: &Batch) -> bool {
    let mut entries = batch.appends.iter().flat_map(|append| &append.lines);
    entries.any(|line| match line.decode() {
        Ok(Entry::TurnStarted(turn)) => turn.message.content() == "unstorable",
        _ => false,
    })
}

impl StoreWrapper for Picky {
    fn inner(&self) -> &dyn DynStore {
        &self.inner
    }

    async fn commit(
        &self,
        batches: Vec<Batch>,
    ) -> Result<Vec<Result<Committed, StoreError>>, StoreError> {
        let mut committed = Vec::new();
        for batch in batches {
            if self.is_picky.load(SeqCst) && is_refused(&batch) {
                self.refused.fetch_add(1, SeqCst);
                committed.push(Err(StoreError::Refused {
                    place: "the test".to_owned(),
                    to: "a session".to_owned(),
                    reason: "it is too large".to_owned(),
                }));
                continue;
            }
            committed.extend(self.inner.commit(vec![batch]).await?);
        }
        Ok(committed)
    }

    fn description(&self) -> String {
        "a picky store".to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_cannot_be_recorded_is_tried_seldom_and_blocks_no_other() {
    let stage = Stage::new();
    let (is_picky, refused) = (Arc::new(AtomicBool::new(true)), Arc::<AtomicU32>::default());
    let store = StoreHandle::new(Picky {
        inner: stage.store.clone(),
        is_picky: is_picky.clone(),
        refused: refused.clone(),
    });
    let system = System::builder(store).options(stage.limits);
    let system = system
        .model("default", model())
        .team(team(WhileBusy::Steer));
    let system = system.start().await.unwrap();
    let session = system.session("worker", "s");
    let send = async |said: &str, id: &str| session.send(Turn::text(said).id(id)).await.unwrap();
    let first = send("deaf", "1").await;
    assert_eq!(send("unstorable", "2").await.id(), first.id());
    // It was said after that one, and begins nevertheless.
    assert_eq!(send("deaf", "3").await.id(), first.id());
    let own = |id: &str| system.run(RunId::of_turn(session.id(), id));
    let third = own("3");
    for _ in 0..100 {
        if third.status().await.is_ok() {
            break;
        }
        pause(100).await;
    }
    assert_eq!(text(&third).await, "deaf");
    // So does one that hears nothing of it.
    let dry = Turn::text("dry").dry_run();
    let dry = tokio::time::timeout(MINUTE, session.send(dry)).await;
    assert_eq!(
        text(&dry.unwrap().unwrap()).await,
        "deaf|deaf|deaf|deaf|dry"
    );
    let before = refused.load(SeqCst);
    tokio::time::sleep(MINUTE).await;
    let tries = refused.load(SeqCst) - before;
    assert!((10..100).contains(&tries), "{tries} tries in a minute");
    // Once the store takes it, it begins.
    is_picky.store(false, SeqCst);
    pause(5_000).await;
    assert!(text(&own("2")).await.ends_with("|unstorable"));
}
