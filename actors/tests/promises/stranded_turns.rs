//! A turn that was posted to the process of its session begins, whatever becomes of that process and of the sender.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::System,
    contract::{DynStore, StoreError, StoreHandle, StoreWrapper, StoredLine},
    definition::WhileBusy,
    run::{Agent, RunContext},
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{JournalId, Outcome, RunId},
};

use crate::{
    stage::{Stage, pause, text},
    turns,
};

const HOUR: Duration = Duration::from_secs(3_600);

fn slow() -> Agent {
    Agent::from_fn("slow", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(20)).await?;
        Ok(Outcome::answer(cx.input().content()))
    })
}

fn beside(stage: &Stage) -> Stage {
    let mut other = Stage::new();
    other.store = stage.store.another_process();
    other
}

#[tokio::test(start_paused = true)]
async fn a_living_third_process_begins_the_turn_when_owner_and_sender_have_died() {
    let mut stage = Stage::new();
    let owner = stage.start(slow()).await;
    let session = owner.session("slow", "s");
    let first = session.send("one").await.unwrap();
    let (mut sends, third) = (beside(&stage), beside(&stage));
    let sender = sends.start(slow()).await;
    let third = third.start(slow()).await;
    let posts = sender.session("slow", "s");
    let sending = tokio::spawn(async move { posts.send(Turn::text("two").id("2")).await });
    // The third process sees the turn while the owner lives.
    pause(5_000).await;
    sending.abort();
    sends.crash(&sender).await;
    stage.crash(&owner).await;
    // As a program does from time to time that shares its store with others.
    third.recover().await.unwrap();
    assert_eq!(text(&third.run(first.id())).await, "one");
    let second = third.run(RunId::of_turn(session.id(), "2"));
    for _ in 0..600 {
        if second.status().await.is_ok() {
            break;
        }
        pause(1_000).await;
    }
    assert_eq!(text(&second).await, "two");
}

#[tokio::test(start_paused = true)]
async fn a_living_third_process_begins_what_no_run_has_heard() {
    let mut stage = Stage::new();
    let owner = turns::system(&stage, WhileBusy::Steer).await;
    let session = owner.session("worker", "s");
    let first = session.send("deaf").await.unwrap();
    let third = beside(&stage);
    let third = turns::system(&third, WhileBusy::Steer).await;
    let turn = Turn::text("two").id("2");
    assert_eq!(session.send(turn).await.unwrap().id(), first.id());
    // The process dies between the end of the run and the beginning of the next one.
    while first.status().await.unwrap().status.is_under_way() {
        pause(1).await;
    }
    stage.crash(&owner).await;
    let second = third.run(RunId::of_turn(session.id(), "2"));
    for _ in 0..600 {
        if second.status().await.is_ok() {
            break;
        }
        third.recover().await.unwrap();
        pause(1_000).await;
    }
    assert!(text(&second).await.ends_with("|two"));
}

/// A store over which the agent of a session dies at each second read of the session's journal, and fails at those
/// between.
#[derive(Debug)]
struct Deadly {
    inner: InMemoryStore,
    reads: Arc<AtomicU32>,
}

impl StoreWrapper for Deadly {
    fn inner(&self) -> &dyn DynStore {
        &self.inner
    }

    async fn read(
        &self,
        journal: JournalId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<StoredLine>, StoreError> {
        let less = |left: u32| left.checked_sub(1);
        let left = match journal {
            JournalId::Session(_) => self.reads.fetch_update(SeqCst, SeqCst, less).ok(),
            JournalId::Run(_) => None,
        };
        match left {
            Some(left) if left.is_multiple_of(2) => panic!("a fault of the test"),
            Some(_) => Err(StoreError::Io {
                place: "the test".to_owned(),
                reason: "a fault of it".to_owned(),
            }),
            None => self.inner.read(journal, from, limit).await,
        }
    }

    fn description(&self) -> String {
        "a deadly store".to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_posted_turn_begins_although_the_agent_of_its_session_is_lost_again_and_again() {
    let mut stage = Stage::new();
    stage.limits.passivate_after = Duration::from_secs(1);
    let reads = Arc::<AtomicU32>::default();
    let store = StoreHandle::new(Deadly {
        inner: stage.store.clone(),
        reads: reads.clone(),
    });
    let owner = System::builder(store).options(stage.limits);
    let owner = owner.team(slow().into_team().unwrap()).start().await;
    let session = owner.unwrap().session("slow", "s");
    text(&session.send("one").await.unwrap()).await;
    // The session leaves memory, and stays with its process.
    pause(10_000).await;
    let other = beside(&stage);
    let sender = other.start(slow()).await;
    // The turn is given up for each of the four times at which the agent dies over it.
    reads.store(8, SeqCst);
    let sent = sender.session("slow", "s");
    let sent = tokio::time::timeout(HOUR, sent.send("two")).await;
    let second = sent.expect("the turn waits for ever").unwrap();
    assert_eq!(text(&second).await, "two");
}
