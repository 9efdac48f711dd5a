//! Drawn teams in a simulated world with every fault, seed after seed.
//!
//! ```text
//! GHOSTLIGHT_SEED=17 cargo nextest run -p ghostlight-actors --test simulation every_promise --no-capture
//! GHOSTLIGHT_SEEDS=10000 cargo test --config profile.dev.package.ghostlight-actors.opt-level=1 -p ghostlight-actors --test simulation every_promise -- --nocapture
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs
)]

mod defects;
#[path = "../drawn/mod.rs"]
mod drawn;
mod plan;
mod team;

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use ghostlight_actors::testing::{Faults, Simulation, SimulationReport};

fn number_in(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

/// Runs a future on a runtime of its own, with paused time.
pub(crate) fn alone<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(work)
}

fn live_through(seed: u64) -> SimulationReport {
    alone(Simulation::new(team::scenario(seed)).run(seed))
}

fn how_to_repeat(seed: u64) -> String {
    format!(
        "GHOSTLIGHT_SEED={seed} cargo nextest run -p ghostlight-actors --test simulation \
         every_promise_holds --no-capture"
    )
}

#[test]
fn every_promise_holds_for_every_seed() {
    if let Some(seed) = number_in("GHOSTLIGHT_SEED") {
        let report = live_through(seed);
        println!("{}\n{report}\ntrace {}", report.story, report.trace);
        assert!(report.violations.is_empty(), "{}", how_to_repeat(seed));
        return;
    }
    let seeds = number_in("GHOSTLIGHT_SEEDS").unwrap_or(40);
    let next = AtomicU64::new(number_in("GHOSTLIGHT_FIRST_SEED").unwrap_or(0));
    let end = next.load(Ordering::Relaxed) + seeds;
    let failed: Mutex<Vec<SimulationReport>> = Mutex::default();
    let totals: Mutex<BTreeMap<&'static str, u64>> = Mutex::default();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let report = live_through(seed);
                    let mut totals = totals.lock().unwrap();
                    for (fault, times) in &report.faults {
                        *totals.entry(fault).or_default() += times;
                    }
                    *totals.entry("(processes)").or_default() += u64::from(report.processes);
                    *totals.entry("(calls of tools)").or_default() += report.calls as u64;
                    *totals.entry("(simulated seconds)").or_default() += report.took.as_secs();
                    drop(totals);
                    if !report.violations.is_empty() {
                        failed.lock().unwrap().push(report);
                    }
                }
            });
        }
    });
    println!(
        "{seeds} seeds in {:?}: {:#?}",
        began.elapsed(),
        totals.lock().unwrap()
    );
    let failed = failed.into_inner().unwrap();
    for report in failed.iter().take(10) {
        println!("{report}\n  repeat it: {}", how_to_repeat(report.seed));
    }
    assert!(
        failed.is_empty(),
        "{} of {seeds} seeds failed",
        failed.len()
    );
}

/// Tool calls have tasks of their own there, and what is drawn happens side by side for real. The
/// lives wait rather than compute, so that they are led all at once.
#[test]
fn every_promise_holds_on_several_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .unwrap();
    let mut faults = Faults::all();
    (faults.crashes, faults.cancels) = (1, 0.0);
    let runtime = runtime.handle();
    std::thread::scope(|scope| {
        let lives: Vec<_> = (0..24)
            .map(|seed| {
                let simulation = Simulation::new(team::scenario(seed)).faults(faults);
                scope.spawn(move || runtime.block_on(simulation.run(seed)))
            })
            .collect();
        for life in lives {
            let report = life.join().unwrap();
            assert!(report.violations.is_empty(), "{report}\n{}", report.story);
        }
    });
}

#[test]
fn the_same_seed_is_the_same_life() {
    for seed in 0..12 {
        let (first, second) = (live_through(seed), live_through(seed));
        let differs = first.story.lines().zip(second.story.lines());
        let differs = differs.clone().position(|(a, b)| a != b).map(|place| {
            let near = |story: &str| {
                story
                    .lines()
                    .skip(place)
                    .take(3)
                    .collect::<Vec<_>>()
                    .join("\n")
            };
            format!(
                "line {place}:\n{}\nand\n{}",
                near(&first.story),
                near(&second.story)
            )
        });
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}

/// Hashes with random keys and counters of the process are others in another process.
#[test]
fn the_same_seed_is_the_same_life_in_another_process() {
    const ASKED: &str = "GHOSTLIGHT_TRACE_OF";
    if let Some(seed) = number_in(ASKED) {
        println!("trace {}", live_through(seed).trace);
        return;
    }
    // What ran here before moves the counters.
    live_through(3);
    for seed in [1, 5] {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "the_same_seed_is_the_same_life_in_another_process",
                "--exact",
                "--nocapture",
            ])
            .env(ASKED, seed.to_string())
            .output()
            .unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let expected = format!("trace {}", live_through(seed).trace);
        assert!(
            told.contains(&expected),
            "seed {seed}: {expected}, and {told}"
        );
    }
}
