//! The Model Context Protocol: tools of its servers for agents, and teams as a server.
//!
//! It is the package `ghostlight-mcp`. In a team file the servers stand below `mcp`; in code a
//! [`McpToolset`] is a toolset like any other.

use ghostlight_actors::{contract::ToolsetHandle, run::Registry};
pub use ghostlight_mcp::*;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Registers the kind of tool `mcp`, whose settings are [`ServerSettings`]. The tools of servers are
/// remembered as they were first seen in the file that `pins` names, or else in the user's own, and so is what
/// authorization servers give.
pub(crate) fn register(registry: Registry) -> Registry {
    registry.toolset_kind("mcp", toolset)
}

fn toolset(name: &str, settings: &Map<String, Value>) -> Result<ToolsetHandle, String> {
    connection(name, settings).map(ToolsetHandle::new)
}

/// The tools of a server as a team file names it.
pub(crate) fn connection(name: &str, settings: &Map<String, Value>) -> Result<McpToolset, String> {
    let mut settings = ServerSettings::deserialize(settings).map_err(|error| error.to_string())?;
    let own = |file: &str| crate::files::data_folder().map(|folder| folder.join(file));
    settings.pins = settings.pins.or_else(|| own("mcp_tools.json"));
    settings.tokens = settings.tokens.or_else(|| own("mcp_tokens.json"));
    McpToolset::new(name, settings).map_err(|error| error.to_string())
}
