//! A whole life of a team in a simulated world, with everything that can go wrong, from one seed.
//!
//! The method is that of FoundationDB and TigerBeetle: all of the program runs on one thread in
//! simulated time, everything that comes from outside is drawn from a seed, and what must hold is
//! checked after every seed. A seed that breaks a promise breaks it again whenever it is run.
//!
//! ```
//! use ghostlight_actors::{
//!     run::{Agent, RunContext},
//!     testing::{Scenario, Simulation},
//!     vocabulary::{Outcome, Question},
//! };
//!
//! # fn main() -> std::io::Result<()> {
//! let scenario = Scenario::new("clerk", |builder, _log| {
//!     let clerk = Agent::from_fn("clerk", |cx: RunContext| async move {
//!         let colour = cx.ask(Question::choice("Which?", ["red", "blue"])).await?;
//!         let id = cx.uuid().await?;
//!         Ok(Outcome::answer(format!("{colour} {id}")))
//!     });
//!     builder.team(clerk.into_team().expect("one agent is a team"))
//! });
//! let simulation = Simulation::new(scenario.turn("paint it"));
//! for seed in 0..20 {
//!     // Each seed has a runtime of its own, so that it is the same alone and among others.
//!     let runtime = tokio::runtime::Builder::new_current_thread()
//!         .enable_time()
//!         .start_paused(true)
//!         .build()?;
//!     let report = runtime.block_on(simulation.run(seed));
//!     assert!(report.violations.is_empty(), "{report}");
//! }
//! # Ok(())
//! # }
//! ```

mod chance;
mod check;
mod faults;
mod outside;
mod ports;
mod process;
mod set_up;
mod store;
mod world;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

pub use faults::Faults;
pub use set_up::Simulation;

use self::world::World;
use crate::vocabulary::Digest;

impl Simulation {
    /// Lives through one seed: processes start, meet faults and die, people begin turns, answer, cancel and watch;
    /// then faults stop and the rest of the work is done. Afterwards these promises are checked:
    ///
    /// * what anybody was told to be recorded is there, and nobody is told two outcomes;
    /// * every result in a journal was given by the model, tool or person that was asked;
    /// * no call ran whose result was recorded, whose run was cancelled or had ended, and no
    ///   `once` call ran twice or before its start was recorded;
    /// * each request to a model, and the conversation that a session keeps, is one that providers
    ///   take;
    /// * every run has one end, as its last entry; a session has its turns in order, each once;
    /// * children have their parents, and both have the same end; shared values were written as
    ///   often as is recorded; no run says that it spent more than is recorded below it;
    /// * what readers of events saw live is what the journals say.
    ///
    /// On a current-thread runtime of its own with paused time the same seed is the same life. On several threads
    /// each life differs and takes real time. The same promises must hold, except for how soon a cancellation is
    /// heard, which a loaded machine delays ([`Faults::cancels`]).
    pub async fn run(&self, seed: u64) -> SimulationReport {
        let world = Arc::new(World::new(seed, &self.faults));
        let processes = process::live(self, &world, seed).await;
        check::check(self, &world);
        let (image, story) = (check::image(&world), world.take_story());
        let ledger = world.ledger.lock();
        SimulationReport {
            scenario: self.scenario.name.clone(),
            seed,
            trace: Digest::of_parts(&[&image, story.as_bytes()]),
            processes,
            faults: ledger.struck.clone(),
            calls: ledger.begun.len(),
            outcomes: ledger.outcomes.values().cloned().collect(),
            took: world.elapsed(),
            story,
            violations: ledger.violations.clone(),
        }
    }
}

/// The result of one seed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SimulationReport {
    /// The scenario.
    pub scenario: String,
    /// The seed.
    pub seed: u64,
    /// The hash of all that happened and of all that is on the disk: equal for equal seeds.
    pub trace: Digest,
    /// How many processes there were.
    pub processes: u32,
    /// The faults that struck, and how often.
    pub faults: BTreeMap<&'static str, u64>,
    /// How many calls of tools began.
    pub calls: usize,
    /// The outcomes of the root runs, in words.
    pub outcomes: Vec<String>,
    /// How much simulated time the life took.
    pub took: Duration,
    /// The events, line by line.
    pub story: String,
    /// Every broken promise.
    pub violations: Vec<String>,
}

impl fmt::Display for SimulationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scenario,
            seed,
            processes,
            calls,
            took,
            violations,
            ..
        } = self;
        write!(
            f,
            "{scenario}, seed {seed}: {processes} processes, {calls} calls of tools, {took:?}, \
             {} violations",
            violations.len()
        )?;
        // The first few tell the story; a broken promise tends to break others.
        for violation in violations.iter().take(8) {
            write!(f, "\n  {violation}")?;
        }
        Ok(())
    }
}
