//! The card of an agent, as a message of `a2a.proto`.

use prost::Message;
use serde::{Deserialize, Serialize};

use super::value::{Struct, entry, map};

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Card {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    description: String,
    #[prost(message, repeated, tag = "3")]
    supported_interfaces: Vec<Interface>,
    #[prost(message, optional, tag = "4")]
    provider: Option<Provider>,
    #[prost(string, tag = "5")]
    version: String,
    #[prost(string, optional, tag = "6")]
    documentation_url: Option<String>,
    #[prost(message, required, tag = "7")]
    capabilities: Capabilities,
    #[prost(message, repeated, tag = "8")]
    #[serde(with = "map")]
    security_schemes: Vec<NamedScheme>,
    #[prost(message, repeated, tag = "9")]
    security_requirements: Vec<SecurityRequirement>,
    #[prost(string, repeated, tag = "10")]
    default_input_modes: Vec<String>,
    #[prost(string, repeated, tag = "11")]
    default_output_modes: Vec<String>,
    #[prost(message, repeated, tag = "12")]
    skills: Vec<Skill>,
    #[prost(message, repeated, tag = "13")]
    signatures: Vec<Signature>,
    #[prost(string, optional, tag = "14")]
    icon_url: Option<String>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Interface {
    #[prost(string, tag = "1")]
    url: String,
    #[prost(string, tag = "2")]
    protocol_binding: String,
    #[prost(string, tag = "3")]
    tenant: String,
    #[prost(string, tag = "4")]
    protocol_version: String,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Provider {
    #[prost(string, tag = "1")]
    url: String,
    #[prost(string, tag = "2")]
    organization: String,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Capabilities {
    // The card says of each whether it has it, so that a client need not know the default.
    #[prost(bool, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    streaming: Option<bool>,
    #[prost(bool, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    push_notifications: Option<bool>,
    #[prost(message, repeated, tag = "3")]
    extensions: Vec<Extension>,
    #[prost(bool, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    extended_agent_card: Option<bool>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Extension {
    #[prost(string, tag = "1")]
    uri: String,
    #[prost(string, tag = "2")]
    description: String,
    #[prost(bool, tag = "3")]
    required: bool,
    #[prost(message, optional, tag = "4")]
    params: Option<Struct>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Skill {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    description: String,
    #[prost(string, repeated, tag = "4")]
    tags: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    examples: Vec<String>,
    #[prost(string, repeated, tag = "6")]
    input_modes: Vec<String>,
    #[prost(string, repeated, tag = "7")]
    output_modes: Vec<String>,
    #[prost(message, repeated, tag = "8")]
    security_requirements: Vec<SecurityRequirement>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Signature {
    #[prost(string, tag = "1")]
    protected: String,
    #[prost(string, tag = "2")]
    signature: String,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<Struct>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
struct SecurityRequirement {
    #[prost(message, repeated, tag = "1")]
    #[serde(with = "map")]
    schemes: Vec<NamedTexts>,
}

entry!(NamedTexts, Texts);

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
struct Texts {
    #[prost(string, repeated, tag = "1")]
    list: Vec<String>,
}

entry!(NamedScheme, SecurityScheme);

/// A way to authenticate: one of its members. OAuth 2 is left out: no server of ours offers its flows.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SecurityScheme {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key_security_scheme: Option<ApiKey>,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    http_auth_security_scheme: Option<HttpAuth>,
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    open_id_connect_security_scheme: Option<OpenIdConnect>,
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    mtls_security_scheme: Option<MutualTls>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ApiKey {
    #[prost(string, tag = "1")]
    description: String,
    #[prost(string, tag = "2")]
    location: String,
    #[prost(string, tag = "3")]
    name: String,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HttpAuth {
    #[prost(string, tag = "1")]
    description: String,
    #[prost(string, tag = "2")]
    scheme: String,
    #[prost(string, tag = "3")]
    bearer_format: String,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OpenIdConnect {
    #[prost(string, tag = "1")]
    description: String,
    #[prost(string, tag = "2")]
    open_id_connect_url: String,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MutualTls {
    #[prost(string, tag = "1")]
    description: String,
}
