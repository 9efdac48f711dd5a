//! A server that decides whether a tool may be called.

use std::time::Duration;

use ghostlight_actors::{
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    vocabulary::{Arguments, Effect, ToolDefinition, seconds},
};
use ghostlight_safety::unambiguous_json;
use ring::hmac;
use schemars::JsonSchema;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::models::{Secret, http_client};

/// The most bytes of a decision.
const MAX_BYTES: usize = 64 << 10;

/// The time of a call beyond the server's own, for the connection.
const WAY: Duration = Duration::from_secs(5);

/// Settings of an [`ApprovalWebhook`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ApprovalWebhookSpec {
    /// The address that is asked.
    pub url: String,
    /// The key with which questions are signed.
    pub secret: Secret,
    /// How long the server has to decide; five minutes when left out.
    #[serde(rename = "timeout_s", with = "seconds", default = "default_timeout")]
    #[schemars(with = "f64")]
    pub timeout: Duration,
}

fn default_timeout() -> Duration {
    Duration::from_secs(300)
}

/// A tool that asks a server whether another tool may be called. Name it in an agent's
/// [`ApprovalRule`](crate::definition::ApprovalRule), and do not give it to the agent itself.
///
/// The server gets a POST with `question`, `tool`, `arguments` (complete, with each invisible
/// character as an escape, and each secret as a token with its length), `digest` (of the exact
/// call), `agent`, `run`, `call`, `session` and `user` (the session's owner; null where there is none), and these headers:
///
/// - `Ghostlight-Timestamp`: seconds since 1970.
/// - `Ghostlight-Signature`: `v1=` and the HMAC-SHA-256, in hexadecimal, of the timestamp, a dot,
///   and the body, under the shared secret.
/// - `Idempotency-Key`: the same when a question is sent again after a failure.
///
/// The server answers with status 200 and `{"approved": true}`, or with `false` and a `reason`. It
/// may give other `arguments`, which are used exactly as given; a token that is left in its place
/// is replaced by its secret. A `digest` in the answer must be that of the request. Any other
/// answer, an object with other keys, and no answer in time count as a refusal.
#[derive(Debug)]
pub struct ApprovalWebhook {
    name: String,
    settings: ApprovalWebhookSpec,
    http: reqwest::Client,
}

impl ApprovalWebhook {
    /// Asks this server, signing with this secret.
    ///
    /// # Errors
    /// When the address is not valid for a request.
    pub fn new(
        name: impl Into<String>,
        url: impl Into<String>,
        secret: Secret,
    ) -> Result<Self, ToolError> {
        let settings = ApprovalWebhookSpec {
            url: url.into(),
            secret,
            timeout: default_timeout(),
        };
        Self::from_settings(name, settings)
    }

    /// Asks the server of these settings.
    ///
    /// # Errors
    /// When the address is not valid for a request.
    pub fn from_settings(
        name: impl Into<String>,
        settings: ApprovalWebhookSpec,
    ) -> Result<Self, ToolError> {
        let http = http_client(&settings.url)?;
        let name = name.into();
        Ok(Self {
            name,
            settings,
            http,
        })
    }

    /// Sets how long the server has to decide; the default is five minutes.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.settings.timeout = time;
        self
    }

    async fn ask(&self, body: Vec<u8>, key: String) -> Result<Value, ToolError> {
        let secret = self.settings.secret.reveal()?;
        let now = std::time::SystemTime::now();
        let since = now.duration_since(std::time::UNIX_EPOCH)?.as_secs();
        let signature = sign(secret.expose_secret(), since, &body);
        let request = self
            .http
            .post(&self.settings.url)
            .timeout(self.settings.timeout)
            .header("Content-Type", "application/json")
            .header("Ghostlight-Timestamp", since)
            .header("Ghostlight-Signature", signature)
            .header("Idempotency-Key", key)
            .body(body);
        // The address may hold a secret.
        let mut response = request.send().await.map_err(reqwest::Error::without_url)?;
        if response.status() != reqwest::StatusCode::OK {
            let status = response.status().as_u16();
            return Err(ToolError::new(format!(
                "the server answered with status {status}"
            )));
        }
        let mut answer = Vec::new();
        while let Some(piece) = response
            .chunk()
            .await
            .map_err(reqwest::Error::without_url)?
        {
            answer.extend_from_slice(&piece);
            if answer.len() > MAX_BYTES {
                return Err(ToolError::new(format!(
                    "the answer is longer than {MAX_BYTES} bytes"
                )));
            }
        }
        Ok(unambiguous_json(&answer)?)
    }
}

/// `v1=` and the signature of a body that is sent at this time.
fn sign(secret: &str, at: u64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(format!("{at}.").as_bytes());
    context.update(body);
    let tag = context.sign();
    let hex = tag.as_ref().iter().map(|byte| format!("{byte:02x}"));
    format!("v1={}", hex.collect::<String>())
}

impl Tool for ApprovalWebhook {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new(self.name.clone(), "Decides whether a tool may be called.")
            .parameters(json!({ "type": "object" }))
            .effect(Effect::Idempotent)
            .timeout(self.settings.timeout.saturating_add(WAY))
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let mut asked = arguments.value().cloned().map_err(ToolError::new)?;
        if let Some(asked) = asked.as_object_mut() {
            asked.insert("run".to_owned(), json!(cx.run()));
            if let Some(origin) = cx.origin() {
                let session = origin.session.as_ref().map(ToString::to_string);
                asked.insert("session".to_owned(), json!(session));
                asked.insert("user".to_owned(), json!(origin.user));
            }
        }
        let body = serde_json::to_vec(&asked)?;
        let decision = self.ask(body, cx.idempotency_key()).await?;
        ToolOutput::of(&decision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_may_take_the_time_of_the_server_and_the_way() {
        let webhook = ApprovalWebhook::new("a", "http://b", Secret::value("c")).unwrap();
        let webhook = webhook.timeout(Duration::from_millis(2_001));
        assert_eq!(webhook.definition().timeout_ms, Some(7_001));
    }

    /// The example of RFC 4231, test case 2, with the timestamp as the beginning of the data.
    #[test]
    fn the_signature_is_that_of_other_implementations() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"Jefe");
        let tag = hmac::sign(&key, b"what do ya want for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let hex: String = tag
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, expected);
        let tag = hmac::sign(&key, b"17.{}");
        let hex: String = tag
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(sign("Jefe", 17, b"{}"), format!("v1={hex}"));
    }
}
