//! The disturbances of a run: steering, messages, answers, cancellations, forks, and runs that are taken up again while they
//! are under way, as people and other programs make them.

use ghostlight_actors::{
    actor::{Fork, System},
    contract::{RunRow, RunStatus},
    vocabulary::{Entry, OperationId},
};
use serde_json::json;

use crate::{drawing::Draw, functions::Order, lives::World};

/// How many forks one seed has at the most.
const FORKS: u32 = 4;

/// Disturbs one run in one way. The System may refuse the disturbance, which is no fault.
pub(crate) async fn disturb(system: &System, draw: &Draw, world: &mut World) {
    let rows = world.rows().await;
    let open: Vec<_> = rows.iter().filter(|row| !row.status.is_ended()).collect();
    if open.is_empty() {
        return;
    }
    let row = open[draw.below(open.len() as u64) as usize];
    let run = system.run(row.run);
    match draw.below(14) {
        0 | 1 => drop(run.steer(format!("s{}", draw.below(100))).await),
        2 => drop(run.tell(&Order(draw.below(10))).await),
        3 | 4 => {
            let under_way = under_way(&world.entries(row.run).await);
            if !under_way.is_empty() {
                drop(run.cancel_call(draw.one_of(&under_way)).await);
            }
        }
        5 if world.forks < FORKS => fork(system, draw, world, &rows).await,
        6 if draw.below(8) == 0 => {
            if run.cancel("drawn").await.is_ok_and(|heard| heard) {
                world.cancelled.push((row.run, world.now()));
            }
        }
        7 => drop(run.retry().await),
        8 => drop(system.recover().await),
        _ => answer(system, draw).await,
    }
}

async fn fork(system: &System, draw: &Draw, world: &mut World, rows: &[RunRow]) {
    let row = &rows[draw.below(rows.len() as u64) as usize];
    let entries = world.entries(row.run).await.len() as u64;
    let fork = Fork::at(1 + draw.below(entries));
    let fork = match draw.below(3) {
        0 => fork.input("meanwhile"),
        _ => fork,
    };
    if system.run(row.run).fork(fork).await.is_ok() {
        world.forks += 1;
    }
}

/// The operations that began and have not ended.
fn under_way(entries: &[Entry]) -> Vec<OperationId> {
    let mut started: Vec<OperationId> = Vec::new();
    for entry in entries {
        match entry {
            Entry::Started { op, .. } => started.push(*op),
            Entry::Completed { op, .. } | Entry::Dropped { op, .. } => {
                started.retain(|started| started != op);
            }
            _ => {}
        }
    }
    started
}

/// Answers every open question.
pub(crate) async fn answer(system: &System, draw: &Draw) {
    for (run, op, question) in system.open_questions().await.unwrap() {
        let value = match question.options.first() {
            Some(option) => json!(option),
            None => json!(draw.below(2) == 0),
        };
        drop(system.run(run).answer(op, value).await);
    }
}

/// Whether there are runs, and all have ended.
pub(crate) fn is_over(rows: &[RunRow]) -> bool {
    !rows.is_empty() && rows.iter().all(|row: &RunRow| row.status.is_ended())
}

/// The run that waits for other code, if there is one.
pub(crate) fn parked(rows: &[RunRow]) -> Option<&RunRow> {
    rows.iter().find(|row| row.status == RunStatus::Parked)
}
