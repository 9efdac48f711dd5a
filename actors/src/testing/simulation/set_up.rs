//! The set-up of a simulation.

use std::{fmt, sync::Arc, time::Duration};

use super::faults::Faults;
use crate::{
    contract::StoreHandle,
    testing::{InMemoryStore, Scenario},
};

type Disk = Arc<dyn Fn(InMemoryStore) -> StoreHandle + Send + Sync>;

/// A team in a simulated world: its work, its sessions, and its faults.
#[derive(Clone)]
pub struct Simulation {
    pub(super) scenario: Scenario,
    pub(super) faults: Faults,
    pub(super) sessions: u32,
    pub(super) patience: Duration,
    pub(super) disk: Disk,
}

impl Simulation {
    /// A simulation of this work, in two sessions side by side, with [every fault](Faults::all).
    ///
    /// The scenario's own function starts each process. A wrapper around each model and tool delays, fails and
    /// observes, so agents, models and tools are those of the program itself, as long as they take time and
    /// randomness from their context. Bounds that the scenario sets on the builder win over those that the seed
    /// draws.
    pub fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            faults: Faults::all(),
            sessions: 2,
            patience: Duration::from_secs(600),
            disk: Arc::new(|disk| disk.into()),
        }
    }

    /// Sets the upper bounds of the faults.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Sets how many sessions run the scenario's turns side by side.
    #[must_use]
    pub fn sessions(mut self, sessions: u32) -> Self {
        self.sessions = sessions;
        self
    }

    /// Sets how long the last process, which meets no faults, may take in simulated time before
    /// its work counts as hung.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Puts a store of the caller's own between each process and the simulated disk, such as one that encrypts. It
    /// must not take time.
    #[must_use]
    pub fn disk<F>(mut self, disk: F) -> Self
    where
        F: Fn(InMemoryStore) -> StoreHandle + Send + Sync + 'static,
    {
        self.disk = Arc::new(disk);
        self
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("scenario", &self.scenario)
            .field("faults", &self.faults)
            .field("sessions", &self.sessions)
            .finish_non_exhaustive()
    }
}
