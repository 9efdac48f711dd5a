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
    /// Its purpose.
    pub description: String,
    /// Its addresses and bindings, the preferred one first.
    pub supported_interfaces: Vec<AgentInterface>,
    /// The version of the agent.
    pub version: String,
    /// Its optional capabilities.
    pub capabilities: AgentCapabilities,
    /// The ways to authenticate, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub security_schemes: BTreeMap<String, Value>,
    /// The alternatives of required authentication.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<SecurityRequirement>,
    /// The media types that it accepts.
    pub default_input_modes: Vec<String>,
    /// The media types that it returns.
    pub default_output_modes: Vec<String>,
    /// Its skills, described in words.
    pub skills: Vec<AgentSkill>,
    /// The signatures of all other fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<AgentCardSignature>,
}

impl AgentCard {
    /// The interfaces that this package supports, in the agent's order.
    pub fn spoken(&self) -> impl Iterator<Item = (&AgentInterface, Binding)> {
        self.supported_interfaces.iter().filter_map(|interface| {
            let binding = Binding::of(&interface.protocol_binding)?;
            super::speaks(&interface.protocol_version).then_some((interface, binding))
        })
    }

    /// Whether the agent handles a message that is sent again under its id only once.
    pub fn tells_messages_once(&self) -> bool {
        let extensions = self.capabilities.extensions.iter();
        extensions
            .into_iter()
            .any(|extension| extension.uri == super::MESSAGES_ARE_TOLD_ONCE)
    }
}

/// A binding that this package supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// JSON-RPC 2.0 over HTTP.
    JsonRpc,
    /// Resources and verbs over HTTP.
    HttpJson,
    /// gRPC over HTTP/2.
    Grpc,
}

impl Binding {
    const ALL: [Self; 3] = [Self::JsonRpc, Self::HttpJson, Self::Grpc];

    /// Its name in cards.
    pub fn name(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
            Self::Grpc => "GRPC",
        }
    }

    /// The binding of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// An address and binding of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentInterface {
    /// The address.
    pub url: String,
    /// The binding: `JSONRPC`, `HTTP+JSON` or `GRPC`.
    pub protocol_binding: String,
    /// The version of the protocol.
    pub protocol_version: String,
    /// The tenant that requests must name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tenant: String,
}

/// The optional capabilities of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentCapabilities {
    /// Whether it supports streaming.
    pub streaming: bool,
    /// Whether it supports push notifications.
    pub push_notifications: bool,
    /// Whether it has a longer card for clients that have authenticated.
    pub extended_agent_card: bool,
    /// Its extensions of the protocol.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<AgentExtension>,
}

/// An extension of the protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentExtension {
    /// The URI that identifies it.
    pub uri: String,
    /// Its description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether clients must support it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Its settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Map<String, Value>>,
}

/// A skill of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentSkill {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Keywords for finding it.
    pub tags: Vec<String>,
    /// Example requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

/// A signature of a card, as a JSON Web Signature (RFC 7515) without its payload, which is the card.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentCardSignature {
    /// The header that is signed, as a JSON object in base64url.
    pub protected: String,
    /// The signature, in base64url.
    pub signature: String,
    /// The header that is not signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<Map<String, Value>>,
}

/// Authentication schemes that are required together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SecurityRequirement {
    /// The schemes by name, each with `list`: the scopes.
    pub schemes: BTreeMap<String, Value>,
}
