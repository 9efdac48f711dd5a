//! How a model in Amazon Bedrock is reached, as plain data.

use std::collections::BTreeMap;

use ghostlight_actors::vocabulary::Prices;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Secret, amazon,
    anthropic::Thinking,
    http::{self, Timeouts, address, no_credentials, true_host, without_credentials},
};

/// The families of models that Bedrock holds to a schema.
const HELD: [&str; 12] = [
    "anthropic.claude-haiku-4-5",
    "anthropic.claude-opus-4-5",
    "anthropic.claude-opus-4-6",
    "anthropic.claude-sonnet-4-5",
    "anthropic.claude-sonnet-4-6",
    "google.gemma-3",
    "minimax.minimax-m2",
    "mistral.mistral-large-3",
    "nvidia.nemotron",
    "openai.gpt-oss",
    "qwen.qwen3",
    "zai.glm",
];

/// The settings of a model in Amazon Bedrock. A team file holds the same fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct BedrockSpec {
    /// The model's id, the id of an inference profile (such as `us.anthropic.claude-sonnet-4-6`), or its ARN.
    pub model: String,
    /// The region. If it is left out, a `base_url` of Bedrock's own, `AWS_REGION`, `AWS_DEFAULT_REGION` or the profile names it.
    pub region: Option<String>,
    /// The profile in `~/.aws` whose keys and region are used. If it is left out, keys are found as by Amazon's own programs
    /// ([`AmazonCredentials`](crate::AmazonCredentials)).
    pub profile: Option<String>,
    /// The address up to and without `/model`. If it is left out, it is that of the region. Another server than Bedrock's own
    /// (`bedrock-runtime.REGION.amazonaws.com` and the like) gets only the keys of a `profile` or an `api_key` that stands here.
    #[serde(deserialize_with = "address", skip_serializing_if = "String::is_empty")]
    pub base_url: String,
    /// A bearer's token, as a reference to an environment variable. If it is left out, it is `AWS_BEARER_TOKEN_BEDROCK`, and
    /// without that requests are signed.
    pub api_key: Option<Secret>,
    /// Whether a model of Anthropic's thinks before it answers.
    pub thinking: Thinking,
    /// Whether tools, instructions and conversation are marked for the provider's cache, which only some models take (newer
    /// ones of Anthropic and Amazon).
    pub cache: bool,
    /// Whether the provider holds the model to the schema of an answer. If it is left out, the model's id decides; if not, the
    /// schema stands in the instructions.
    pub holds_schema: Option<bool>,
    /// The time limits of an attempt.
    pub timeouts: Timeouts,
    /// The prices of the model. The table of prices has none of Bedrock's, so without them it costs 0, and a budget in money over
    /// it is refused.
    pub prices: Option<Prices>,
    /// Further fields of each request body, such as `additionalModelRequestFields` and `guardrailConfig`. Tools in `tools`, such as the
    /// provider's own, stand beside the agent's. They replace the request's own
    /// fields, and fields of an object those of the same object; `null` removes one. The further fields of a single
    /// request win over these. A credential does not belong here.
    #[serde(deserialize_with = "no_credentials")]
    pub extra: BTreeMap<String, Value>,
    /// Further headers. `${NAME}` in a value stands for that environment variable, and `$$` for a
    /// dollar sign.
    #[serde(deserialize_with = "without_credentials")]
    pub headers: BTreeMap<String, String>,
    /// Whether a key may go to another machine over plain `http`.
    pub allow_plain_http: bool,
    /// The most bytes of an answer, as it comes over the wire.
    pub max_response_bytes: u64,
}

impl BedrockSpec {
    /// The model of this id.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            region: None,
            profile: None,
            base_url: String::new(),
            api_key: None,
            thinking: Thinking::default(),
            cache: false,
            holds_schema: None,
            timeouts: Timeouts::default(),
            prices: None,
            extra: BTreeMap::new(),
            headers: BTreeMap::new(),
            allow_plain_http: false,
            max_response_bytes: http::MAX_RESPONSE_BYTES,
        }
    }

    /// The region, where one is named.
    pub(crate) fn region(&self) -> Option<String> {
        let of_address = || amazon::region_of(&true_host(&self.base_url)).map(str::to_owned);
        let named = self.region.clone().or_else(of_address);
        named.or_else(|| amazon::region(self.profile.as_deref()))
    }

    /// The address; empty where neither it nor a region is known.
    pub(super) fn address(&self) -> String {
        if !self.base_url.is_empty() {
            return self.base_url.clone();
        }
        match self.region() {
            Some(region) => {
                let end = if region.starts_with("cn-") { ".cn" } else { "" };
                format!("https://bedrock-runtime.{region}.amazonaws.com{end}")
            }
            None => String::new(),
        }
    }

    pub(super) fn is_anthropics(&self) -> bool {
        self.model.contains("anthropic.")
    }

    /// Whether the provider holds the model to a schema.
    pub(super) fn holds_schema(&self) -> bool {
        let of_id = || HELD.iter().any(|family| self.model.contains(family));
        self.holds_schema.unwrap_or_else(of_id)
    }
}

impl Default for BedrockSpec {
    fn default() -> Self {
        Self::new("us.anthropic.claude-sonnet-4-6")
    }
}
