//! How a scenario is crashed, and the result.

use std::{fmt, time::Duration};

use crate::testing::Harm;

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
