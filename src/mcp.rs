//! The Model Context Protocol: tools of its servers for agents, and teams as a server.
//!
//! It is the package `ghostlight-mcp`. In a team file the servers stand under `mcp`; in code a
//! [`McpToolset`] is a toolset like any other.

use ghostlight_actors::{contract::ToolsetHandle, run::Registry};
pub use ghostlight_mcp::*;
use serde::Deserialize;
use serde_json::{Map, Value};

#[cfg(feature = "server")]
use crate::server::{Admitted, axum};

/// Registers the kind of tool `mcp`, whose settings are [`ServerSpec`]. The definitions of the
/// servers' tools are pinned when they are first seen, in the file that `pins` names, or else in
/// the user's own; the grants of authorization servers are kept, too.
pub(crate) fn register(registry: Registry) -> Registry {
    registry.toolset_kind("mcp", toolset)
}

/// Agents as an MCP server, beside the other endpoints of a [`Server`](crate::server::Server) and
/// behind its keys and quotas. A key needs the scope `run`, and the runs that its holder begins
/// belong to the key's subject.
///
/// ```
/// use ghostlight::{mcp::{self, McpServer}, prelude::*, server::{Scope, Server}};
///
/// # fn of(system: System) -> Server {
/// let desk = McpServer::new(system.clone()).team("desk", "Answers questions about our prices.");
/// Server::new(system).service("/mcp", Scope::Run, mcp::endpoint(&desk))
/// # }
/// ```
#[cfg(feature = "server")]
pub fn endpoint(server: &McpServer) -> axum::routing::MethodRouter {
    let options = HttpOptions::default().guarded(true);
    let service = axum::routing::any_service(server.http(&options));
    service.layer(axum::middleware::from_fn(admitted))
}

/// Passes what the server knows about a request on to the MCP server.
#[cfg(feature = "server")]
async fn admitted(
    mut request: axum::extract::Request,
    next: axum::middleware::Next,
) -> axum::response::Response {
    let extensions = request.extensions_mut();
    if let Some(admitted) = extensions.get::<Admitted>().cloned() {
        extensions.insert(Stopping(admitted.stopping().clone()));
        if let Some(subject) = admitted.subject() {
            extensions.insert(Owner(subject.to_owned()));
        }
        extensions.insert(Sender::new(move |session, turn| {
            let admitted = admitted.clone();
            async move {
                let sent = admitted.send(&session, turn).await;
                sent.map_err(|problem| problem.detail().to_owned())
            }
        }));
    }
    next.run(request).await
}

fn toolset(name: &str, settings: &Map<String, Value>) -> Result<ToolsetHandle, String> {
    connection(name, settings).map(ToolsetHandle::new)
}

/// The tools of a server that a team file names, with the settings that stand there.
///
/// # Errors
/// A setting that is unknown or has a wrong value.
pub fn connection(name: &str, settings: &Map<String, Value>) -> Result<McpToolset, String> {
    let mut settings = ServerSpec::deserialize(settings).map_err(|error| error.to_string())?;
    let own = |file: &str| crate::files::data_folder().map(|folder| folder.join(file));
    settings.pins = settings.pins.or_else(|| own("mcp_tools.json"));
    settings.tokens = settings.tokens.or_else(|| own("mcp_tokens.json"));
    settings = settings.variables(crate::environment::variable);
    McpToolset::new(name, settings).map_err(|error| error.to_string())
}
