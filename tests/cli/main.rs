//! The command as a person uses it: every test runs it in a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod answering;
mod asking;
mod attaching;
#[cfg(all(unix, feature = "a2a", feature = "server"))]
mod cards;
#[cfg(unix)]
mod chatting;
mod checking;
mod copying;
mod crashes;
#[cfg(feature = "acp")]
mod editors;
#[cfg(feature = "evals")]
mod evaluating;
#[cfg(feature = "evals")]
mod evaluation_data;
#[cfg(all(unix, feature = "postgres", feature = "server"))]
mod failing_over;
mod files;
#[cfg(all(feature = "acp", unix))]
mod foreign_agent;
mod forgotten;
#[cfg(all(
    unix,
    feature = "a2a",
    feature = "anp",
    feature = "mcp",
    feature = "server"
))]
mod held_back;
#[cfg(unix)]
mod hostile;
#[cfg(all(
    unix,
    feature = "a2a",
    feature = "anp",
    feature = "mcp",
    feature = "server"
))]
mod killed;
mod leaving;
mod listening;
mod lost_commits;
#[cfg(feature = "memory")]
mod memory;
mod mistakes;
#[cfg(all(unix, feature = "postgres", feature = "server"))]
mod nodes;
#[cfg(feature = "evals")]
mod optimising;
mod own_command;
mod page;
#[cfg(all(unix, feature = "postgres", feature = "server"))]
mod peers;
#[cfg(all(feature = "acp", unix))]
mod processes;
mod pruning;
#[cfg(all(unix, feature = "server"))]
mod quotas;
#[cfg(feature = "evals")]
mod rollouts;
mod running;
mod serving;
mod sessions;
mod setting_up;
mod speaking;
mod time_travel;
mod toiling;
mod typewriter;
mod verbs;
