//! Teams as tools, for clients.

mod call;
mod handler;
mod http;
mod questions;
mod sessions;

use std::{collections::BTreeMap, sync::Arc};

use ghostlight_actors::actor::System;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};

use self::handler::Handler;
pub use self::http::{HttpOptions, HttpService};

/// The largest message that is read from a client, in bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Teams of a [`System`] as a server of the Model Context Protocol.
///
/// Each team is a tool. A call is a turn: it says something to the team and returns the answer. Its result names
/// the session, which a later call may name to go on with the conversation.
///
/// - A turn has an id: the argument `turn_id`, or `ghostlight/idempotencyKey` in the call's `_meta`. The same call
///   made twice is one run, also over a restart of this process.
/// - What the agents do is told as progress, to a client that asks for it.
/// - A call that the client cancels cancels its run. A connection that is lost does not.
/// - What the agents ask people is asked through the client (elicitation), where it offers that. Otherwise the
///   call returns what is asked, and the same call goes on once somebody has answered.
/// - The sessions are resources.
#[derive(Clone, Debug)]
pub struct McpServer(Arc<Served>);

#[derive(Clone, Debug)]
struct Served {
    system: System,
    /// What each team is for, by its name.
    teams: BTreeMap<String, String>,
}

/// For whom a request over HTTP acts: the middleware that knows it puts this into the request's extensions.
/// Sessions belong to owners then; see [`System::acting_for`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner(pub String);

/// Why serving ended early.
#[derive(Debug, thiserror::Error)]
#[error("the client could not be served: {0}")]
pub struct ServeError(String);

impl McpServer {
    /// A server over a System, with no team yet.
    pub fn new(system: System) -> Self {
        let teams = BTreeMap::new();
        Self(Arc::new(Served { system, teams }))
    }

    /// Offers a team as a tool of its name, with words for the client's model.
    #[must_use]
    pub fn team(mut self, name: impl Into<String>, description: impl Into<String>) -> Self {
        let served = Arc::make_mut(&mut self.0);
        served.teams.insert(name.into(), description.into());
        self
    }

    /// Serves one client on the standard streams, until its end of them is closed. Nothing else may write to
    /// standard output.
    ///
    /// # Errors
    /// When the client and this server do not understand each other.
    pub async fn serve_stdio(&self) -> Result<(), ServeError> {
        self.serve(tokio::io::stdin(), tokio::io::stdout()).await
    }

    /// Serves one client over these streams.
    ///
    /// # Errors
    /// When the client and this server do not understand each other.
    pub async fn serve<R, W>(&self, read: R, write: W) -> Result<(), ServeError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let transport =
            AsyncRwTransport::new_server(read, write).with_max_line_length(MAX_MESSAGE_BYTES);
        let serving = rmcp::serve_server(Handler::new(self.0.clone()), transport).await;
        let serving = serving.map_err(|error| ServeError(error.to_string()))?;
        let ended = serving.waiting().await;
        ended
            .map(drop)
            .map_err(|error| ServeError(error.to_string()))
    }

    /// The server over streamable HTTP, to nest into a router. It authenticates nobody.
    pub fn http(&self, options: &HttpOptions) -> HttpService {
        HttpService::new(self.0.clone(), options)
    }
}
