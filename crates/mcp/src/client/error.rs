//! What is wrong with a server.

use std::{io, path::PathBuf};

/// Settings of a server that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// No way or several to reach the server.
    #[error("say how the server is reached by one of `command`, `url` and `from`")]
    Ways,
    /// A command without a program.
    #[error("`command` names no program")]
    NoProgram,
    /// An address that is none of HTTP.
    #[error("`url` is {0:?}; it must begin with https:// or http://")]
    Address(String),
    /// A header that HTTP does not know.
    #[error(
        "the header {0:?} cannot be sent: its name or value has characters that HTTP does not allow"
    )]
    Header(String),
    /// HTTP cannot be spoken here.
    #[error("HTTP cannot be spoken: {0}")]
    Client(String),
    /// A place for a variable that cannot be read.
    #[error(
        "`${{` in a value begins the name of an environment variable and ends with `}}`, such as \
         Bearer ${{TOKEN}}; write $$ for a dollar"
    )]
    Place,
    /// A variable that is not set.
    #[error("the environment variable {0} is not set, which the server needs")]
    NotSet(String),
    /// A file that cannot be read.
    #[error("{}: {reason}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file of another client without the server.
    #[error("{} has no server {server:?} below `mcpServers`; it has: {known}", .file.display())]
    NoServer {
        /// The file.
        file: PathBuf,
        /// The server that was looked for.
        server: String,
        /// The servers that it has.
        known: String,
    },
}

/// Why a server is not connected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the MCP server {server:?} is not connected: {reason}")]
pub struct ConnectError {
    /// The server.
    pub server: String,
    /// Why, with what the server said last on its standard error.
    pub reason: String,
}

impl SettingsError {
    pub(super) fn file(file: impl Into<PathBuf>, error: &io::Error) -> Self {
        Self::File {
            file: file.into(),
            reason: error.to_string(),
        }
    }
}
