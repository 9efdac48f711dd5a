//! Rows of a PostgreSQL database are documents.

use std::time::Duration;

use ghostlight::{
    documents::{DatabaseSpec, DocumentSpec, IndexedFolder},
    models::Secret,
    retrieval::{index::Query, readers::Readers},
};

use crate::server::{QUICK, Server, is_left_out};

const SELECT: &str = "SELECT id, '# ' || title || E'\\n' || body, team FROM pages";

async fn found(folder: &IndexedFolder, words: &str) -> Vec<String> {
    let searcher = folder.searcher().await.unwrap();
    let found = searcher.index().search(&Query::new(words)).await.unwrap();
    found
        .iter()
        .map(|found| found.document.to_string())
        .collect()
}

#[test]
fn a_database_is_either_a_file_or_a_server() {
    let url = || Secret::value("postgres://localhost/notes");
    let mut both = DatabaseSpec::of_server(url(), SELECT);
    both.file = "notes.db".into();
    for database in [both, DatabaseSpec::of_file("", SELECT)] {
        let spec = DocumentSpec::of_rows(database);
        let refused = IndexedFolder::new(spec, Readers::default()).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains("either `file` or `url`"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_server_are_indexed_followed_and_never_changed() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&QUICK);
    server.sql("CREATE TABLE pages (id bigint, title text, body text, team text)");
    server.sql(
        "INSERT INTO pages VALUES (1, 'Tea', 'Green tea is steeped at 80 degrees.', 'kitchen')",
    );
    server.sql("INSERT INTO pages VALUES (2, 'Bikes', 'Chains are oiled in spring.', NULL), (3, 'Gone', NULL, NULL)");
    let folder = |select: &str| {
        let url = Secret::value(server.url());
        let mut spec = DocumentSpec::of_rows(DatabaseSpec::of_server(url, select));
        spec.refresh = Duration::ZERO;
        IndexedFolder::new(spec, Readers::default()).unwrap()
    };
    let pages = folder(SELECT);
    assert_eq!(found(&pages, "steeped tea").await, ["1"]);
    server.sql("UPDATE pages SET body = 'Black tea is poured at 95 degrees.' WHERE id = 1");
    server.sql("DELETE FROM pages WHERE id = 2");
    assert_eq!(found(&pages, "poured").await, ["1"]);
    assert!(found(&pages, "oiled chains").await.is_empty());

    // A statement that changes something is refused in every spelling, and so is a query without two columns.
    for (select, reason) in [
        (
            "DELETE FROM pages RETURNING id, body",
            "read-only transaction",
        ),
        (
            "SELECT id, body FROM pages; DROP TABLE pages",
            "multiple commands",
        ),
        ("COMMIT", "two columns"),
        ("SELECT id FROM pages", "two columns"),
        (
            "SELECT id, body FROM pages UNION ALL SELECT id, body FROM pages",
            "stands in two rows",
        ),
        ("SELECT id, body FROM nowhere", "nowhere"),
    ] {
        let refused = folder(select).searcher().await.unwrap_err().to_string();
        assert!(refused.contains(reason), "{select}: {refused}");
    }
    assert_eq!(
        found(&folder(SELECT), "poured").await,
        ["1"],
        "nothing was changed"
    );
}
