//! Programs drawn from a seed, with everything in everything: races in joins in limits of time, held and dropped
//! calls, semaphores, children, transfers. They are disturbed at random: killed at commits, steered, cancelled in part,
//! answered, forked, and changed between lives.
//!
//! ```text
//! GHOSTLIGHT_SEED=17 cargo test -p ghostlight-actors --test programs whatever -- --nocapture
//! GHOSTLIGHT_SEEDS=1000 cargo test -p ghostlight-actors --test programs whatever -- --nocapture
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs
)]

mod disturbances;
mod drawing;
#[path = "../drawn/mod.rs"]
mod drawn;
mod functions;
mod lives;
mod planted;
mod promises;
#[path = "../records/mod.rs"]
mod records;
mod team;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

/// How many seeds are lived through when nobody says otherwise.
const SEEDS: u64 = 40;

fn number_in(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

/// Lives through a seed on a runtime of its own, with paused time.
fn live_through(seed: u64, shows: bool) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(lives::live_through(seed, shows))
}

#[test]
fn whatever_a_program_is_made_of_it_keeps_every_promise() {
    if let Some(seed) = number_in("GHOSTLIGHT_SEED") {
        live_through(seed, true);
        return;
    }
    let seeds = number_in("GHOSTLIGHT_SEEDS").unwrap_or(SEEDS);
    let first = number_in("GHOSTLIGHT_FIRST_SEED").unwrap_or(0);
    let began = Instant::now();
    let mut failed = Vec::new();
    for seed in first..first + seeds {
        let lived = catch_unwind(AssertUnwindSafe(|| live_through(seed, false)));
        if lived.is_err() {
            println!("GHOSTLIGHT_SEED={seed} failed");
            failed.push(seed);
        }
    }
    println!("{seeds} seeds in {:?}", began.elapsed());
    assert!(failed.is_empty(), "these seeds failed: {failed:?}");
}

#[test]
fn the_same_seed_draws_and_does_the_same() {
    for seed in 0..6 {
        let (first, second) = (live_through(seed, false), live_through(seed, false));
        let differs = first.lines().zip(second.lines()).find(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
}
