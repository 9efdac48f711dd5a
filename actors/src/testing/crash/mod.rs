//! Crash a scenario at every commit, and see that nothing differs.
//!
//! This is the method of SQLite's tests: run the work once and count its commits; then, for each
//! of them, run it again with a process that dies just before, and just after, that commit takes
//! effect; start a new process over what is left, let it go on, and compare.
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

use std::{fmt, sync::Arc, time::Duration};

use serde_json::Value;

use super::{EffectLog, Fault, Harm, Strike};
use crate::{
    actor::SystemBuilder,
    contract::InboxBody,
    run::operations::AgentMessage,
    vocabulary::{Question, QuestionKind},
};

type Build = Arc<dyn Fn(SystemBuilder, EffectLog) -> SystemBuilder + Send + Sync>;
type Policy = Arc<dyn Fn(&Question) -> Value + Send + Sync>;

/// Work for a System, with everything that comes to it from outside.
#[derive(Clone)]
pub struct Scenario {
    name: String,
    build: Build,
    team: String,
    turns: Vec<String>,
    /// Told to the root run of every turn, in this order.
    messages: Vec<InboxBody>,
    policy: Policy,
}

impl Scenario {
    /// Work for this team. `build` adds the team, its models and tools to the builder of each
    /// process's System; tools that log their calls come from the [`EffectLog`]. A model must
    /// answer by what it is asked and not by how often, since a call that a crash interrupted is
    /// made again (see [`ScriptedModel::turns`](super::ScriptedModel::turns)).
    pub fn new<F>(team: impl Into<String>, build: F) -> Self
    where
        F: Fn(SystemBuilder, EffectLog) -> SystemBuilder + Send + Sync + 'static,
    {
        let team = team.into();
        Self {
            name: team.clone(),
            build: Arc::new(build),
            team,
            turns: Vec::new(),
            messages: Vec::new(),
            policy: Arc::new(usual_answer),
        }
    }

    /// Sets what it is called in reports; the team's name when left out.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a turn; each is said when the one before has ended.
    #[must_use]
    pub fn turn(mut self, text: impl Into<String>) -> Self {
        self.turns.push(text.into());
        self
    }

    /// Adds a message that the root run of every turn is told. A message that is no JSON is
    /// told as null.
    #[must_use]
    pub fn message<M: AgentMessage>(mut self, message: &M) -> Self {
        let (name, value) = (M::NAME.to_owned(), serde_json::to_value(message));
        let value = value.unwrap_or_default();
        self.messages.push(InboxBody::Message { name, value });
        self
    }

    /// Sets how questions are answered. When left out, approvals and confirmations are given,
    /// the first option is chosen, and a text is `yes`.
    #[must_use]
    pub fn answers<F>(mut self, policy: F) -> Self
    where
        F: Fn(&Question) -> Value + Send + Sync + 'static,
    {
        self.policy = Arc::new(policy);
        self
    }
}

fn usual_answer(question: &Question) -> Value {
    match question.kind {
        QuestionKind::Approval | QuestionKind::Confirmation => Value::Bool(true),
        QuestionKind::InDoubt => Value::Bool(false),
        QuestionKind::Choice => question.options.first().cloned().into(),
        QuestionKind::Text => "yes".into(),
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scenario({})", self.name)
    }
}

/// How a scenario is crashed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CrashOptions {
    /// The seed of every process's chance.
    pub seed: u64,
    /// How long a process may take, in the runtime's time, before its work counts as hung.
    pub patience: Duration,
    /// How many of the next process's first commits are crash points too, each in a run of its
    /// own: crashes during recovery.
    pub again: u64,
    /// What strikes: the process dies, or a commit fails and the process goes on.
    pub harm: Harm,
}

impl Default for CrashOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            patience: Duration::from_secs(600),
            again: 0,
            harm: Harm::Crash,
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

    /// Sets how many of the recovering process's first commits are crash points too.
    #[must_use]
    pub fn again(mut self, commits: u64) -> Self {
        self.again = commits;
        self
    }

    /// Sets what strikes.
    #[must_use]
    pub fn harm(mut self, harm: Harm) -> Self {
        self.harm = harm;
        self
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CrashReport {
    /// The scenario.
    pub scenario: String,
    /// How many commits the undisturbed run made.
    pub commits: u64,
    /// How many disturbed runs there were.
    pub crashes: u64,
    /// How many of them ended with a `once` call in doubt. Their outcome may differ: nobody can
    /// know whether the call happened, and it was not repeated.
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
/// * the outcomes are the same, unless a `once` call is in doubt, and so is the conversation that
///   the session keeps;
/// * every run of the tree has one end, and it is its last entry;
/// * what was recorded before the crash stands unchanged at the front of each journal;
/// * no call whose result was recorded ran again, no `once` effect began twice, none began before
///   its start was recorded, and one that was cut off is reported as being in doubt;
/// * each operation has one result, and the events read afterwards are one consistent sequence.
///
/// It must run on a current-thread runtime with paused time; it is deterministic then.
pub async fn crash_everywhere(scenario: &Scenario, options: CrashOptions) -> CrashReport {
    let mut report = CrashReport {
        scenario: scenario.name.clone(),
        ..CrashReport::default()
    };
    let calm = process::live_through(scenario, options, &[]).await;
    check::check(&mut report, "undisturbed", &calm, None);
    report.commits = calm.commits;
    report.outcomes.clone_from(&calm.outcomes);
    for call in 1..=calm.commits {
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
    let life = process::live_through(scenario, options, faults).await;
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
