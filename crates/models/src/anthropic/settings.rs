//! How a model of Anthropic's is reached, as plain data.

use std::collections::BTreeMap;

use ghostlight_actors::vocabulary::Prices;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    BatchSpec, Secret,
    http::{self, Tariff, Timeouts, address, no_credentials, without_credentials},
};

/// The settings of a model of Anthropic. A team file holds the same fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AnthropicSpec {
    /// The provider's name of the model.
    pub model: String,
    /// The address up to and without `/messages`. It holds no name, password or query. In Vertex AI it is
    /// `https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION/publishers/anthropic`.
    #[serde(deserialize_with = "address")]
    pub base_url: String,
    /// The key, as a reference to an environment variable. If it is left out, Anthropic's own
    /// server gets the key in `ANTHROPIC_API_KEY`, Vertex AI the machine's token
    /// ([`GoogleCloud`](crate::GoogleCloud), feature `vertex`), and any other server none.
    pub api_key: Option<Secret>,
    /// The most tokens of an answer if the request sets no bound. A thinking budget is added to it.
    pub max_tokens: u32,
    /// Whether the model thinks before it answers.
    pub thinking: Thinking,
    /// Whether tools, instructions and conversation are marked for the provider's cache.
    pub cache: bool,
    /// The parts that stay in the cache for an hour after their last use, not for five minutes. Writing them costs more: give that
    /// price as `cache_write`.
    pub hour_cache: HourCache,
    /// The time limits of an attempt.
    pub timeouts: Timeouts,
    /// The prices of the model. Without them the [table of prices](crate::PriceTable) is used, for the provider's own server;
    /// what it does not know costs 0, and a budget in money over it is refused.
    pub prices: Option<Prices>,
    /// Further fields of each request body. They replace the request's own fields; `null` removes
    /// one. Tools in `tools`, such as the provider's own, stand beside the agent's. The further fields of a single request win over these. A credential does not belong
    /// here.
    #[serde(deserialize_with = "no_credentials")]
    pub extra: BTreeMap<String, Value>,
    /// Further headers, such as `anthropic-beta`. `${NAME}` in a value stands for that environment
    /// variable, and `$$` for a dollar sign.
    #[serde(deserialize_with = "without_credentials")]
    pub headers: BTreeMap<String, String>,
    /// Whether a key may go to another machine over plain `http`.
    pub allow_plain_http: bool,
    /// The most bytes of an answer, as it comes over the wire.
    pub max_response_bytes: u64,
    /// Whether the requests of runs go in batches, for half the price and within a day, and how they are gathered. A batch
    /// has at most 100,000 requests and 256 MB, whatever is set. Prices that are given are those of batches then.
    pub batch: Option<BatchSpec>,
}

/// Whether a model thinks before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Thinking {
    /// The default of the model.
    #[default]
    Default,
    /// No thinking.
    Off,
    /// The model decides how much it thinks, if it supports that (from 4.6 on).
    Adaptive,
    /// At most this many tokens of thinking, and at least 1,024, for models that accept a budget.
    Budget(u32),
}

/// The parts that stay in the provider's cache for an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HourCache {
    /// Nothing: all stays for five minutes.
    #[default]
    Nothing,
    /// Tools and instructions, which all conversations share. For agents that are asked from time to time.
    Instructions,
    /// The conversation, too. For people who answer after a while.
    Everything,
}

impl AnthropicSpec {
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
            hour_cache: HourCache::default(),
            timeouts: Timeouts::default(),
            prices: None,
            extra: BTreeMap::new(),
            headers: BTreeMap::new(),
            allow_plain_http: false,
            max_response_bytes: http::MAX_RESPONSE_BYTES,
            batch: None,
        }
    }

    /// By what the requests of runs are charged.
    pub(super) fn tariff(&self) -> Tariff<'_> {
        Tariff {
            is_batched: self.batch.is_some(),
            ..Tariff::new(self.prices.as_ref(), &self.model)
        }
    }
}

impl Default for AnthropicSpec {
    fn default() -> Self {
        Self::new("claude-sonnet-4-6")
    }
}
