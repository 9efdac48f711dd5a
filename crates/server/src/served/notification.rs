//! Notifications: what becomes of a team's runs, posted to other programs.

use ghostlight_safety::sole_reference;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{WebhookPiece, is_default};

/// An address to which the server (`ghostlight serve --listen`) posts what becomes of a team's runs.
///
/// Each message is signed with the [`secret`](Self::secret) by [Standard Webhooks](https://www.standardwebhooks.com), and
/// posted until the receiver answers with success. So a receiver may get a message more than once, each time with the same
/// `webhook-id`. The messages of one run arrive in order.
///
/// ```
/// use ghostlight_server::{Notification, RunNews};
///
/// let ended = Notification::new("https://example.org/runs", "${RECEIVER_SECRET}")
///     .events([RunNews::Completed, RunNews::Failed]);
/// assert!(ended.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Notification {
    /// The address, such as `https://example.org/runs`. Private addresses must be allowed by the server. References to
    /// environment variables in it, such as `${CHAT_KEY}`, are looked up when it is used, and stored and shown as they are.
    pub url: String,
    /// A reference to the environment variable that holds the secret which signs the messages, such as
    /// `${RECEIVER_SECRET}`.
    pub secret: String,
    /// The news to post; all when left out.
    #[serde(skip_serializing_if = "is_default")]
    pub events: Vec<RunNews>,
    /// The form of the messages, for receivers that want another one: any JSON, whose texts may hold places such as
    /// `{body.data.answer}`, read in the message that is posted without it. A text that is one place alone becomes the value
    /// there, with its type. A value that is missing is empty; `{{` and `}}` are braces.
    #[serde(skip_serializing_if = "is_default")]
    pub payload: Option<Value>,
    /// Whether messages are posted; they are when it is left out.
    #[serde(skip_serializing_if = "is_default")]
    pub enabled: Option<bool>,
}

/// The most bytes of a payload, as JSON.
const MAX_PAYLOAD: usize = 16 << 10;

/// News of a run that somebody outside may want to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunNews {
    /// It began.
    Started,
    /// It, or a run below it, asks a question and waits for the answer.
    Waiting,
    /// It is parked: somebody must retry, fork or cancel it.
    Parked,
    /// It ended with an answer.
    Completed,
    /// It failed, or stopped before its task was done.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl RunNews {
    /// The news in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Waiting => "waiting",
            Self::Parked => "parked",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Notification {
    /// A notification of all news. The secret is a reference, such as `${RECEIVER_SECRET}`.
    pub fn new(url: impl Into<String>, secret: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            secret: secret.into(),
            ..Self::default()
        }
    }

    /// Sets the news to post.
    #[must_use]
    pub fn events(mut self, events: impl IntoIterator<Item = RunNews>) -> Self {
        self.events = events.into_iter().collect();
        self
    }

    /// Sets the form of the messages.
    #[must_use]
    pub fn payload(mut self, payload: Value) -> Self {
        self.payload = Some(payload);
        self
    }

    /// Sets whether messages are posted.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = Some(enabled);
        self
    }

    /// The name of the environment variable that holds the secret.
    pub fn secret_variable(&self) -> Option<&str> {
        sole_reference(&self.secret)
    }

    /// Checks that it has an address and a secret, and the places in its payload.
    ///
    /// # Errors
    /// The fault.
    pub fn check(&self) -> Result<(), String> {
        check_address(&self.url)?;
        if self.secret_variable().is_none() {
            return Err(
                "it has no secret: name the environment variable that holds it, such as \
                 `secret: ${RECEIVER_SECRET}`"
                    .to_owned(),
            );
        }
        self.payload.as_ref().map_or(Ok(()), check_payload)
    }
}

fn check_payload(payload: &Value) -> Result<(), String> {
    if payload.to_string().len() > MAX_PAYLOAD {
        return Err(format!("its payload has more than {MAX_PAYLOAD} bytes"));
    }
    let mut values = vec![payload];
    while let Some(value) = values.pop() {
        match value {
            Value::Array(items) => values.extend(items),
            Value::Object(fields) => values.extend(fields.values()),
            Value::String(text) => {
                let pieces = WebhookPiece::all(text);
                let pieces = pieces.map_err(|reason| format!("its payload {reason}"))?;
                let is_there = |piece: &WebhookPiece<'_>| {
                    matches!(
                        piece,
                        WebhookPiece::Text(_) | WebhookPiece::Body(_) | WebhookPiece::Through(_)
                    )
                };
                if !pieces.iter().all(is_there) {
                    return Err("its payload has a place that no message has: there are {body} and {body.NAME}".to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks the form of an address; whether it may be asked is for the server to say.
pub(super) fn check_address(url: &str) -> Result<(), String> {
    let rest = url.strip_prefix("https://");
    let rest = rest.or_else(|| url.strip_prefix("http://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.starts_with(['/', ':']) => Ok(()),
        None if url.starts_with("${") => Ok(()),
        _ => Err("its address does not begin with https://HOST".to_owned()),
    }
}
