//! The settings of a model behind OpenAI's Responses, as plain data.

use std::collections::BTreeMap;

use ghostlight_actors::vocabulary::Prices;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    BatchSpec, OpenAiSpec, Secret,
    http::{self, Tariff, Timeouts, address, no_credentials, without_credentials},
};

/// The settings of a model behind OpenAI's Responses. A team file holds the same fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct OpenAiResponsesSpec {
    /// The server's name of the model; at Azure, that of the deployment.
    pub model: String,
    /// The address up to and without `/responses`, such as `https://api.openai.com/v1`. It holds no name, password or
    /// query.
    #[serde(deserialize_with = "address")]
    pub base_url: String,
    /// The key, as a reference to an environment variable. If it is left out, OpenAI's own server gets the key in
    /// `OPENAI_API_KEY`, and any other server gets none.
    pub api_key: Option<Secret>,
    /// The version of the interface, as the query `api-version` (Azure).
    pub api_version: Option<String>,
    /// The part of the conversation that the server is sent.
    pub history: History,
    /// Whether the server is asked for its reasoning in an encrypted form, so that it continues with it after a call of a
    /// tool although it stores nothing. If it is left out, reasoning models of OpenAI and Azure are asked, by their names.
    pub encrypted_reasoning: Option<bool>,
    /// How much of its reasoning the model tells, such as `auto` or `detailed`; nothing if it is left out.
    pub reasoning_summary: Option<String>,
    /// Tools that the server itself runs, beside those of the agent, such as `{ type: web_search }`.
    pub tools: Vec<Value>,
    /// The time limits of an attempt.
    pub timeouts: Timeouts,
    /// The prices of the model. Without them the [table of prices](crate::PriceTable) is used, for the provider's own server;
    /// what it does not know costs 0, and a budget in money over it is refused.
    pub prices: Option<Prices>,
    /// Further fields of each request body. They replace the request's own fields, except `input` and `stream`; `null`
    /// removes one. The further fields of a single request win over these. A credential does not belong here.
    #[serde(deserialize_with = "no_credentials")]
    pub extra: BTreeMap<String, Value>,
    /// Further headers. `${NAME}` in a value stands for that environment variable, and `$$` for a dollar sign.
    #[serde(deserialize_with = "without_credentials")]
    pub headers: BTreeMap<String, String>,
    /// Whether a key may go to another machine over plain `http`.
    pub allow_plain_http: bool,
    /// The most bytes of an answer, as it comes over the wire.
    pub max_response_bytes: u64,
    /// Whether the requests of runs go in batches, for half the price and within a day, and how they are gathered. The
    /// server is always sent the whole conversation then. Prices that are given are those of batches.
    pub batch: Option<BatchSpec>,
}

/// The part of the conversation that the server is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum History {
    /// All of it, with each request. The server stores nothing (`store: false`).
    #[default]
    Whole,
    /// The messages behind the model's last answer, which the server has stored. Where it is gone there (after 30 days), the
    /// server is told the whole conversation once more, without the reasoning that it had.
    Stored,
}

impl OpenAiResponsesSpec {
    /// The model of this name at OpenAI.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            base_url: OpenAiSpec::OPENAI.to_owned(),
            api_key: None,
            api_version: None,
            history: History::default(),
            encrypted_reasoning: None,
            reasoning_summary: None,
            tools: Vec::new(),
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

impl Default for OpenAiResponsesSpec {
    fn default() -> Self {
        Self::new(OpenAiSpec::default().model)
    }
}
