//! What a query finds.

use ghostlight_retrieval::{
    LexicalEmbedder,
    index::{Filter, Index, IndexError, Probe, Query, Ranked, SyncOptions},
};

use crate::folder::Folder;

async fn index(folder: &Folder, with_vectors: bool) -> Index {
    let embedder = with_vectors.then(|| LexicalEmbedder::default().into());
    let index = Index::open(folder.index(), embedder).await.unwrap();
    let report = index
        .sync(folder.docs(), &SyncOptions::default(), |_| {})
        .await
        .unwrap();
    assert!(report.failed.is_empty());
    index
}

async fn names(index: &Index, query: Query) -> Vec<String> {
    let found = index.search(&query).await.unwrap();
    found
        .iter()
        .map(|found| found.document.to_string())
        .collect()
}

#[tokio::test]
async fn words_of_every_script_are_found() {
    let folder = Folder::new("scripts");
    folder.write("ja.md", "# 再開\n\n実行を再開する方法。");
    folder.write("he.txt", "איך לחדש ריצה לאחר קריסה");
    folder.write("ar.txt", "كيفية استئناف التشغيل بعد العطل");
    folder.write("emoji.txt", "deploys are 🚀 fast 👩‍👩‍👧‍👦");
    folder.write("en.txt", "How to resume a run");
    for with_vectors in [false, true] {
        let index = index(&folder, with_vectors).await;
        for (query, wanted) in [
            ("実行の再開", "ja.md"),
            ("לחדש קריסה", "he.txt"),
            ("استئناف", "ar.txt"),
            ("fast deploys 🚀", "emoji.txt"),
            ("resuming runs", "en.txt"),
        ] {
            assert_eq!(names(&index, Query::new(query)).await[0], wanted, "{query}");
        }
        index.close().await;
        std::fs::remove_file(folder.index()).unwrap();
    }
}

#[tokio::test]
async fn vectors_find_what_words_do_not() {
    let folder = Folder::new("hybrid");
    folder.write("a.txt", "Resumption after a failure.");
    folder.write("b.txt", "Elephants are heavy.");
    let index = index(&folder, true).await;
    let query = |ranked| Query::new("resumptions failing").ranked(ranked);
    assert_eq!(
        names(&index, Query::new("resumptive").ranked(Ranked::Words)).await,
        [""; 0]
    );
    assert_eq!(
        names(&index, Query::new("resumptive").ranked(Ranked::Vectors)).await[0],
        "a.txt"
    );
    assert_eq!(names(&index, Query::new("resumptive")).await[0], "a.txt");
    // Both rankings have it first: 2 / 61.
    let found = index.search(&query(Ranked::Both)).await.unwrap();
    assert!((found[0].score - 2.0 / 61.0).abs() < 1e-9, "{found:?}");
    let without = Index::open(folder.path().join("words.index"), None)
        .await
        .unwrap();
    without
        .sync(folder.docs(), &SyncOptions::default(), |_| {})
        .await
        .unwrap();
    let refused = without.search(&query(Ranked::Vectors)).await;
    assert!(matches!(refused, Err(IndexError::Query(_))), "{refused:?}");
    assert_eq!(names(&without, query(Ranked::Both)).await[0], "a.txt");
}

#[tokio::test]
async fn a_filter_is_met_by_all_that_is_found() {
    let folder = Folder::new("filter");
    for name in ["guides/a.md", "guides/b.txt", "notes/c.md"] {
        folder.write(name, "the same text");
    }
    let index = index(&folder, true).await;
    let with = |filter| Query::new("same text").filter(filter);
    let under = Filter {
        under: vec!["guides/".into()],
        ..Filter::default()
    };
    let mut found = names(&index, with(under.clone())).await;
    found.sort();
    assert_eq!(found, ["guides/a.md", "guides/b.txt"]);
    let both = Filter {
        endings: vec![".md".into()],
        ..under
    };
    assert_eq!(names(&index, with(both)).await, ["guides/a.md"]);
    let elsewhere = Filter {
        folder: Some("/elsewhere".into()),
        ..Filter::default()
    };
    assert!(names(&index, with(elsewhere)).await.is_empty());
}

#[tokio::test]
async fn results_can_be_unlike_each_other_and_fit_several_texts() {
    let folder = Folder::new("diverse");
    folder.write("a.txt", "resume a run after a crash of the machine");
    folder.write("b.txt", "resume a run after a crash of the machine!");
    folder.write(
        "c.txt",
        "resume: see the page about sessions and conversations",
    );
    let index = index(&folder, true).await;
    let query = Query::new("resume a run after a crash").limit(2);
    assert_eq!(names(&index, query.clone()).await, ["a.txt", "b.txt"]);
    assert_eq!(
        names(&index, query.clone().diversity(0.7)).await,
        ["a.txt", "c.txt"]
    );
    let mut several = query
        .or(Probe::answer("sessions"))
        .or(Probe::new("conversations"));
    several.limit = 1;
    assert_eq!(names(&index, several).await, ["c.txt"]);
}

#[tokio::test]
async fn a_query_that_makes_no_sense_is_refused() {
    let folder = Folder::new("refused");
    let index = index(&folder, false).await;
    for query in [
        Query::new(" \n"),
        Query::new("x".repeat(10_001)),
        Query::new("x").limit(0),
        Query::new("x").limit(1_001),
    ] {
        let refused = index.search(&query).await;
        assert!(matches!(refused, Err(IndexError::Query(_))), "{refused:?}");
    }
    assert!(
        index
            .search(&Query::new("nothing is here"))
            .await
            .unwrap()
            .is_empty()
    );
}
