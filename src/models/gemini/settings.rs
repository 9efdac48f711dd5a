//! How a Gemini model is reached, as plain data.

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
pub struct GeminiSettings {
    /// The provider's name of the model.
    pub model: String,
    /// The address up to and without `/models`. It holds no name, password or query.
    #[serde(deserialize_with = "address")]
    pub base_url: String,
    /// The key, as a reference to an environment variable. Left out, Google's own server gets the
    /// one in `GEMINI_API_KEY`, and any other server none.
    pub api_key: Option<Secret>,
    /// The most tokens that the model thinks with, for models that take such a bound; 0 is none.
    pub thinking_budget: Option<u32>,
    /// Whether the model's thoughts are told in short.
    pub include_thoughts: bool,
    /// How long to wait for what.
    pub timeouts: Timeouts,
    /// What the model costs; without it the cost of its answers is 0.
    pub prices: Option<Prices>,
    /// Further fields of each request body, in the place of the request's own; `null` takes one
    /// out. The further fields of a single request win over these. No credential belongs here.
    #[serde(deserialize_with = "no_credentials")]
    pub extra: BTreeMap<String, Value>,
    /// Further headers. `${NAME}` in a value stands for that environment variable, and `$$` for a
    /// dollar.
    #[serde(deserialize_with = "without_credentials")]
    pub headers: BTreeMap<String, String>,
    /// Whether a key may go to another machine over plain `http`.
    pub allow_plain_http: bool,
    /// The most bytes of an answer, as it comes over the wire.
    pub max_response_bytes: u64,
}

impl GeminiSettings {
    /// Google's own server.
    pub const GOOGLE: &str = "https://generativelanguage.googleapis.com/v1beta";

    /// The model of this name at Google.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            base_url: String::from(Self::GOOGLE),
            api_key: None,
            thinking_budget: None,
            include_thoughts: false,
            timeouts: Timeouts::default(),
            prices: None,
            extra: BTreeMap::new(),
            headers: BTreeMap::new(),
            allow_plain_http: false,
            max_response_bytes: http::MAX_RESPONSE_BYTES,
        }
    }

    /// Whether it is of a family before the third, which takes fewer combinations.
    pub(super) fn is_before_3(&self) -> bool {
        ["gemini-1", "gemini-2"]
            .iter()
            .any(|family| self.model.starts_with(family))
    }
}

impl Default for GeminiSettings {
    fn default() -> Self {
        Self::new("gemini-2.5-flash")
    }
}
