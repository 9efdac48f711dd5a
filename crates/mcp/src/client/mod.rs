//! Tools of servers, for agents.

mod connection;
mod content;
mod definition;
mod error;
mod handler;
mod http;
mod import;
mod pins;
mod process;
mod references;
mod settings;
mod tool;
mod toolset;

pub use self::{
    error::{ConnectError, SettingsError},
    settings::{Command, ServerSettings},
    toolset::McpToolset,
};

/// The largest message that is read from a server, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 << 20;
