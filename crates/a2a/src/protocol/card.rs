//! The card of an agent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The card of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentCard {
    /// Its name.
    pub name: String,
    /// What it is good for.
    pub description: String,
    /// Where and how it is reached, the preferred way first.
    pub supported_interfaces: Vec<AgentInterface>,
    /// The version of the agent.
    pub version: String,
    /// What it can do beyond the least.
    pub capabilities: AgentCapabilities,
    /// The ways to authenticate, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub security_schemes: BTreeMap<String, Value>,
    /// The ways of which one is required.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<SecurityRequirement>,
    /// The media types that it takes.
    pub default_input_modes: Vec<String>,
    /// The media types that it gives.
    pub default_output_modes: Vec<String>,
    /// What it can do, in words.
    pub skills: Vec<AgentSkill>,
}

impl AgentCard {
    /// The ways to reach it that this package speaks, in the agent's order.
    pub fn spoken(&self) -> impl Iterator<Item = (&AgentInterface, Binding)> {
        self.supported_interfaces.iter().filter_map(|interface| {
            let binding = match interface.protocol_binding.as_str() {
                "JSONRPC" => Binding::JsonRpc,
                "HTTP+JSON" => Binding::HttpJson,
                _ => return None,
            };
            super::speaks(&interface.protocol_version).then_some((interface, binding))
        })
    }

    /// Whether the agent takes a message that is sent again under its id only once.
    pub fn tells_messages_once(&self) -> bool {
        let extensions = self.capabilities.extensions.iter();
        extensions
            .into_iter()
            .any(|extension| extension.uri == super::MESSAGES_ARE_TOLD_ONCE)
    }
}

/// A way of speaking the protocol that this package knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// JSON-RPC 2.0 over HTTP.
    JsonRpc,
    /// Resources and verbs over HTTP.
    HttpJson,
}

/// Where and how an agent is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentInterface {
    /// Where.
    pub url: String,
    /// How: `JSONRPC`, `HTTP+JSON` or `GRPC`.
    pub protocol_binding: String,
    /// The version of the protocol.
    pub protocol_version: String,
    /// The tenant that requests name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tenant: String,
}

/// What an agent can do beyond the least.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentCapabilities {
    /// Whether it streams.
    pub streaming: bool,
    /// Whether it notifies.
    pub push_notifications: bool,
    /// Whether it has a longer card for clients that have authenticated.
    pub extended_agent_card: bool,
    /// What it knows beyond the protocol.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<AgentExtension>,
}

/// What an agent knows beyond the protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentExtension {
    /// Its name.
    pub uri: String,
    /// What it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether clients must know it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Its settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Map<String, Value>>,
}

/// What an agent can do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentSkill {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Words by which it is found.
    pub tags: Vec<String>,
    /// What one may say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

/// Ways to authenticate that are required together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SecurityRequirement {
    /// The schemes by name, each with `list`: the scopes.
    pub schemes: BTreeMap<String, Value>,
}
