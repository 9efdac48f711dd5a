//! Crashes a scenario at every commit, and checks that nothing differs.
//!
//! This is the method of SQLite's tests: run the work once and count its commits. Then, for each commit, run the work
//! again with a process that dies just before, and just after, the commit takes effect; start a new process over what
//! is left, let it go on, and compare.
//!
//! ```
//! use ghostlight_actors::{
//!     run::{Agent, RunContext},
//!     testing::{CrashOptions, Scenario, crash_everywhere},
//!     vocabulary::Outcome,
//! };
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let scenario = Scenario::new("echo", |builder, _log| {
//!     let agent = Agent::from_fn("echo", |cx: RunContext| async move {
//!         let id = cx.uuid().await?;
//!         Ok(Outcome::answer(format!("{} {id}", cx.input().content())))
//!     });
//!     builder.team(agent.into_team().expect("one agent is a team"))
//! })
//! .turn("hello");
//! let report = crash_everywhere(&scenario, CrashOptions::default()).await;
//! assert!(report.violations.is_empty(), "{report}");
//! assert_eq!(report.crashes, 2 * report.commits);
//! # }
//! ```

mod check;
mod options;
mod process;

pub use options::{CrashOptions, CrashReport};

use super::{Fault, Harm, Scenario, Strike};

/// One in this many disturbed lives is replayed.
const REPLAYED: u64 = 5;

/// Runs a scenario undisturbed, then once for every commit with a fault before and after it takes
/// effect, and checks that
///
/// * the outcomes are the same, unless a `once` call is in doubt, and so are the conversation that
///   the session keeps and what agents, tools and interceptors told of their own
///   ([`Event::Custom`](crate::vocabulary::Event::Custom)), whatever the order;
/// * every run of the tree has one end, and it is its last entry;
/// * what was recorded before the crash stands unchanged at the front of each journal;
/// * no call whose result was recorded ran again, no `once` effect began twice, none began before
///   its start was recorded, and one that was cut off is reported as being in doubt;
/// * replayed against the same code, what is recorded of each run is what the code asks for (of the
///   undisturbed life and of every fifth);
/// * each operation has one result, and the events read afterwards are one consistent sequence.
///
/// It must run on a current-thread runtime with paused time; it is deterministic then.
pub async fn crash_everywhere(scenario: &Scenario, options: CrashOptions) -> CrashReport {
    let mut report = CrashReport {
        scenario: scenario.name.clone(),
        ..CrashReport::default()
    };
    let calm = process::live_through(scenario, options, &[], true).await;
    check::check(&mut report, "undisturbed", &calm, None);
    report.commits = calm.commits;
    report.outcomes.clone_from(&calm.outcomes);
    let tried = options
        .calls
        .unwrap_or(calm.commits)
        .clamp(1, calm.commits.max(1));
    for place in 0..tried.min(calm.commits) {
        let call = 1 + place * calm.commits / tried;
        for strike in [Strike::Before, Strike::After] {
            let harm = options.harm;
            let first = Fault { call, strike, harm };
            disturb(&mut report, scenario, options, &calm, &[first]).await;
            for call in 1..=options.again {
                let second = Fault { call, ..first };
                disturb(&mut report, scenario, options, &calm, &[first, second]).await;
            }
        }
    }
    report
}

async fn disturb(
    report: &mut CrashReport,
    scenario: &Scenario,
    options: CrashOptions,
    calm: &process::Life,
    faults: &[Fault],
) {
    let places: Vec<String> = faults.iter().map(describe).collect();
    let is_replayed = report.crashes.is_multiple_of(REPLAYED);
    let life = process::live_through(scenario, options, faults, is_replayed).await;
    report.crashes += 1;
    check::check(report, &places.join(", then "), &life, Some(calm));
}

fn describe(fault: &Fault) -> String {
    let when = match fault.strike {
        Strike::Before => "before",
        Strike::After => "after",
    };
    let what = match fault.harm {
        Harm::Crash => "crash",
        Harm::Fail => "failure",
        Harm::FailForEver => "lasting failure",
    };
    format!("{what} {when} commit {}", fault.call)
}
