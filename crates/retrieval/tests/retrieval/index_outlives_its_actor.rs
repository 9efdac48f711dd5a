//! The actor of an index may die at any instant, and the file may go away: nothing is lost but time.

use ghostlight_retrieval::{
    LexicalEmbedder,
    index::{Index, IndexError, Query, SyncOptions},
};

use crate::folder::{Counting, Folder};

async fn best(index: &Index, text: &str) -> String {
    let found = index.search(&Query::new(text)).await.unwrap();
    found
        .first()
        .map_or(String::new(), |found| found.document.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_actor_is_made_anew_and_every_question_is_answered() {
    let folder = Folder::new("killed");
    for number in 0..30 {
        folder.write(
            &format!("{number}.txt"),
            format!("The number of this text is word{number}x."),
        );
    }
    let index = Index::open(folder.index(), Some(LexicalEmbedder::new(32).into()))
        .await
        .unwrap();
    let syncing = tokio::spawn({
        let (index, docs) = (index.clone(), folder.docs());
        async move {
            index
                .sync(docs, &SyncOptions::default(), |_| {})
                .await
                .unwrap()
        }
    });
    let mut searches = Vec::new();
    for _ in 0..5 {
        let actor = index.supervisor().find_child("index").await.unwrap();
        if let Some(actor) = actor {
            actor.kill();
        }
        for number in 0..10 {
            let index = index.clone();
            searches.push(tokio::spawn(async move {
                index
                    .search(&Query::new(format!("word{number}x")))
                    .await
                    .map(drop)
            }));
        }
        tokio::task::yield_now().await;
    }
    for search in searches {
        search.await.unwrap().unwrap();
    }
    // The document that was being put when the actor died is put again: it may count as either.
    assert_eq!(syncing.await.unwrap().indexed, 30);
    for number in 0..30 {
        assert_eq!(
            best(&index, &format!("word{number}x")).await,
            format!("{number}.txt")
        );
    }
    assert_eq!(index.statistics().await.unwrap().documents, 30);
}

#[tokio::test]
async fn an_index_is_opened_again_and_other_vectors_are_refused_or_empty_it() {
    let folder = Folder::new("reopened");
    folder.write("a.txt", "parcels are brought");
    let open = async |version: Option<u32>| {
        let embedder = version.map(|version| {
            Counting {
                version,
                ..Counting::default()
            }
            .into()
        });
        Index::open(folder.index(), embedder).await
    };
    let index = open(Some(1)).await.unwrap();
    index
        .sync(folder.docs(), &SyncOptions::default(), |_| {})
        .await
        .unwrap();
    index.close().await;
    assert!(matches!(
        index.search(&Query::new("parcel")).await,
        Err(IndexError::Closed)
    ));
    let index = open(Some(1)).await.unwrap();
    assert_eq!(best(&index, "parcel").await, "a.txt");
    index.close().await;
    // Vectors of another model cannot be compared with these.
    for version in [Some(2), None] {
        let refused = open(version).await.unwrap_err();
        assert!(
            matches!(refused, IndexError::OtherVectors { .. }),
            "{refused}"
        );
        let embedder = version.map(|version| {
            Counting {
                version,
                ..Counting::default()
            }
            .into()
        });
        let index = Index::open_for(folder.index(), embedder).await.unwrap();
        assert_eq!(index.statistics().await.unwrap().chunks, 0);
        let report = index
            .sync(folder.docs(), &SyncOptions::default(), |_| {})
            .await
            .unwrap();
        assert_eq!(report.indexed, 1);
        assert_eq!(best(&index, "parcel").await, "a.txt");
        index.close().await;
    }
}

#[tokio::test]
async fn what_another_process_writes_is_found() {
    let folder = Folder::new("two");
    folder.write("a.txt", "parcels are brought");
    let one = Index::open(folder.index(), None).await.unwrap();
    let other = Index::open(folder.index(), None).await.unwrap();
    assert_eq!(best(&other, "parcel").await, "");
    one.sync(folder.docs(), &SyncOptions::default(), |_| {})
        .await
        .unwrap();
    assert_eq!(best(&other, "parcel").await, "a.txt");
    // It stands in another folder for the index, and nothing of it is touched by a sync of the first.
    let report = other
        .sync(folder.path(), &SyncOptions::default(), |_| {})
        .await
        .unwrap();
    assert_eq!((report.indexed, report.removed), (1, 0));
    assert_eq!(one.documents().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_file_that_is_no_index_is_left_as_it_is() {
    let folder = Folder::new("foreign");
    let refused = async |path| match Index::open(path, None).await {
        Err(IndexError::File { message, .. }) => message,
        other => panic!("{other:?}"),
    };
    let database = folder.path().join("store.db");
    let connection = rusqlite::Connection::open(&database).unwrap();
    connection
        .execute_batch("CREATE TABLE entries (id); INSERT INTO entries VALUES (1)")
        .unwrap();
    drop(connection);
    let before = std::fs::read(&database).unwrap();
    assert!(refused(database.clone()).await.contains("no index"));
    assert_eq!(std::fs::read(&database).unwrap(), before);

    let text = folder.path().join("letter.txt");
    std::fs::write(
        &text,
        "a letter that is longer than the header of a database. ".repeat(50),
    )
    .unwrap();
    let before = std::fs::read(&text).unwrap();
    assert!(refused(text.clone()).await.contains("not an index"));
    assert_eq!(std::fs::read(&text).unwrap(), before);
    assert!(refused(folder.docs()).await.contains("not a regular file"));
}

#[cfg(unix)]
#[tokio::test]
async fn only_its_user_can_read_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new("private");
    let index = Index::open(folder.path().join("new/folder/the.index"), None)
        .await
        .unwrap();
    let mode = std::fs::metadata(index.path())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}
