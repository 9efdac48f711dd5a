//! What evaluations promise, one file a promise.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod data;
mod evaluating;
mod forking;
mod forms;
mod official;
mod scoring;
mod statistics;
mod trajectories;
mod variants;
