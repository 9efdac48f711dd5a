//! The test kit for the engine, for stores and for users' own agents.
//!
//! [`InMemoryStore`] also keeps the runs of a team whose durability is `memory`.

mod crash;
mod effect_log;
mod faulty_store;
mod kill_run;
mod provider_rules;
mod scenario;
mod schema_rules;
mod scripted_model;
mod simulated_clock;
mod simulation;
pub mod store_conformance;

pub use crate::contract::InMemoryStore;
pub use crash::{CrashOptions, CrashReport, crash_everywhere};
pub use effect_log::{EffectLog, LoggedEffect, LoggedTool};
pub use faulty_store::{Fault, FaultyStore, Harm, Strike};
pub use kill_run::kill_run;
pub use provider_rules::{check_sent, check_transcript};
pub use scenario::Scenario;
pub use scripted_model::{
    Reply, Script, ScriptOrder, ScriptedCall, ScriptedModel, ScriptedReply, SeenRequest,
};
pub use simulated_clock::SimulatedClock;
pub use simulation::{Faults, Simulation, SimulationReport};
