//! Reading a run page by page costs what reading it once does.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use ghostlight_actors::{
    actor::SystemOptions,
    contract::{DynStore, StoreError, StoreWrapper, TreeLine},
    testing::InMemoryStore,
    vocabulary::RunId,
};

use crate::desk::{Desk, text_at};

/// Counts the entries of trees that are read.
#[derive(Debug)]
struct Counting {
    inner: InMemoryStore,
    read: Arc<AtomicUsize>,
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
        let lines = self.inner.read_tree(root, after, limit).await?;
        self.read.fetch_add(lines.len(), Ordering::SeqCst);
        Ok(lines)
    }

    fn description(&self) -> String {
        "a store that counts".to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_read_page_by_page_is_read_about_once() {
    let read = Arc::new(AtomicUsize::new(0));
    let store = Counting {
        inner: InMemoryStore::new(),
        read: read.clone(),
    };
    let desk = Desk::over(store, SystemOptions::default(), |server, _| server).await;
    let said = desk.say(&desk.client, "s", "delegate count 400").await;
    let said = said.is(200).json();
    let tree = format!("/api/v1/runs/{}/tree", text_at(&said, "/run/id"));
    let tree = desk.client.get(&tree).await.is(200).json();
    // The tree, and a run below with its own.
    for run in ["/0/id", "/1/id"] {
        let path = format!("/api/v1/runs/{}/events", text_at(&tree, run));
        let whole = desk.client.get(&format!("{path}?limit=1000")).await;
        let whole = whole.is(200).json()["events"].as_array().unwrap().clone();
        read.store(0, Ordering::SeqCst);
        let (mut paged, mut after) = (Vec::new(), "0".to_owned());
        loop {
            let page = format!("{path}?limit=40&after={after}");
            let page = desk.client.get(&page).await.is(200).json();
            paged.extend(page["events"].as_array().unwrap().clone());
            match page["next"].as_str() {
                Some(next) => after = next.to_owned(),
                None => break,
            }
        }
        assert_eq!(paged, whole);
        assert!(paged.len() > 800, "{}", paged.len());
        let read = read.load(Ordering::SeqCst);
        // Entries without an event are read too; from the beginning each time it would be ten times as much.
        assert!(
            read < paged.len() * 2,
            "{read} entries for {} events",
            paged.len()
        );
    }
}
