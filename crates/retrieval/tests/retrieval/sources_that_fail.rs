//! A source that cannot be reached leaves the index as it was; one whose document is gone does not.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use ghostlight_retrieval::{
    index::{Index, IndexError, Query, Reading, Source, SourceEntry, SyncOptions, SyncReport},
    readers::ReaderError,
};

/// A source of one document, which answers as it is told to and keeps the tags that it was given.
#[derive(Clone)]
struct Served {
    answer: Arc<Mutex<Reading>>,
    tags: Arc<Mutex<Vec<Option<String>>>>,
    failures: Arc<AtomicUsize>,
}

impl Source for Served {
    fn name(&self) -> String {
        String::from("served")
    }

    async fn entries(&self, _: &SyncOptions) -> Result<Vec<SourceEntry>, IndexError> {
        Ok(vec![SourceEntry {
            name: String::from("page"),
            read_as: String::from("page.md"),
            bytes: 0,
            version: None,
            held: None,
            metadata: Default::default(),
        }])
    }

    async fn read(
        &self,
        _: &SourceEntry,
        tag: Option<&str>,
        _: &SyncOptions,
    ) -> Result<Reading, ReaderError> {
        self.tags.lock().unwrap().push(tag.map(str::to_owned));
        let fails = |left: usize| left.checked_sub(1);
        let failed = self
            .failures
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fails);
        Ok(match failed {
            Ok(_) => Reading::Unavailable(String::from("it is busy")),
            Err(_) => self.answer.lock().unwrap().clone(),
        })
    }
}

fn content(text: &str, tag: &str) -> Reading {
    Reading::Content {
        bytes: text.as_bytes().to_vec(),
        read_as: None,
        tag: Some(tag.to_owned()),
    }
}

async fn sync(index: &Index, source: &Served) -> SyncReport {
    let options = SyncOptions::default();
    let synced = index.sync_from(source, &options, |_| {}).await;
    synced.unwrap()
}

async fn is_found(index: &Index) -> bool {
    let found = index.search(&Query::new("parcels")).await.unwrap();
    !found.is_empty()
}

#[tokio::test(start_paused = true)]
async fn what_a_source_cannot_reach_stays_and_what_is_gone_is_removed() {
    let source = Served {
        answer: Arc::new(Mutex::new(content("Parcels come by noon.", "one"))),
        tags: Arc::default(),
        failures: Arc::new(AtomicUsize::new(2)),
    };
    let index = Index::in_memory(None).await.unwrap();
    // Two failures are waited out.
    let first = sync(&index, &source).await;
    assert_eq!((first.indexed, first.failed), (1, vec![]));

    source.failures.store(3, Ordering::Relaxed);
    let down = sync(&index, &source).await;
    let busy = [(String::from("page"), String::from("it is busy"))];
    assert_eq!((down.removed, down.failed), (0, busy.to_vec()));
    assert!(is_found(&index).await);

    *source.answer.lock().unwrap() = Reading::Unchanged;
    source.tags.lock().unwrap().clear();
    let same = sync(&index, &source).await;
    assert_eq!((same.unchanged, same.failed), (1, vec![]));
    assert_eq!(*source.tags.lock().unwrap(), [Some(String::from("one"))]);

    *source.answer.lock().unwrap() = Reading::Gone(String::from("it is gone"));
    let gone = sync(&index, &source).await;
    assert_eq!((gone.removed, gone.failed.len()), (1, 1));
    assert!(!is_found(&index).await);
    // It is told each time, removed once, and back when it is back.
    let gone = sync(&index, &source).await;
    assert_eq!((gone.removed, gone.failed.len()), (0, 1));
    *source.answer.lock().unwrap() = content("Parcels come by noon.", "two");
    assert_eq!(sync(&index, &source).await.indexed, 1);
    assert!(is_found(&index).await);
}
