//! What is wrong with a server.

use std::{io, path::PathBuf, time::Duration};

use rmcp::transport::auth::AuthError;

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

/// Why nobody was signed in at a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorizationError {
    /// A server that is a child process.
    #[error("the server is a child process: only servers over HTTP have people sign in")]
    NotHttp,
    /// A program that is to be authorized by itself and has no id.
    #[error("`client_credentials` needs `client_id` and `client_secret`")]
    NoClient,
    /// Settings that cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The browser cannot return to this machine.
    #[error("the browser cannot return to this machine: {0}")]
    Callback(#[from] io::Error),
    /// Nobody signed in.
    #[error("nobody signed in within {} minutes", .within.as_secs() / 60)]
    NobodyCame {
        /// How long was waited.
        within: Duration,
    },
    /// The person or the authorization server refused.
    #[error("the authorization was refused: {0}")]
    Denied(String),
    /// A server that is content with nothing.
    #[error(
        "the server has asked for another authorization {times} times without doing anything: what it asks for does \
         not satisfy it"
    )]
    AgainAndAgain {
        /// How often.
        times: u32,
    },
    /// The authorization server, or what it says of itself, cannot be trusted or understood.
    #[error("the authorization server: {0}")]
    Protocol(String),
}

impl From<AuthError> for AuthorizationError {
    fn from(error: AuthError) -> Self {
        Self::Protocol(ghostlight_actors::safety::sanitize_line(
            &error.to_string(),
            500,
        ))
    }
}
