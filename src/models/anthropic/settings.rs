//! How a model of Anthropic's is reached, as plain data.

use std::collections::BTreeMap;

use ghostlight_actors::vocabulary::Prices;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::models::{
    Secret,
    http::{self, Timeouts, address, no_credentials, without_credentials},
};

/// Where a model is and how it is spoken to. It is what a team file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AnthropicSettings {
    /// The provider's name of the model.
    pub model: String,
    /// The address up to and without `/messages`. It holds no name, password or query.
    #[serde(deserialize_with = "address")]
    pub base_url: String,
    /// The key, as a reference to an environment variable. Left out, Anthropic's own server gets
    /// the one in `ANTHROPIC_API_KEY`, and any other server none.
    pub api_key: Option<Secret>,
    /// The most tokens of an answer, where a request does not say it. Thinking comes on top.
    pub max_tokens: u32,
    /// Whether the model thinks before it answers.
    pub thinking: Thinking,
    /// Whether tools, instructions and conversation are marked for the provider's cache.
    pub cache: bool,
    /// How long to wait for what.
    pub timeouts: Timeouts,
    /// What the model costs; without it the cost of its answers is 0.
    pub prices: Option<Prices>,
    /// Further fields of each request body, in the place of the request's own; `null` takes one
    /// out. The further fields of a single request win over these. No credential belongs here.
    #[serde(deserialize_with = "no_credentials")]
    pub extra: BTreeMap<String, Value>,
    /// Further headers, such as `anthropic-beta`. `${NAME}` in a value stands for that environment
    /// variable, and `$$` for a dollar.
    #[serde(deserialize_with = "without_credentials")]
    pub headers: BTreeMap<String, String>,
    /// Whether a key may go to another machine over plain `http`.
    pub allow_plain_http: bool,
    /// The most bytes of an answer, as it comes over the wire.
    pub max_response_bytes: u64,
}

/// Whether a model thinks before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Thinking {
    /// As the model does by itself.
    #[default]
    Default,
    /// Not at all.
    Off,
    /// As much as it finds right, for models that decide it themselves (from 4.6 on).
    Adaptive,
    /// With so many tokens at most, 1,024 at least, for models that take a bound.
    Budget(u32),
}

impl AnthropicSettings {
    /// Anthropic's own server.
    pub const ANTHROPIC: &str = "https://api.anthropic.com/v1";

    /// The model of this name at Anthropic.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            base_url: String::from(Self::ANTHROPIC),
            api_key: None,
            max_tokens: 16_384,
            thinking: Thinking::default(),
            cache: true,
            timeouts: Timeouts::default(),
            prices: None,
            extra: BTreeMap::new(),
            headers: BTreeMap::new(),
            allow_plain_http: false,
            max_response_bytes: http::MAX_RESPONSE_BYTES,
        }
    }
}

impl Default for AnthropicSettings {
    fn default() -> Self {
        Self::new("claude-sonnet-4-6")
    }
}
