//! What the behaviors promise, with the real System, a scripted model and a store in memory.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod adaptive;
mod artifacts;
mod beyond;
mod boards;
mod by_hand;
mod called;
mod context;
mod crashes;
mod cut_answers;
mod evidence;
mod function_calling;
mod gates;
mod hooks;
mod instructions;
mod interleavings;
mod invariants;
mod large;
mod long_loops;
mod own_functions;
mod plan_and_solve;
mod policies;
mod questions;
mod react;
mod reflection;
mod restarts;
mod rewoo;
mod scenarios;
mod self_reflection;
mod simulated;
mod sizes;
mod soft_budgets;
mod stage;
mod steering;
mod streaming;
mod throttle;

mod windows;
mod workflow_steering;
