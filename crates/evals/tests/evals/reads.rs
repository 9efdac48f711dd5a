//! A recorded run costs one read of the store.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use ghostlight_actors::{
    contract::{
        DynStore, InMemoryStore, MailboxItem, RunFilter, RunRow, StoreError, StoreWrapper,
        StoredLine, TreeLine,
    },
    vocabulary::{JournalId, RunId},
};
use ghostlight_evals::{Evaluation, Reach};
use serde_json::json;

use crate::judging::{judge, samples, start, suite, team};

/// Counts the reads of a store, by the names of its methods.
struct Counting {
    inner: InMemoryStore,
    reads: Arc<Mutex<BTreeMap<&'static str, u32>>>,
}

impl Counting {
    fn count(&self, name: &'static str) {
        *self.reads.lock().unwrap().entry(name).or_default() += 1;
    }
}

impl StoreWrapper for Counting {
    fn inner(&self) -> &dyn DynStore {
        &self.inner
    }

    async fn read_tree(
        &self,
        root: RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<TreeLine>, StoreError> {
        self.count("read_tree");
        self.inner().read_tree(root, after, limit).await
    }

    async fn read(
        &self,
        journal: JournalId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<StoredLine>, StoreError> {
        self.count("read");
        self.inner().read(journal, from, limit).await
    }

    async fn run(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        self.count("run");
        self.inner().run(run).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>, StoreError> {
        self.count("runs");
        self.inner().runs(filter).await
    }

    async fn mailbox_after(
        &self,
        mailbox: JournalId,
        after: u64,
    ) -> Result<Vec<(u64, MailboxItem)>, StoreError> {
        self.count("mailbox_after");
        self.inner().mailbox_after(mailbox, after).await
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
