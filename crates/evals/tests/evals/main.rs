//! What evaluations promise, one file a promise.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod arguments;
mod combining;
mod data;
mod evaluating;
mod figures;
mod forking;
mod forms;
mod gating;
mod judging;
mod official;
mod optimising;
mod oracles;
mod preferring;
mod reads;
mod scoring;
mod statistics;
mod suspended;
mod trajectories;
mod trusting;
mod unreadable;
mod variants;
mod verdicts;
