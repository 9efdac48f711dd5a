//! The Agent Client Protocol (ACP, version 1): teams of agents for editors, and agents in child
//! processes as members of teams.
//!
//! **A protocol is a translation of turns and events, and nothing else.** A session of the protocol is a session of the
//! store, a prompt is a turn, updates are made of recorded events, and a permission request is a question. The
//! protocol keeps nothing that the journal does not hold.

pub mod protocol;
pub mod translation;
pub mod wire;

mod client;
mod server;

pub use client::{ProcessAgent, ProcessBehavior, ProcessOptions, ProcessToolset};
pub use server::{AcpServer, AcpServerError};
