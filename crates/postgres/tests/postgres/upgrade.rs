//! A rolling upgrade under load, and the versions of the tables.

use std::time::Duration;

use ghostlight_actors::contract::{DynStore as _, RunFilter, StoreError};
use ghostlight_postgres::{Options, PostgresStore};

use crate::{
    chaos::{Observer, Scene, check, load},
    fleet::{Node, Turns},
    outages::make,
    server::{Server, is_left_out},
};

const SESSIONS: usize = 24;

/// Two versions of the program are at work at once; then the old one drains and leaves.
#[tokio::test(flavor = "multi_thread")]
async fn two_versions_of_a_program_are_at_work_at_once_and_no_run_is_parked() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let scene = Scene::new();
    let options = |name: &str, version| scene.options(server.url(), name, version);
    let mut nodes = vec![
        Node::start(&options("old-0", 1)),
        Node::start(&options("old-1", 1)),
    ];
    let mut turns = Turns::default();
    let sessions: Vec<String> = (0..SESSIONS).map(|number| format!("w{number}")).collect();
    for (number, session) in sessions.iter().enumerate() {
        turns.begin(&mut nodes[number % 2], session);
    }
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let mut observer = Observer::of(&server);
    let time = (Duration::from_millis(1_200), true);
    load(&mut observer, &mut nodes, &mut turns, time).await;
    // The first machine gets the new program.
    nodes[0].drain();
    nodes[0] = Node::start(&options("new-0", 2));
    load(&mut observer, &mut nodes, &mut turns, time).await;
    // The new program dies: what it carried waits for the new one, although the old one lives.
    nodes[0].kill();
    load(&mut observer, &mut nodes, &mut turns, time).await;
    nodes[0] = Node::start(&options("new-1", 2));
    let carried: Vec<_> = store.nodes().await.unwrap();
    let versions: Vec<u32> = carried
        .iter()
        .filter(|node| node.lives)
        .flat_map(|node| node.carries.iter().map(|carried| carried.version))
        .collect();
    assert_eq!(versions, [1, 2], "{carried:?}");
    // The second machine follows. What the old process carried is free at once.
    nodes[1].drain();
    let left = nodes[1].id.clone();
    assert!(
        store
            .nodes()
            .await
            .unwrap()
            .iter()
            .all(|node| node.id != left)
    );
    nodes.remove(1);
    load(&mut observer, &mut nodes, &mut turns, time).await;
    let ends = (Duration::from_secs(60), false);
    load(&mut observer, &mut nodes, &mut turns, ends).await;
    check(&store, &scene, &turns, &[]).await;
    let ended = store.runs(RunFilter::default()).await.unwrap();
    for version in [1, 2] {
        assert!(ended.iter().any(|row| row.version == version));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_migrated_once_and_only_where_that_is_wanted() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let mut explicit = Options::default();
    explicit.migrate = false;
    let url = server.url();
    let version = async || {
        PostgresStore::schema_version(&url, &explicit)
            .await
            .unwrap()
    };
    let before = version().await;
    assert_eq!((before.found, before.pending().len()), (0, 2));
    assert!(before.pending().iter().all(|(_, about)| !about.is_empty()));
    let refused = PostgresStore::open_with(&url, &explicit).await.unwrap_err();
    assert!(
        matches!(
            refused,
            StoreError::TooOld {
                found: 0,
                known: 9,
                ..
            }
        ),
        "{refused}"
    );
    // Many migrate at once, and one of them does it.
    let each = (0..4).map(|_| PostgresStore::migrate(&url, &explicit));
    let befores = futures_util::future::join_all(each).await;
    let found: Vec<u32> = befores.into_iter().map(|b| b.unwrap().found).collect();
    assert_eq!(found.iter().filter(|found| **found == 0).count(), 1);
    assert!(version().await.pending().is_empty());
    let store = PostgresStore::open_with(&url, &explicit).await.unwrap();
    make(&store, 1).await.unwrap();
    store.close().await.unwrap();

    // A store of a version that was never promised to be read is left as it is.
    let client = server.client().await;
    client
        .batch_execute("SET search_path = ghostlight; UPDATE version SET number = 7")
        .await
        .unwrap();
    for options in [Options::default(), explicit.clone()] {
        let refused = [
            PostgresStore::open_with(&url, &options).await.map(drop),
            PostgresStore::migrate(&url, &options).await.map(drop),
            PostgresStore::schema_version(&url, &options)
                .await
                .map(drop),
        ];
        for refused in refused {
            let refused = refused.unwrap_err();
            let is_told = matches!(
                refused,
                StoreError::NoLongerRead {
                    found: 7,
                    oldest: 8,
                    ..
                }
            );
            assert!(is_told, "{refused}");
        }
    }
    client
        .batch_execute("UPDATE version SET number = 9")
        .await
        .unwrap();
    let store = PostgresStore::open(&url).await.unwrap();
    assert_eq!(store.runs(RunFilter::default()).await.unwrap().len(), 1);
    client
        .batch_execute("INSERT INTO version VALUES (10)")
        .await
        .unwrap();
    for options in [Options::default(), explicit.clone()] {
        let refused = PostgresStore::open_with(&url, &options).await.unwrap_err();
        assert!(matches!(refused, StoreError::TooNew { found: 10, .. }));
    }
}
