//! A server's tools as a toolset.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ghostlight_actors::contract::{BoxFuture, Credential, ToolError, ToolHandle, Toolset};
use parking_lot::Mutex;
use rmcp::model::Tool;

use super::{
    catalogue::CatalogueTool,
    connection::Connection,
    definition::define,
    error::{AuthorizationError, ConnectError, ServerSpecError},
    pins::{self, Pinned},
    settings::ServerSpec,
    skills::SkillTool,
    tool::McpTool,
};

/// The tools of a server of the Model Context Protocol.
///
/// The connection is an actor below a supervisor: a server that ends, or a connection that is lost, is started again
/// after pauses of a quarter of a second to half a minute. The outcome of a call that was under way is then unknown:
/// the call is repeated if its effect allows that, and never if its effect is `once`.
///
/// ```no_run
/// use ghostlight_actors::{contract::ToolsetHandle, run::Agent, vocabulary::Effect};
/// use ghostlight_mcp::{McpToolset, ServerSpec};
///
/// # fn example() -> Result<(), ghostlight_mcp::ServerSpecError> {
/// let time = ServerSpec::command("mcp-server-time").effect("*", Effect::Read);
/// let time = ToolsetHandle::new(McpToolset::new("time", time)?).prefixed("time_");
/// let desk = Agent::new("desk").toolset("time", time);
/// # let _ = desk; Ok(()) }
/// ```
///
/// Clones share the connection. It is opened when a System starts, and closed with the last clone.
#[derive(Clone)]
pub struct McpToolset {
    connection: Connection,
    offer: Offer,
}

impl McpToolset {
    /// The tools of a server; messages use this name for it. The connection is opened when it is first needed.
    ///
    /// # Errors
    /// The settings cannot be used.
    pub fn new(name: &str, settings: ServerSpec) -> Result<Self, ServerSpecError> {
        let offer = Offer::default();
        let connection = Connection::new(name, settings, offer.clone())?;
        Ok(Self { connection, offer })
    }

    /// Waits until the server is connected and has listed its tools.
    ///
    /// # Errors
    /// The reason why the first attempt failed.
    pub async fn connect(&self) -> Result<(), ConnectError> {
        self.connection.first_peer().await.map(drop)
    }

    /// Lets a person sign in at a server over HTTP that demands it: `open` gets the address to open in a browser on
    /// this machine. The tokens from the authorization server are stored ([`ServerSpec::tokens`]), refreshed, and
    /// added to each request from then on.
    ///
    /// ```no_run
    /// # async fn example(hub: ghostlight_mcp::McpToolset) -> Result<(), ghostlight_mcp::AuthorizationError> {
    /// hub.sign_in(|address| eprintln!("open {address}")).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Nobody signed in within ten minutes, the authorization was refused, or the server keeps demanding another one.
    pub async fn sign_in(&self, open: impl FnOnce(&str) + Send) -> Result<(), AuthorizationError> {
        self.connection.sign_in(open).await
    }

    /// The revision of the protocol in use; `None` while the server is not connected.
    pub async fn protocol_version(&self) -> Option<String> {
        let peer = self.connection.first_peer().await.ok()?;
        Some(peer.peer_info()?.protocol_version.to_string())
    }

    /// The end of the server's standard error, over all its lives: at most 16 KiB.
    pub fn stderr(&self) -> String {
        self.connection.shared().stderr.text()
    }

    /// Closes the connection, and ends a server that is a child process.
    pub async fn disconnect(&self) {
        self.connection.close().await;
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The secrets of the connection, which the server may repeat in the result of any tool.
    pub(super) fn secrets(&self) -> Vec<Credential> {
        let shared = self.connection.shared();
        shared.endpoint.secrets(shared.settings.variables)
    }

    /// The tools for resources, prompts and skills, if the settings want them.
    fn catalogue(&self) -> Vec<ToolHandle> {
        let settings = &self.connection.shared().settings;
        let mut tools = Vec::new();
        if settings.resources {
            tools.push(ToolHandle::new(CatalogueTool::ListResources(self.clone())));
            tools.push(ToolHandle::new(CatalogueTool::ReadResource(self.clone())));
        }
        if settings.prompts {
            tools.push(ToolHandle::new(CatalogueTool::ListPrompts(self.clone())));
            tools.push(ToolHandle::new(CatalogueTool::GetPrompt(self.clone())));
        }
        if settings.skills {
            tools.push(ToolHandle::new(SkillTool::List(self.clone())));
            tools.push(ToolHandle::new(SkillTool::Use(self.clone())));
            tools.push(ToolHandle::new(SkillTool::ReadFile(self.clone())));
        }
        tools
    }

    fn tool(&self, pinned: &Pinned) -> Option<ToolHandle> {
        let shared = self.connection.shared();
        match define(&shared.name, &shared.settings, pinned) {
            Ok(definition) => Some(ToolHandle::new(McpTool {
                connection: self.connection.clone(),
                remote: pinned.tool.name.to_string(),
                definition,
                is_changed: pinned.changed.is_some(),
            })),
            Err(reason) => {
                let (server, tool) = (&shared.name, &pinned.tool.name);
                tracing::warn!(%server, %tool, %reason, "the tool is left out");
                None
            }
        }
    }
}

impl Toolset for McpToolset {
    fn tools(&self) -> Result<Vec<ToolHandle>, ToolError> {
        let shared = self.connection.shared();
        let (name, file) = (&shared.name, shared.settings.pins.as_deref());
        let server = self.connection.identity();
        let pinned = match self.offer.shown() {
            Some(shown) => pins::compare(file, &server, shown).map_err(ToolError::new)?,
            None => {
                let known = pins::known(file, &server).into_iter();
                known
                    .map(|tool| Pinned {
                        tool,
                        changed: None,
                    })
                    .collect()
            }
        };
        if pinned.is_empty() && self.offer.shown().is_none() {
            return Err(ToolError::new(format!(
                "the MCP server {name:?} is not connected"
            )));
        }
        let mut tools: Vec<ToolHandle> = pinned
            .iter()
            .filter_map(|pinned| self.tool(pinned))
            .collect();
        let mut own = self.catalogue();
        // The name means the server's own tool, not ours.
        own.retain(|one| {
            let name = &one.definition().name;
            !tools.iter().any(|tool| tool.definition().name == *name)
        });
        tools.extend(own);
        Ok(tools)
    }

    fn revision(&self) -> u64 {
        self.offer.revision()
    }

    fn open(&self) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async { Ok(self.connect().await?) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.disconnect())
    }
}

impl fmt::Debug for McpToolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpToolset")
            .field("server", &self.connection.shared().name)
            .finish_non_exhaustive()
    }
}

/// A server's tools, as last listed. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Offer(Arc<Offered>);

#[derive(Default)]
struct Offered {
    shown: Mutex<Option<Vec<Tool>>>,
    revision: AtomicU64,
}

impl Offer {
    /// Stores the tools that a server has now.
    pub(super) fn set(&self, server: &str, tools: Vec<Tool>) {
        let mut shown = self.0.shown.lock();
        if shown.as_ref() != Some(&tools) {
            if shown.is_some() {
                tracing::info!(%server, "the server has other tools now");
            }
            *shown = Some(tools);
            self.0.revision.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn shown(&self) -> Option<Vec<Tool>> {
        self.0.shown.lock().clone()
    }

    fn revision(&self) -> u64 {
        self.0.revision.load(Ordering::Acquire)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_tools_of_the_catalogue_know_the_secrets_of_the_connection() {
        let process = ServerSpec::command("server").env("SERVICE_API_KEY", "hunter2");
        let http = ServerSpec::url("https://mcp.example").header("Authorization", "Bearer hunter2");
        for settings in [process, http] {
            let settings = settings.resources().prompts().skills();
            let tools = McpToolset::new("notes", settings).unwrap().catalogue();
            assert_eq!(tools.len(), 7);
            for tool in tools {
                let name = &tool.definition().name;
                assert!(!tool.secrets().is_empty(), "{name}");
            }
        }
    }
}
