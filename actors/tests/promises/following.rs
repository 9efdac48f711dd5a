//! A follower of a run reads the store once for each commit, and not for each piece of an answer.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ghostlight_actors::{
    actor::System,
    contract::{BoxFuture, DynStore, StoreError, StoreHandle, StoreWrapper},
    run::{Agent, RunContext},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{Event, Outcome},
};
use parking_lot::Mutex;

use crate::stage::ask;

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
