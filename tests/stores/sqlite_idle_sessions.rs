//! Idle sessions go from a file in short commits, however many there are.

use std::time::{Duration, Instant};

use ghostlight::stores::SqliteStore;
use ghostlight_actors::{
    actor::{Retention, Sessions},
    contract::{
        Append, Batch, Clock as _, DynStore, Line, RunRow, RunStatus, SessionFilter, StoreHandle,
        SystemClock,
    },
    vocabulary::{RunId, SessionId, Timestamp},
};

use crate::{folder::Folder, lines};

/// How many sessions there are. The figure of the guide was taken with 100,000.
fn number() -> u128 {
    let number = std::env::var("GHOSTLIGHT_TEST_SESSIONS").ok();
    number.map_or(400, |number| number.parse().unwrap())
}

fn session(number: u128) -> SessionId {
    SessionId {
        team: "team".into(),
        key: format!("s{number}").into(),
    }
}

fn said(at: Timestamp, texts: &[&str]) -> Vec<Line> {
    let said = lines(texts).into_iter();
    said.map(|line| Line { at, ..line }).collect()
}

/// A turn of a session: its entries, and a run of some entries that ended.
fn turn(number: u128, at: Timestamp) -> Batch {
    let run = RunId::from_random((number + 1) << 96);
    let mut row = RunRow::new(run, "team", "agent");
    (row.status, row.session) = (RunStatus::Answered, Some(session(number)));
    let entries = said(at, &["began", "ended"]);
    let mut batch = Batch::of(Append::new(session(number), 0, 1, entries));
    let run = Append::new(run, 0, 1, said(at, &["a", "b", "c", "d"]));
    batch.appends.push(run.row(row));
    batch
}

#[tokio::test]
async fn half_of_many_sessions_goes_and_a_turn_need_not_wait_for_it() {
    let (folder, number) = (Folder::new(), number());
    let old = (number / 2).min(2_000);
    let store = SqliteStore::open(folder.store()).unwrap();
    let (long_ago, now) = (Timestamp(1_763_000_000_000), SystemClock::new().now());
    let mut batches = Vec::new();
    for at in 0..number {
        let is_old = at < old;
        batches.push(turn(at, if is_old { long_ago } else { now }));
        if at + 1 == number || batches.len() == 1_000 {
            for told in store.commit(std::mem::take(&mut batches)).await.unwrap() {
                told.unwrap();
            }
        }
    }
    let idle = Retention::default().sessions_idle_for(Duration::from_secs(24 * 3600));
    let handle = StoreHandle::new(store.clone());
    let begun = Instant::now();
    let page = idle.idle_sessions(&handle, now, None).await.unwrap();
    let listed = begun.elapsed();
    assert_eq!(page.len() as u128, old);

    // Others write all the time.
    let kept = Sessions::of(handle);
    let begun = Instant::now();
    let pruning = tokio::spawn(async move { kept.prune(idle).await.unwrap() });
    let (mut longest, mut writes) = (Duration::ZERO, 0);
    while !pruning.is_finished() {
        let batch = Batch::of(Append::new(
            session(number),
            writes,
            1,
            said(now, &["more"]),
        ));
        let begun = Instant::now();
        store.commit(vec![batch]).await.unwrap().remove(0).unwrap();
        longest = longest.max(begun.elapsed());
        writes += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let pruned = pruning.await.unwrap();
    println!(
        "{old} of {number} sessions: a page in {listed:?}, all in {:?}, the longest of {writes} commits beside it {longest:?}",
        begun.elapsed()
    );
    assert_eq!(u128::from(pruned.sessions), old);
    assert_eq!(
        (pruned.trees, pruned.entries),
        (pruned.sessions, pruned.sessions * 6)
    );
    let left = store.sessions(SessionFilter::default()).await.unwrap();
    assert_eq!(left.len() as u128, number - old + 1);
    assert_eq!(
        store.runs(Default::default()).await.unwrap().len() as u128,
        number - old
    );
    store.verify().await.unwrap();
    if number <= 400 {
        // Far above what it takes, and far below what all of it together takes.
        assert!(longest < Duration::from_secs(2), "{longest:?}");
    }
}
