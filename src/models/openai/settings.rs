//! How a model of a compatible server is reached, as plain data.

use std::{collections::BTreeMap, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::Value;

use ghostlight_actors::{safety::is_secret_key, vocabulary::Prices};

use super::endpoint::parse_address;
use crate::models::{Secret, SecretError, SecretText};

/// Where a model is and how it is spoken to. It is what a team file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct OpenAiSettings {
    /// The server's name of the model.
    pub model: String,
    /// The address up to and without `/chat/completions`, such as `http://127.0.0.1:11434/v1`. It
    /// holds no name, password or query.
    #[serde(deserialize_with = "address")]
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
    /// further fields of a single request win over these. A credential does not belong here: it has its
    /// place in `api_key` or `headers`.
    #[serde(deserialize_with = "no_credentials")]
    pub extra: BTreeMap<String, Value>,
    /// Further headers. `${NAME}` in a value stands for that environment variable, as in
    /// `Bearer ${TOKEN}`, and `$$` for a dollar. From text, a header that is a credential by its name
    /// (`authorization`, `x-api-key`, `cookie`) is read only with such a place, so that no team file and
    /// no store holds one.
    #[serde(deserialize_with = "without_credentials")]
    pub headers: BTreeMap<String, String>,
    /// Whether a key may go to another machine over plain `http`, readable for everything on the
    /// way, a proxy among it. Without it such a request is refused.
    pub allow_plain_http: bool,
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
            allow_plain_http: false,
            max_response_bytes: Self::DEFAULT_MAX_RESPONSE_BYTES,
            return_reasoning: ReturnReasoning::default(),
            token_limit_field: None,
        }
    }
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    // What else is wrong with it is told when it is used; a credential must not be kept until then.
    match parse_address(&text) {
        Err(error) if text.contains(['@', '?', '#']) => Err(D::Error::custom(error.message)),
        _ => Ok(text),
    }
}

fn without_credentials<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let headers = BTreeMap::<String, String>::deserialize(deserializer)?;
    for (name, value) in &headers {
        let text = SecretText::read(value)
            .map_err(|error| D::Error::custom(format!("headers: {name}: {error}")))?;
        if is_secret_key(name) && !value.is_empty() && !text.has_place() {
            return Err(in_clear(name));
        }
    }
    Ok(headers)
}

fn no_credentials<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Value>, D::Error> {
    let extra = BTreeMap::<String, Value>::deserialize(deserializer)?;
    match extra
        .iter()
        .find_map(|(name, value)| credential(name, value))
    {
        None => Ok(extra),
        Some(name) => Err(D::Error::custom(format!(
            "extra: `{name}` is a credential, and what is here is stored as it stands: give it in \
             `api_key` or `headers`"
        ))),
    }
}

/// The name of a credential among these fields.
fn credential<'v>(name: &'v str, value: &'v Value) -> Option<&'v str> {
    match value {
        Value::String(_) if is_secret_key(name) => Some(name),
        Value::Object(fields) => fields
            .iter()
            .find_map(|(name, value)| credential(name, value)),
        Value::Array(items) => items.iter().find_map(|item| credential(name, item)),
        _ => None,
    }
}

fn in_clear<E: Error>(name: &str) -> E {
    E::custom(SecretError::InClear(name.to_owned()))
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
            let error = serde_json::from_str::<OpenAiSettings>(text).unwrap_err();
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
            serde_json::from_str::<OpenAiSettings>(text).unwrap();
        }
    }

    #[test]
    fn a_misspelled_setting_is_named() {
        let error = serde_json::from_str::<OpenAiSettings>(r#"{"base_ulr": "x"}"#).unwrap_err();
        assert!(error.to_string().contains("base_ulr"), "{error}");
    }
}
