//! The promises, one module each; every test is named for what is promised.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../agents/mod.rs"]
mod agents;
mod budgets;
mod cancellation;
mod crash_everywhere;
mod divergence;
mod endless;
mod escalation;
mod events;
mod lost_actors;
mod memory;
mod overload;
mod ownership;
mod panics;
mod poison;
mod questions;
mod replay;
mod sessions;
mod stage;
