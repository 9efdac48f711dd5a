//! The errors of a server's settings, connection and authorization.

use std::{io, path::PathBuf, time::Duration};

use rmcp::transport::auth::AuthError;

/// Settings of a server that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerSpecError {
    /// The settings name no way to reach the server, or several.
    #[error("say how the server is reached by one of `command`, `url` and `from`")]
    Ways,
    /// The command has no program.
    #[error("`command` names no program")]
    NoProgram,
    /// The address is not one of HTTP.
    #[error("`url` is {0:?}; it must begin with https:// or http://")]
    Address(String),
    /// HTTP does not allow this header.
    #[error(
        "the header {0:?} cannot be sent: its name or value has characters that HTTP does not allow"
    )]
    Header(String),
    /// The HTTP client cannot be made.
    #[error("HTTP cannot be spoken: {0}")]
    Client(String),
    /// The syntax of a variable's place is wrong.
    #[error(
        "`${{` in a value begins the name of an environment variable and ends with `}}`, such as \
         Bearer ${{TOKEN}}; write $$ for a dollar"
    )]
    Place,
    /// The environment variable is not set.
    #[error("the environment variable {0} is not set, which the server needs")]
    NotSet(String),
    /// The file cannot be read.
    #[error("{}: {reason}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// The other client's file does not have the server.
    #[error("{} has no server {server:?} below `mcpServers`; it has: {known}", .file.display())]
    NoServer {
        /// The file.
        file: PathBuf,
        /// The server's name.
        server: String,
        /// The names of the servers in the file.
        known: String,
    },
}

/// Why a server is not connected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the MCP server {server:?} is not connected: {reason}")]
#[non_exhaustive]
pub struct ConnectError {
    /// The server.
    pub server: String,
    /// The reason, with the server's last words on its standard error.
    pub reason: String,
}

impl ServerSpecError {
    pub(super) fn file(file: impl Into<PathBuf>, error: &io::Error) -> Self {
        Self::File {
            file: file.into(),
            reason: error.to_string(),
        }
    }
}

/// Why signing in at a server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorizationError {
    /// The server is a child process.
    #[error("the server is a child process: only servers over HTTP have people sign in")]
    NotHttp,
    /// The program is to be authorized itself, but has no id.
    #[error(
        "the program is authorized itself, which needs `client_id`, and with `client_credentials` also `client_secret`"
    )]
    NoClient,
    /// The file that proves the program's identity cannot be read.
    #[error("{}, which proves the program's identity, cannot be read: {reason}", .file.display())]
    Proof {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file holds no private key of a known kind.
    #[error("{} holds no private key in the format PKCS #8 (PEM) for P-256 or Ed25519", .file.display())]
    Key {
        /// The file.
        file: PathBuf,
    },
    /// The MCP server names an authorization server that nobody here has named, which would be sent a secret.
    #[error(
        "the MCP server has the sign-in at {endpoint} (issuer {named:?}), which would be sent this program's secret, and \
         which is neither at the server's own origin nor the token endpoint of the `issuer` below `oauth`: nothing was \
         sent. If you trust it, name its issuer as `issuer`"
    )]
    Issuer {
        /// The issuer that the server names.
        named: String,
        /// The address that would be sent the secret.
        endpoint: String,
    },
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] ServerSpecError),
    /// The browser cannot return to this machine.
    #[error("the browser cannot return to this machine: {0}")]
    Callback(#[from] io::Error),
    /// Nobody signed in.
    #[error("nobody signed in within {} minutes", .within.as_secs() / 60)]
    NobodyCame {
        /// How long the client waited.
        within: Duration,
    },
    /// The person or the authorization server refused.
    #[error("the authorization was refused: {0}")]
    Denied(String),
    /// The server demands one authorization after the other.
    #[error(
        "the server has asked for another authorization {times} times without doing anything: what it asks for does \
         not satisfy it"
    )]
    AgainAndAgain {
        /// How many times.
        times: u32,
    },
    /// The answer or the metadata of the authorization server is invalid or cannot be trusted.
    #[error("the authorization server: {0}")]
    Protocol(String),
}

ghostlight_actors::parts_of_system_error!(ServerSpecError, ConnectError, AuthorizationError);

impl From<AuthError> for AuthorizationError {
    fn from(error: AuthError) -> Self {
        Self::Protocol(ghostlight_safety::sanitize_line(&error.to_string(), 500))
    }
}
