//! A recorded run costs one read of the store.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use ghostlight_actors::contract::{BoxFuture, DynStore, InMemoryStore, StoreError, StoreWrapper};
use ghostlight_evals::{Evaluation, Reach};
use serde_json::json;

use crate::judging::{judge, samples, start, suite, team};

/// Counts the reads of a store, by the names of its methods.
struct Counting {
    inner: InMemoryStore,
    reads: Arc<Mutex<BTreeMap<&'static str, u32>>>,
}

/// What is read of runs; mailboxes and members are looked after beside them.
const OF_RUNS: [&str; 5] = ["read_tree", "read", "run", "runs", "mailbox_after"];

impl StoreWrapper for Counting {
    fn inner(&self) -> &dyn DynStore {
        &self.inner
    }

    async fn around<T: Send>(
        &self,
        method: &'static str,
        call: BoxFuture<'_, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if OF_RUNS.contains(&method) {
            *self.reads.lock().unwrap().entry(method).or_default() += 1;
        }
        call.await
    }

    fn description(&self) -> String {
        String::from("a store that counts")
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_recorded_costs_one_read_for_each_run() {
    let (memory, reads) = (InMemoryStore::new(), Arc::default());
    let store = || Counting {
        inner: memory.another_process(),
        reads: Arc::clone(&reads),
    };
    let taken = || -> BTreeMap<&str, u32> { std::mem::take(&mut reads.lock().unwrap()) };
    let inputs: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let evaluation = Evaluation::new(suite(json!({})), &team(), samples(&inputs)).unwrap();
    let model = judge(|_| String::from("{\"reason\": \"r\", \"score\": 5}"));
    let models = [("judge", &model)];
    let system = start(store(), &evaluation, &models).await;
    evaluation.run(&system, |_| {}).await.unwrap();
    system.stop().await.unwrap();
    let system = start(store(), &evaluation, &models).await;
    taken();
    evaluation
        .run_within(&system, Reach::Look, |_| {})
        .await
        .unwrap();
    let again = taken();
    system.stop().await.unwrap();
    // Ten cells, each with a verdict.
    assert_eq!(again, BTreeMap::from([("read_tree", 20)]));
}
