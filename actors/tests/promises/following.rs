//! A follower of a run reads the store once for each commit, and not for each piece of an answer; one who asks for what
//! there is so far gets all that the store has.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ghostlight_actors::{
    actor::System,
    contract::{BoxFuture, DynStore, StoreError, StoreHandle, StoreWrapper},
    run::{Agent, RunContext},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{Event, EventRecord, Outcome},
};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::stage::{ask, pause};

/// A store that counts its calls by their names.
struct Counted {
    inner: StoreHandle,
    calls: Arc<Mutex<BTreeMap<&'static str, u64>>>,
}

impl StoreWrapper for Counted {
    fn inner(&self) -> &dyn DynStore {
        &self.inner
    }

    async fn around<T: Send>(
        &self,
        method: &'static str,
        call: BoxFuture<'_, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        *self.calls.lock().entry(method).or_default() += 1;
        call.await
    }

    fn description(&self) -> String {
        format!("{}, counted", self.inner.description())
    }
}

/// A store that has what is committed a while before it says so.
struct Late {
    inner: StoreHandle,
    waits: watch::Sender<bool>,
}

impl StoreWrapper for Late {
    fn inner(&self) -> &dyn DynStore {
        &self.inner
    }

    async fn around<T: Send>(
        &self,
        method: &'static str,
        call: BoxFuture<'_, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let result = call.await;
        if method == "commit" {
            let _ = self.waits.subscribe().wait_for(|waits| !waits).await;
        }
        result
    }

    fn description(&self) -> String {
        format!("{}, late", self.inner.description())
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_there_so_far_is_what_the_store_has() {
    let agent = Agent::from_fn("sleeper", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(5)).await?;
        Ok(Outcome::answer("done"))
    });
    let waits = watch::channel(false).0;
    let store = Late {
        inner: StoreHandle::new(InMemoryStore::new()),
        waits: waits.clone(),
    };
    let builder = System::builder(store).team(agent.into_team().unwrap());
    let system = builder.start().await.unwrap();
    let run = ask(&system, "sleeper", "go").await;
    let mut events = run.events().recorded();
    let begun = events.next().await.unwrap().unwrap();
    assert!(matches!(begun.event, Event::RunStarted { .. }), "{begun:?}");
    // The stream has read all there is, and waits.
    let more = tokio::time::timeout(Duration::from_millis(50), events.next()).await;
    assert!(more.is_err(), "{more:?}");
    waits.send_replace(true);
    pause(5_020).await;
    let records = events.so_far().await.unwrap();
    let is_end = |record: &EventRecord| matches!(record.event, Event::RunEnded { .. });
    assert!(records.last().is_some_and(is_end), "{records:?}");
    waits.send_replace(false);
    assert_eq!(run.outcome().await.unwrap().text(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_follower_reads_once_for_each_commit_and_not_for_each_piece_of_an_answer() {
    const ANSWERS: usize = 20;
    let words: String = (0..200).map(|word| format!("w{word} ")).collect();
    let agent = Agent::from_fn("talker", |cx: RunContext| async move {
        let mut conversation = cx.conversation();
        for _ in 0..ANSWERS {
            let request = cx.model_request(conversation.clone()).streaming();
            conversation.push(cx.model(request).await?.message);
        }
        Ok(Outcome::answer("done"))
    });
    let calls = Arc::new(Mutex::new(BTreeMap::new()));
    let store = Counted {
        inner: StoreHandle::new(InMemoryStore::new()),
        calls: calls.clone(),
    };
    let model = ScriptedModel::turns(vec![words; ANSWERS]).delay(Duration::from_secs(2));
    let builder = System::builder(store).model("default", model);
    let builder = builder.team(agent.into_team().unwrap());
    let system = builder.start().await.unwrap();
    let run = ask(&system, "talker", "go").await;
    let (mut events, mut previews, mut recorded) = (run.events(), 0, 0);
    while let Some(record) = events.next().await {
        match record.unwrap().event {
            Event::Preview(_) => previews += 1,
            _ => recorded += 1,
        }
    }
    assert!(previews >= 200 * ANSWERS && recorded > ANSWERS);
    let calls = calls.lock();
    // While nothing is committed for two seconds, a look is due after 0.1, 0.3, 0.7 and 1.5 of them, since another process
    // may carry a child; and one before the first commit.
    let most = calls["commit"] + 4 * ANSWERS as u64 + 1;
    assert!(calls["read_tree"] <= most, "{calls:?}");
    assert!(calls.get("deleted") <= Some(&most), "{calls:?}");
}
