//! How a model of a compatible server is reached, as plain data.

use std::{collections::BTreeMap, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use ghostlight_actors::vocabulary::Prices;

use crate::models::Secret;

/// Where a model is and how it is spoken to. It is what a team file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct OpenAiSettings {
    /// The server's name of the model.
    pub model: String,
    /// The address up to and without `/chat/completions`, such as `http://127.0.0.1:11434/v1`.
    pub base_url: String,
    /// The key, as a reference to an environment variable. Left out, OpenAI's own server gets
    /// the one in `OPENAI_API_KEY`, and any other server none.
    pub api_key: Option<Secret>,
    /// How long to wait for what.
    pub timeouts: Timeouts,
    /// What the model costs; without it the cost of its answers is 0.
    pub prices: Option<Prices>,
    /// Further fields of each request body. They take the place of the request's own, except
    /// `messages` and `stream`; `null` takes out a field that a server does not accept. The
    /// further fields of a single request win over these.
    pub extra: BTreeMap<String, Value>,
    /// Further headers. A value that is exactly `${NAME}` is that environment variable's.
    pub headers: BTreeMap<String, String>,
    /// The most bytes of an answer, as it comes over the wire.
    pub max_response_bytes: u64,
    /// Whether the model's reasoning is sent back to it.
    pub return_reasoning: ReturnReasoning,
    /// The name of the field that bounds the tokens of an answer. Left out, it is
    /// `max_completion_tokens` at OpenAI, whose reasoning models accept no other, and
    /// `max_tokens`, which all others know.
    pub token_limit_field: Option<String>,
}

impl OpenAiSettings {
    /// OpenAI's own server.
    pub const OPENAI: &str = "https://api.openai.com/v1";

    /// The bound on an answer where none is set: 16 MiB.
    pub const DEFAULT_MAX_RESPONSE_BYTES: u64 = 16 * 1024 * 1024;

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
            max_response_bytes: Self::DEFAULT_MAX_RESPONSE_BYTES,
            return_reasoning: ReturnReasoning::default(),
            token_limit_field: None,
        }
    }
}

impl Default for OpenAiSettings {
    fn default() -> Self {
        Self::new("gpt-5-mini")
    }
}

/// How long one attempt waits, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// For the connection.
    pub connect_ms: u64,
    /// From the start of the attempt to the first byte of the answer's body. A server that does
    /// not stream sends it only when the whole answer is made.
    pub first_byte_ms: u64,
    /// Between two pieces of the body.
    pub idle_ms: u64,
    /// For the whole attempt.
    pub total_ms: u64,
}

impl Default for Timeouts {
    /// 10 seconds to connect, 5 minutes to the first byte, 2 minutes between pieces, 20 minutes
    /// in all: reasoning models are silent for minutes, and a retry is paid again.
    fn default() -> Self {
        Self {
            connect_ms: 10_000,
            first_byte_ms: 300_000,
            idle_ms: 120_000,
            total_ms: 1_200_000,
        }
    }
}

impl Timeouts {
    pub(super) fn connect(&self) -> Duration {
        Duration::from_millis(self.connect_ms)
    }

    pub(super) fn first_byte(&self) -> Duration {
        Duration::from_millis(self.first_byte_ms)
    }

    pub(super) fn idle(&self) -> Duration {
        Duration::from_millis(self.idle_ms)
    }

    pub(super) fn total(&self) -> Duration {
        Duration::from_millis(self.total_ms)
    }
}

/// Whether a model's reasoning goes back to it with the conversation. What carries a signature
/// is always sent back unchanged, because its provider demands it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReturnReasoning {
    /// With the messages that call tools, as DeepSeek's models demand.
    #[default]
    WithToolCalls,
    /// With every message.
    Always,
    /// Never, for servers that refuse the field `reasoning_content`.
    Never,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_as_they_were_written_and_hold_no_key() {
        let text = r#"{"model": "m", "base_url": "http://host/v1", "api_key": "${KEY}",
            "timeouts": {"idle_ms": 7}, "prices": {"input": 1.25, "output": 10},
            "extra": {"top_k": 3}, "headers": {"x-title": "desk"}}"#;
        let settings: OpenAiSettings = serde_json::from_str(text).unwrap();
        assert_eq!(settings.timeouts.idle_ms, 7);
        assert_eq!(settings.timeouts.connect_ms, Timeouts::default().connect_ms);
        let json = serde_json::to_string(&settings).unwrap();
        assert!(json.contains("\"${KEY}\""));
        assert_eq!(
            serde_json::from_str::<OpenAiSettings>(&json).unwrap(),
            settings
        );
    }

    #[test]
    fn a_misspelled_setting_is_named() {
        let error = serde_json::from_str::<OpenAiSettings>(r#"{"base_ulr": "x"}"#).unwrap_err();
        assert!(error.to_string().contains("base_ulr"), "{error}");
    }
}
