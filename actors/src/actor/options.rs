//! The bounds of a System.

use std::time::Duration;

use super::{
    ExecutorOptions, GatewayOptions, Retention,
    supervisor::{Backoff, Intensity},
};

/// The bounds of a System.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SystemOptions {
    /// How many turns may be on their way into sessions at once; past it `send` answers
    /// [`SystemError::Overloaded`](crate::actor::SystemError::Overloaded) at once.
    pub max_admissions: usize,
    /// How many turns wait in one session.
    pub max_queued_turns: usize,
    /// How many root runs are live at once; past it turns that would begin one are refused, and interrupted runs are
    /// left to other processes, or wait until others have ended.
    pub max_live_runs: usize,
    /// How long a run that waits for the outside stays in memory before it sleeps.
    pub linger: Duration,
    /// How long a session without anything to do stays in memory; 10 milliseconds at the least.
    pub passivate_after: Duration,
    /// How many sessions without anything to do stay in memory; past it those that have rested longest leave it.
    /// Their next turn reads them from the store.
    pub max_idle_sessions: usize,
    /// How often the System looks for messages that other processes posted to its runs. Messages of
    /// this process are seen at once. A store that hears of messages ([`Mailboxes::news`](crate::contract::Mailboxes::news))
    /// has the System look at once, and otherwise only every second, or less often if this is longer.
    pub poll_interval: Duration,
    /// The bound on a run's journal, in entries; past it operations fail as over budget.
    pub max_entries: u64,
    /// How often a run's function may crash without recording anything in between before its
    /// input counts as poison: a message that it received last is quarantined, a run that was
    /// delegated fails with [`AgentError::Crashed`](crate::vocabulary::AgentError::Crashed), any
    /// other run is parked with it. The count is durable; 0 is without bound.
    pub quarantine_after: u32,
    /// How many processes in a row may end with a run under way that records nothing in between before its input
    /// counts as poison, with the same consequences. From the third on it goes on after a random pause that grows to
    /// a minute at the most, so that the runs beside it get further meanwhile and are not taken for the cause. The count is
    /// durable; with 0 there are neither pauses nor a bound.
    pub fatal_after: u32,
    /// How often a run's function, or an agent below, may crash within a period, whatever it
    /// records in between. Past it the run is treated as one with a poisonous input, and so are the
    /// runs of an agent below.
    pub run_restarts: Intensity,
    /// The pause before a crashed function is run again or an agent below is started again.
    pub run_backoff: Backoff,
    /// Which ended runs and idle sessions are kept; all, when nothing is set. A System that recovers
    /// runs by itself deletes the others at its start and then at least hourly.
    pub retention: Retention,
    /// After what silence a run that no timer will wake ends as failed, with
    /// [`ErrorKind::Expired`](crate::vocabulary::ErrorKind::Expired); never, when nothing is set. A run that waits
    /// for a person is silent, too. A System that recovers runs by itself looks at its start and then at least hourly.
    pub expire_silent: Option<Duration>,
    /// The settings of model calls.
    pub gateway: GatewayOptions,
    /// The settings of tool calls.
    pub executor: ExecutorOptions,
}

impl Default for SystemOptions {
    fn default() -> Self {
        Self {
            max_admissions: 4096,
            max_queued_turns: 64,
            max_live_runs: 100_000,
            linger: Duration::from_secs(30),
            passivate_after: Duration::from_secs(300),
            max_idle_sessions: 1_000,
            poll_interval: Duration::from_millis(25),
            max_entries: 100_000,
            quarantine_after: 3,
            fatal_after: 10,
            run_restarts: Intensity::new(10, Duration::from_secs(60)),
            run_backoff: Backoff::exponential(Duration::from_millis(50), Duration::from_secs(5)),
            retention: Retention::default(),
            expire_silent: None,
            gateway: GatewayOptions::default(),
            executor: ExecutorOptions::default(),
        }
    }
}

setters!(SystemOptions {
    max_admissions: usize,
    max_queued_turns: usize,
    max_live_runs: usize,
    linger: Duration,
    passivate_after: Duration,
    max_idle_sessions: usize,
    poll_interval: Duration,
    max_entries: u64,
    quarantine_after: u32,
    fatal_after: u32,
    run_restarts: Intensity,
    run_backoff: Backoff,
    retention: Retention,
    gateway: GatewayOptions,
    executor: ExecutorOptions,
} or none {
    expire_silent: Duration,
});
