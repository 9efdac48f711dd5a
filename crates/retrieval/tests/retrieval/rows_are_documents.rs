//! The rows that a query of a database gives are documents: only what changed is read into the index.

use std::path::PathBuf;

use ghostlight_retrieval::index::{
    DocumentStatus, Index, IndexError, Query, Rows, SyncOptions, SyncReport,
};
use rusqlite::Connection;

use crate::folder::{Counting, Folder};

const SELECT: &str = "SELECT slug, '# ' || title || char(10, 10) || body FROM notes";

fn database(folder: &Folder) -> (PathBuf, Connection) {
    let path = folder.path().join("notes.db");
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(
            "CREATE TABLE notes (slug TEXT, title TEXT, body TEXT);
             INSERT INTO notes VALUES
                ('parcels', 'Parcels', 'They are brought by noon.'),
                ('letters', 'Letters', 'They are brought by bicycle.'),
                ('empty', 'Nothing', NULL);",
        )
        .unwrap();
    (path, database)
}

async fn sync(index: &Index, rows: &Rows) -> Result<SyncReport, IndexError> {
    index.sync_from(rows, &SyncOptions::default(), |_| {}).await
}

async fn found(index: &Index, text: &str) -> Vec<String> {
    let found = index.search(&Query::new(text)).await.unwrap();
    found.iter().map(|found| found.source()).collect()
}

#[tokio::test]
async fn rows_that_changed_are_indexed_and_those_that_are_gone_removed() {
    let folder = Folder::new("rows");
    let (path, database) = database(&folder);
    let embedder = Counting::default();
    let index = Index::open(folder.index(), Some(embedder.clone().into()))
        .await
        .unwrap();
    let rows = Rows::new(&path, SELECT);
    let first = sync(&index, &rows).await.unwrap();
    assert_eq!(
        (first.indexed, first.unchanged, first.failed),
        (2, 0, vec![])
    );
    assert_eq!(found(&index, "by noon").await[0], "parcels > Parcels");

    let again = sync(&index, &rows).await.unwrap();
    assert_eq!((again.indexed, again.unchanged, again.embedded), (0, 2, 0));

    // A change that leaves the size as it was is seen too.
    let changes = "UPDATE notes SET body = 'They are brought by zebras!!' WHERE slug = 'letters';
                   DELETE FROM notes WHERE slug = 'parcels';
                   INSERT INTO notes VALUES (7, 'Seven', 'Elephants travel free.')";
    database.execute_batch(changes).unwrap();
    let changed = sync(&index, &rows).await.unwrap();
    assert_eq!((changed.indexed, changed.removed), (2, 1));
    assert_eq!(found(&index, "zebras").await[0], "letters > Letters");
    assert_eq!(found(&index, "elephants").await[0], "7 > Seven");
    assert!(
        !found(&index, "noon")
            .await
            .contains(&String::from("parcels > Parcels"))
    );
}

#[tokio::test]
async fn a_folder_and_two_queries_share_an_index_without_taking_out_each_others_documents() {
    let folder = Folder::new("rows-and-files");
    let (path, _database) = database(&folder);
    folder.write("a.md", "Giraffes are tall.");
    let index = Index::open(folder.index(), None).await.unwrap();
    let some = Rows::new(&path, format!("{SELECT} WHERE slug = 'parcels'"));
    let others = Rows::new(&path, format!("{SELECT} WHERE slug <> 'parcels'"));
    for _ in 0..2 {
        for rows in [&some, &others] {
            assert_eq!(sync(&index, rows).await.unwrap().removed, 0);
        }
        let options = SyncOptions::default();
        let files = index.sync(folder.docs(), &options, |_| {}).await;
        assert_eq!(files.unwrap().removed, 0);
    }
    assert_eq!(index.documents().await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_query_that_writes_or_does_not_fit_is_refused_and_changes_nothing() {
    let folder = Folder::new("rows-refused");
    let (path, database) = database(&folder);
    let index = Index::open(folder.index(), None).await.unwrap();
    sync(&index, &Rows::new(&path, SELECT)).await.unwrap();
    for (select, why) in [
        ("DELETE FROM notes RETURNING slug, body", "must be a SELECT"),
        ("SELECT slug FROM notes", "two columns"),
        ("ATTACH 'other.db' AS other", "two columns"),
        ("SELECT slug, body FROM missing", "no such table"),
        ("SELECT 'same', title FROM notes", "stands in two rows"),
        ("SELECT slug, 1 FROM notes", "is not text"),
        ("SELECT 1.5, body FROM notes", "whole number"),
    ] {
        let error = sync(&index, &Rows::new(&path, select)).await.unwrap_err();
        assert!(error.to_string().contains(why), "{select}: {error}");
    }
    let missing = folder.path().join("missing.db");
    assert!(sync(&index, &Rows::new(&missing, SELECT)).await.is_err());
    assert!(!missing.exists());
    let kept: i64 = database
        .query_row("SELECT count(*) FROM notes", [], |row| row.get(0))
        .unwrap();
    assert_eq!((kept, index.documents().await.unwrap().len()), (3, 2));
}

#[tokio::test]
async fn a_text_that_is_too_large_fails_alone() {
    let folder = Folder::new("rows-large");
    let (path, _database) = database(&folder);
    let index = Index::open(folder.index(), None).await.unwrap();
    let mut options = SyncOptions::default();
    options.max_file_bytes = 38;
    let rows = Rows::new(&path, SELECT);
    let report = index.sync_from(&rows, &options, |_| {}).await.unwrap();
    assert_eq!(report.indexed, 1);
    assert!(
        report.failed[0].1.contains("larger than 38 bytes"),
        "{report:?}"
    );
    let documents = index.documents().await.unwrap();
    assert!(
        documents
            .iter()
            .any(|row| row.status == DocumentStatus::Indexed)
    );
}
