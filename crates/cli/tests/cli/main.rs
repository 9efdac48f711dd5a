//! The command as a person uses it: every test runs it in a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod answering;
mod asking;
mod attaching;
#[cfg(all(unix, feature = "full"))]
mod cards;
#[cfg(unix)]
mod chatting;
mod checking;
mod copying;
mod crashes;
#[cfg(feature = "full")]
mod editors;
#[cfg(feature = "full")]
mod evaluating;
#[cfg(feature = "full")]
mod evaluation_data;
#[cfg(feature = "full")]
mod evaluation_inputs;
#[cfg(all(unix, feature = "full"))]
mod failing_over;
mod files;
#[cfg(all(feature = "full", unix))]
mod foreign_agent;
mod forgotten;
#[cfg(all(unix, feature = "full"))]
mod held_back;
#[cfg(unix)]
mod hostile;
#[cfg(all(unix, feature = "full"))]
mod killed;
mod leaving;
mod listening;
#[cfg(target_os = "linux")]
mod long_prints;
mod lost_commits;
#[cfg(feature = "full")]
mod memory;
mod mistakes;
#[cfg(all(unix, feature = "full"))]
mod nodes;
#[cfg(feature = "full")]
mod optimising;
#[cfg(all(unix, feature = "full"))]
mod outages;
mod own_command;
mod page;
#[cfg(all(unix, feature = "full"))]
mod peers;
#[cfg(all(feature = "full", unix))]
mod processes;
mod pruning;
#[cfg(all(unix, feature = "full"))]
mod quotas;
#[cfg(feature = "full")]
mod rollouts;
mod running;
mod serving;
mod sessions;
mod setting_up;
#[cfg(feature = "full")]
mod small_model;
#[cfg(feature = "full")]
#[path = "../../../../tests/openai/small_server.rs"]
mod small_server;
mod speaking;
mod time_travel;
mod toiling;
#[cfg(all(unix, feature = "full"))]
mod trainer;
mod typewriter;
mod verbs;
