//! The stores keep their promises.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs
)]

mod folder;
mod sqlite_absence;
mod sqlite_commits;
mod sqlite_conformance;
mod sqlite_damage;
mod sqlite_deletion;
mod sqlite_durability;
#[cfg(unix)]
mod sqlite_every;
mod sqlite_files;
mod sqlite_idle_sessions;
mod sqlite_mailbox;
mod sqlite_pictures;
mod sqlite_processes;
mod sqlite_refusals;
mod sqlite_sectors;
mod sqlite_sleepers;

use ghostlight_actors::{
    contract::{Append, Batch, Committed, Line, RunRow, Store, StoreError},
    vocabulary::{RunId, Timestamp},
};

fn run(number: u8) -> RunId {
    RunId::from_random(u128::from(number) << 120)
}

fn lines(texts: &[&str]) -> Vec<Line> {
    let line = |text: &&str| Line {
        at: Timestamp(1_763_000_000_000),
        text: serde_json::Value::from(*text).to_string().into(),
    };
    texts.iter().map(line).collect()
}

/// The batch that makes a run with these entries.
fn making(number: u8, texts: &[&str]) -> Batch {
    let row = RunRow::new(run(number), "team", "agent");
    Batch::of(Append::new(run(number), 0, 1, lines(texts)).row(row))
}

fn appending(number: u8, expected: u64, texts: &[&str]) -> Batch {
    Batch::of(Append::new(run(number), expected, 1, lines(texts)))
}

async fn commit(store: &impl Store, batch: Batch) -> Result<Committed, StoreError> {
    store.commit(vec![batch]).await?.remove(0)
}

async fn texts(store: &impl Store, number: u8) -> Result<Vec<String>, StoreError> {
    let lines = store.read(run(number).into(), 0, usize::MAX).await?;
    let text = |line: &Line| serde_json::from_str(&line.text).unwrap();
    Ok(lines.iter().map(|stored| text(&stored.line)).collect())
}
