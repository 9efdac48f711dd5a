//! Sessions that sleep for long cost a System nothing: it reads the rows of none of them.

use std::time::{Duration, UNIX_EPOCH};

use ghostlight::stores::SqliteStore;
use ghostlight_actors::{
    actor::{System, SystemOptions},
    contract::{DynStore, RunFilter, RunStatus, StoreError},
    run::{Agent, RunContext},
    vocabulary::Outcome,
};
use rusqlite::Connection;

use crate::folder::Folder;

const SLEEPERS: u32 = 100_000;
/// How long the one run sleeps whose time comes.
const NAP: Duration = Duration::from_millis(700);

async fn start(store: &SqliteStore) -> System {
    let agent = Agent::from_fn("team", |cx: RunContext| async move {
        cx.sleep(NAP).await?;
        Ok(Outcome::answer("awake"))
    });
    let mut limits = SystemOptions::default();
    limits.linger = Duration::ZERO;
    let builder = System::builder(store.clone()).options(limits);
    let started = builder.team(agent.into_team().unwrap()).start().await;
    started.unwrap()
}

/// Rows of runs that sleep for a day, and that nobody can read: their checks are wrong.
fn fill(folder: &Folder) {
    let tomorrow = UNIX_EPOCH.elapsed().unwrap().as_millis() as i64 + 86_400_000;
    let connection = Connection::open(folder.store()).unwrap();
    let insert = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1) \
         INSERT INTO runs(run, root, session_team, session_key, team, agent, path, status, title, wake_at, \
             started_at, updated_at, digest) \
         SELECT id, id, 'team', id, 'team', 'team', '[\"team\"]', 'waiting', '', ?2 + n, n, n, zeroblob(32) \
         FROM (SELECT n, printf('ffffffff-ffff-4fff-bfff-%012x', n) AS id FROM n)";
    let inserted = connection.execute(insert, (SLEEPERS, tomorrow));
    assert_eq!(inserted.unwrap(), SLEEPERS as usize);
}

#[tokio::test]
async fn of_a_hundred_thousand_sleepers_only_those_are_read_whose_time_comes() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    let system = start(&store).await;
    let run = system.session("team", "nap").send("go").await.unwrap().id();
    while store.run(run).await.unwrap().unwrap().status != RunStatus::Waiting {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    system.stop().await.unwrap();
    drop(store);
    fill(&folder);
    let store = SqliteStore::open(folder.store()).unwrap();
    let mut filter = RunFilter::default();
    filter.limit = 1;
    (filter.open, filter.team) = (true, Some("team".to_owned()));
    filter.statuses = vec![RunStatus::Waiting];
    assert_eq!(store.runs(filter.clone()).await.unwrap()[0].run, run);
    filter.limit = 2;
    let unread = store.runs(filter).await.unwrap_err();
    assert!(matches!(unread, StoreError::Damaged { .. }), "{unread}");

    let system = start(&store).await;
    for _ in 0..3 {
        system.recover().await.unwrap();
    }
    let outcome = system.run(run).outcome().await.unwrap();
    assert_eq!(outcome.text(), "awake");
    system.stop().await.unwrap();
}
