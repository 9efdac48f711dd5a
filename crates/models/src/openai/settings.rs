//! The settings of a model on an OpenAI-compatible server, as plain data.

use std::{borrow::Cow, collections::BTreeMap};

use ghostlight_actors::vocabulary::Prices;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Profile, ProfileChoice, Timeouts};
use crate::{
    BatchSpec, Secret,
    http::{self, Tariff, address, no_credentials, without_credentials},
};

/// The settings of a model on an OpenAI-compatible server. A team file holds the same fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct OpenAiSpec {
    /// The server's name of the model.
    pub model: String,
    /// The address up to and without `/chat/completions`, such as `http://127.0.0.1:11434/v1`. It
    /// holds no name, password or query.
    #[serde(deserialize_with = "address")]
    pub base_url: String,
    /// The key, as a reference to an environment variable. If it is left out, OpenAI's own server
    /// gets the key in `OPENAI_API_KEY`, and any other server gets none.
    pub api_key: Option<Secret>,
    /// The time limits of an attempt.
    pub timeouts: Timeouts,
    /// The prices of the model. Without them the [table of prices](crate::PriceTable) is used, for the provider's own server;
    /// what it does not know costs 0, and a budget in money over it is refused.
    pub prices: Option<Prices>,
    /// Further fields of each request body. They replace the request's own fields, except
    /// `messages` and `stream`; `null` removes a field that a server does not accept. Tools in
    /// `tools`, such as the server's own, stand beside the agent's. The further
    /// fields of a single request win over these. A credential does not belong here: `api_key` and
    /// `headers` are for credentials.
    #[serde(deserialize_with = "no_credentials")]
    pub extra: BTreeMap<String, Value>,
    /// Further headers. `${NAME}` in a value stands for that environment variable, as in `Bearer
    /// ${TOKEN}`, and `$$` for a dollar sign. When settings are read from text, a header whose name
    /// marks a credential (`authorization`, `x-api-key`, `cookie`) must contain such a reference,
    /// so that no team file and no store holds a credential.
    #[serde(deserialize_with = "without_credentials")]
    pub headers: BTreeMap<String, String>,
    /// Whether a key may go to another machine over plain `http`, where a proxy or anybody else on
    /// the way can read it. Otherwise such a request is refused.
    pub allow_plain_http: bool,
    /// The most bytes of an answer, as it comes over the wire.
    pub max_response_bytes: u64,
    /// When the model's reasoning is sent back to it.
    pub return_reasoning: ReturnReasoning,
    /// The name of the field that bounds the tokens of an answer. If it is left out, OpenAI's own
    /// server gets `max_completion_tokens`, the only name that its reasoning models accept, and any
    /// other server gets `max_tokens`, but where a profile says otherwise.
    pub token_limit_field: Option<String>,
    /// The abilities of the server, where they are not known by its address: the name of a
    /// [`Profile`](super::Profile), or fields of one. A named profile brings its address and the name of its key's
    /// variable, where these are left out.
    pub profile: Option<ProfileChoice>,
    /// The version of the interface, as the query `api-version` (Azure). Addresses of Azure that name a deployment need
    /// one, and get `2024-10-21` where it is left out.
    pub api_version: Option<String>,
    /// Whether the requests of runs go in batches, for half the price and within a day, and how they are gathered. The
    /// server has `/files` and `/batches`, as OpenAI's has. Prices that are given are those of batches then.
    pub batch: Option<BatchSpec>,
}

impl OpenAiSpec {
    /// OpenAI's own server.
    pub const OPENAI: &str = "https://api.openai.com/v1";

    /// The bound on an answer where none is set: 16 MiB.
    pub const DEFAULT_MAX_RESPONSE_BYTES: u64 = http::MAX_RESPONSE_BYTES;

    /// The model of this name at OpenAI.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            base_url: String::from(Self::OPENAI),
            api_key: None,
            timeouts: Timeouts::default(),
            prices: None,
            extra: BTreeMap::new(),
            headers: BTreeMap::new(),
            allow_plain_http: false,
            max_response_bytes: Self::DEFAULT_MAX_RESPONSE_BYTES,
            return_reasoning: ReturnReasoning::default(),
            token_limit_field: None,
            profile: None,
            api_version: None,
            batch: None,
        }
    }

    /// The address: that of the profile that is named, where no other is set.
    #[doc(hidden)]
    pub fn address(&self) -> Cow<'_, str> {
        let of_profile = match &self.profile {
            Some(choice) if self.base_url == Self::OPENAI => choice.base_url(),
            _ => None,
        };
        of_profile.map_or(Cow::Borrowed(&*self.base_url), Cow::Owned)
    }

    /// By what the requests of runs are charged.
    pub(super) fn tariff(&self) -> Tariff<'_> {
        Tariff {
            is_batched: self.batch.is_some(),
            ..Tariff::new(self.prices.as_ref(), &self.model)
        }
    }

    /// The abilities of the server.
    pub(crate) fn profile(&self) -> Profile {
        let address = self.address();
        match &self.profile {
            Some(choice) => choice.profile(&address, &self.model),
            None => Profile::of(&address, &self.model),
        }
    }
}

impl Default for OpenAiSpec {
    fn default() -> Self {
        Self::new("gpt-5-mini")
    }
}

/// When a model's reasoning goes back to it with the conversation. It goes to the server that sent it, under the field in
/// which it came. Signed reasoning always goes
/// back unchanged, because its provider requires that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReturnReasoning {
    /// With the messages that call tools, as DeepSeek's models require.
    #[default]
    WithToolCalls,
    /// With every message, also the reasoning of other servers' models.
    Always,
    /// Never.
    Never,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_as_they_were_written_and_hold_no_key() {
        let text = r#"{"model": "m", "base_url": "http://host/v1", "api_key": "${KEY}",
            "timeouts": {"idle_s": 7}, "prices": {"input": 1.25, "output": 10},
            "extra": {"top_k": 3}, "headers": {"x-title": "desk"}}"#;
        let settings: OpenAiSpec = serde_json::from_str(text).unwrap();
        assert_eq!(settings.timeouts.idle.as_secs(), 7);
        assert_eq!(settings.timeouts.connect, Timeouts::default().connect);
        let json = serde_json::to_string(&settings).unwrap();
        assert!(json.contains("\"${KEY}\""));
        assert_eq!(serde_json::from_str::<OpenAiSpec>(&json).unwrap(), settings);
    }

    #[test]
    fn a_credential_in_clear_is_refused_without_repeating_it() {
        for (text, told) in [
            (
                r#"{"headers": {"authorization": "Bearer hunter2"}}"#,
                "`authorization` holds a secret",
            ),
            (
                r#"{"headers": {"X-Api-Key": "hunter2"}}"#,
                "`X-Api-Key` holds a secret",
            ),
            (
                r#"{"headers": {"x_api_key": "$$hunter2"}}"#,
                "Bearer ${TOKEN}",
            ),
            (
                r#"{"headers": {"x-title": "a ${hunter2"}}"#,
                "environment variable",
            ),
            (
                r#"{"base_url": "http://me:hunter2@host/v1"}"#,
                "base_url must not hold",
            ),
            (
                r#"{"base_url": "http://hunter2@host/v1"}"#,
                "base_url must not hold",
            ),
            (r#"{"base_url": "http://host/v1?key=hunter2"}"#, "base_url"),
            (
                r#"{"extra": {"auth": {"token": "hunter2"}}}"#,
                "extra: `token`",
            ),
        ] {
            let error = serde_json::from_str::<OpenAiSpec>(text).unwrap_err();
            let error = error.to_string();
            assert!(
                error.contains(told) && !error.contains("hunter2"),
                "{text}: {error}"
            );
        }
        for text in [
            r#"{"headers": {"authorization": "Bearer ${TOKEN}", "x-title": "desk $5"}}"#,
            r#"{"extra": {"max_tokens": 7, "token": 3}}"#,
        ] {
            serde_json::from_str::<OpenAiSpec>(text).unwrap();
        }
    }

    #[test]
    fn a_misspelled_setting_is_named() {
        let error = serde_json::from_str::<OpenAiSpec>(r#"{"base_ulr": "x"}"#).unwrap_err();
        assert!(error.to_string().contains("base_ulr"), "{error}");
    }
}
