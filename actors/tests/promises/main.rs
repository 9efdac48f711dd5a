//! The promises, one module each; every test is named for what is promised.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../agents/mod.rs"]
mod agents;
mod approvals;
mod artifacts;
mod budgets;
mod cancellation;
mod cancelled_calls;
mod changed_code;
mod clarify;
mod crash_everywhere;
mod dead_store;
mod deadlines;
mod divergence;
mod durability;
mod edits;
mod endless;
mod escalation;
mod events;
mod fairness;
mod falling_asleep;
mod interceptors;
mod lost_actors;
mod memory;
mod mixed_batches;
mod outages;
mod outcomes;
mod overload;
mod ownership;
mod panics;
mod parent_policy;
mod poison;
mod questions;
mod reads;
mod replay;
mod retention;
mod schedules;
mod session_history;
mod sessions;
mod stage;
mod state;
mod taking_up;
mod time_travel;
mod tool_changes;
mod turns;
