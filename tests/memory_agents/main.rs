//! Agents that remember, from the team file to the model's request.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod agents;
mod conversations;
mod embedders;
mod goals;
mod looking_back;
#[cfg(feature = "server")]
mod messengers;
mod stage;
