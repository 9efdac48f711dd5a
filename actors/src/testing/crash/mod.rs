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
mod process;

use std::{fmt, time::Duration};

use super::{Fault, Harm, Scenario, Strike};

/// One in this many disturbed lives is replayed.
const REPLAYED: u64 = 5;

/// How a scenario is crashed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CrashOptions {
    /// The seed of every process's random numbers.
    pub seed: u64,
    /// How long a process may take, in the runtime's time, before its work counts as hung: ten minutes by default.
    /// Time in which a run sleeps does not count.
    pub patience: Duration,
    /// How many of the next process's first commits are crash points too, each in a run of its own: these are crashes
    /// during recovery.
    pub again: u64,
    /// The fault: the process dies, or a commit fails and the process goes on.
    pub harm: Harm,
    /// Where the fault strikes: at every commit, or, with a bound, at no more than that many store calls of any kind,
    /// spread evenly over all of them.
    pub calls: Option<u64>,
}

impl Default for CrashOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            patience: Duration::from_secs(600),
            again: 0,
            harm: Harm::Crash,
            calls: None,
        }
    }
}

impl CrashOptions {
    /// Sets the seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how long a process may take before its work counts as hung.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets how many of the recovering process's first commits are crash points too.
    #[must_use]
    pub fn again(mut self, commits: u64) -> Self {
        self.again = commits;
        self
    }

    /// Lets processes die at store calls of any kind, reads and claims included, and not only at commits. A scenario
    /// that waits makes thousands of calls, since mailboxes are polled 40 times a second: at most this many are tried,
    /// spread evenly.
    #[must_use]
    pub fn calls(mut self, most: u64) -> Self {
        self.calls = Some(most.max(1));
        self
    }

    /// Sets the fault.
    #[must_use]
    pub fn harm(mut self, harm: Harm) -> Self {
        self.harm = harm;
        self
    }
}

/// The result of crashing a scenario.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CrashReport {
    /// The scenario.
    pub scenario: String,
    /// How many commits the undisturbed run made, or how many store calls, where those are crash points.
    pub commits: u64,
    /// How many disturbed runs there were.
    pub crashes: u64,
    /// How many of them ended with a `once` call in doubt. Their outcome may differ, because nobody can know whether
    /// the call happened, and it was not repeated.
    pub in_doubt: u64,
    /// The outcomes of the undisturbed run, in words.
    pub outcomes: Vec<String>,
    /// Every broken promise, with the faults under which it broke.
    pub violations: Vec<String>,
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scenario,
            commits,
            crashes,
            in_doubt,
            violations,
            ..
        } = self;
        write!(
            f,
            "{scenario}: {commits} commits, {crashes} disturbed runs, {in_doubt} in doubt, {} \
             violations",
            violations.len()
        )?;
        // The first few tell the story; a broken promise tends to break everywhere.
        for violation in violations.iter().take(12) {
            write!(f, "\n  {violation}")?;
        }
        Ok(())
    }
}

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
