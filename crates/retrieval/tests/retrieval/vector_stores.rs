//! Vectors in a store of their own: an index finds with them what it finds with those in its memory.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ghostlight_actors::contract::EmbedderHandle;
use ghostlight_retrieval::{
    LexicalEmbedder,
    index::{
        Filter, InMemoryVectors, Index, IndexError, NewDocument, Query, Ranked, SyncOptions,
        VectorId, VectorStore, VectorStoreError,
    },
    searching::Searcher,
    vectors::Scan,
};

use crate::folder::Folder;

const DIMENSION: usize = 64;

fn embedder() -> EmbedderHandle {
    LexicalEmbedder::new(DIMENSION).into()
}

fn filled(name: &str) -> Folder {
    let folder = Folder::new(name);
    for (number, thing) in ["lamp", "chair", "table", "carpet", "kettle"]
        .iter()
        .enumerate()
    {
        let text = format!("# {thing}\n\nThe {thing} of room {number} is {thing}ish and old.");
        folder.write(&format!("{}/{thing}.md", ["up", "down"][number % 2]), text);
    }
    folder
}

async fn found(index: &Index, query: &Query) -> Vec<String> {
    let found = index.search(query).await.unwrap();
    found
        .iter()
        .map(|found| found.document.to_string())
        .collect()
}

/// Vectors in memory that cannot be reached at times.
#[derive(Clone)]
struct Failing {
    vectors: InMemoryVectors,
    is_down: Arc<AtomicBool>,
}

impl Failing {
    fn check(&self) -> Result<(), VectorStoreError> {
        match self.is_down.load(Ordering::Relaxed) {
            true => Err(VectorStoreError(String::from("no connection"))),
            false => Ok(()),
        }
    }
}

impl VectorStore for Failing {
    async fn ids(&self) -> Result<BTreeSet<VectorId>, VectorStoreError> {
        self.check()?;
        self.vectors.ids().await
    }

    async fn put(&self, vectors: Vec<(VectorId, Vec<f32>)>) -> Result<(), VectorStoreError> {
        self.check()?;
        assert!(vectors.len() <= 500);
        self.vectors.put(vectors).await
    }

    async fn remove(&self, ids: Vec<VectorId>) -> Result<(), VectorStoreError> {
        self.check()?;
        self.vectors.remove(ids).await
    }

    async fn nearest(
        &self,
        vector: Vec<f32>,
        limit: usize,
        scan: Scan,
        within: Option<Arc<BTreeSet<VectorId>>>,
    ) -> Result<Vec<(VectorId, f32)>, VectorStoreError> {
        self.check()?;
        self.vectors.nearest(vector, limit, scan, within).await
    }
}

#[tokio::test]
async fn an_index_finds_the_same_with_vectors_in_a_store_of_their_own() {
    let folder = filled("vectors-elsewhere");
    let store = InMemoryVectors::new(DIMENSION);
    let path = folder.path().join("elsewhere.index");
    let elsewhere = Index::open_with(&path, embedder(), store.clone())
        .await
        .unwrap();
    let own = Index::open(folder.index(), Some(embedder())).await.unwrap();
    let options = SyncOptions::default();
    for index in [&elsewhere, &own] {
        index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    }
    assert_eq!(store.ids().await.unwrap().len(), 5);
    assert_eq!(elsewhere.statistics().await.unwrap().vector_bytes, 0);
    let up = Filter {
        under: vec![String::from("up/")],
        ..Filter::default()
    };
    for text in ["kettlish", "the old carpet", "chair table"] {
        for ranked in [Ranked::Vectors, Ranked::Both] {
            for filter in [Filter::default(), up.clone()] {
                let query = Query::new(text).ranked(ranked).filter(filter);
                assert_eq!(
                    found(&elsewhere, &query).await,
                    found(&own, &query).await,
                    "{query:?}"
                );
            }
        }
    }
    // What is put, changed and removed is so in the store.
    let put = |text: &str| elsewhere.put(NewDocument::text("notes", "n", text), &options);
    put("# Sofa\n\nThe sofa is soft.").await.unwrap();
    put("# Sofa\n\nThe sofa is hard.").await.unwrap();
    assert_eq!(store.ids().await.unwrap().len(), 6);
    let query = Query::new("sofa hard").ranked(Ranked::Vectors).limit(1);
    assert_eq!(found(&elsewhere, &query).await, ["n"]);
    elsewhere.remove("notes", "n").await.unwrap();
    assert_eq!(store.ids().await.unwrap().len(), 5);
    elsewhere.close().await;

    // A store that lost its vectors, or holds others, is put right by the next sync, without an embedder's work.
    let other = InMemoryVectors::new(DIMENSION);
    let stray = VectorId([7; 16]);
    other
        .put(vec![(stray, vec![1.0; DIMENSION])])
        .await
        .unwrap();
    let again = Index::open_with(&path, embedder(), other.clone())
        .await
        .unwrap();
    let report = again.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert_eq!((report.unchanged, report.embedded), (5, 0));
    assert_eq!(other.ids().await.unwrap(), store.ids().await.unwrap());
}

#[tokio::test]
async fn a_store_that_cannot_be_reached_leaves_the_words() {
    let folder = filled("vectors-down");
    let store = Failing {
        vectors: InMemoryVectors::new(DIMENSION),
        is_down: Arc::default(),
    };
    let index = Index::open_with(folder.index(), embedder(), store.clone())
        .await
        .unwrap();
    let options = SyncOptions::default();
    index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    store.is_down.store(true, Ordering::Relaxed);
    let searcher = Searcher::new(index.clone());
    let result = searcher
        .search(&Query::new("old kettle").limit(1))
        .await
        .unwrap();
    assert_eq!(&*result.found[0].document, "up/kettle.md");
    assert!(
        result.left_out[0].contains("no connection"),
        "{:?}",
        result.left_out
    );
    let by_vectors = Query::new("old kettle").ranked(Ranked::Vectors);
    let failed = searcher.search(&by_vectors).await.unwrap_err();
    assert!(matches!(failed, IndexError::Vectors { .. }), "{failed:?}");
    // The documents are in the index, and the vectors follow with the next sync.
    folder.write("new.md", "# Mirror\n\nA mirror.");
    assert!(index.sync(folder.docs(), &options, |_| {}).await.is_err());
    store.is_down.store(false, Ordering::Relaxed);
    index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert_eq!(store.vectors.ids().await.unwrap().len(), 6);
}
