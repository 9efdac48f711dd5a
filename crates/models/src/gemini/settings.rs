//! How a Gemini model is reached, as plain data.

use std::{collections::BTreeMap, time::Duration};

use ghostlight_actors::vocabulary::{Prices, seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Secret,
    http::{self, Timeouts, address, no_credentials, without_credentials},
};

/// The settings of a Gemini model. A team file holds the same fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct GeminiSpec {
    /// The provider's name of the model.
    pub model: String,
    /// The address up to and without `/models`. It holds no name, password or query. In Vertex AI it is
    /// `https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION/publishers/google`.
    #[serde(deserialize_with = "address")]
    pub base_url: String,
    /// The key, as a reference to an environment variable. If it is left out, Google's own server
    /// gets the key in `GEMINI_API_KEY`, Vertex AI the machine's token
    /// ([`GoogleCloud`](crate::GoogleCloud), feature `vertex`), and any other server none.
    pub api_key: Option<Secret>,
    /// The thinking budget in tokens, for models that accept one; 0 turns thinking off.
    pub thinking_budget: Option<u32>,
    /// Whether answers contain summaries of the model's thoughts.
    pub include_thoughts: bool,
    /// Whether the provider keeps instructions and tools for all requests of the process that begin with them, and charges
    /// less for them. It charges for the time that it keeps them, too, which no usage tells. A prefix that it does not
    /// keep, since it has too few tokens (1,024 or 4,096, by the model), is sent with each request as without this.
    pub cache: bool,
    /// How long instructions and tools are kept after their last use; at least a minute, and five by default.
    #[serde(rename = "cache_ttl_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub cache_ttl: Duration,
    /// The time limits of an attempt.
    pub timeouts: Timeouts,
    /// The prices of the model. Without them the [table of prices](crate::PriceTable) is used, for the provider's own server;
    /// what it does not know costs 0, and a budget in money over it is refused.
    pub prices: Option<Prices>,
    /// Further fields of each request body. They replace the request's own fields, and fields of an object those of the
    /// same object; `null` removes one. Tools in `tools`, such as the provider's own, stand beside the agent's. The further fields of a single request win over these. A credential does not belong
    /// here.
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

impl GeminiSpec {
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
            cache: false,
            cache_ttl: Duration::from_secs(300),
            timeouts: Timeouts::default(),
            prices: None,
            extra: BTreeMap::new(),
            headers: BTreeMap::new(),
            allow_plain_http: false,
            max_response_bytes: http::MAX_RESPONSE_BYTES,
        }
    }

    /// Whether the model is older than Gemini 3. Such models accept fewer combinations of features.
    pub(super) fn is_before_3(&self) -> bool {
        ["gemini-1", "gemini-2"]
            .iter()
            .any(|family| self.model.starts_with(family))
    }
}

impl Default for GeminiSpec {
    fn default() -> Self {
        Self::new("gemini-2.5-flash")
    }
}
