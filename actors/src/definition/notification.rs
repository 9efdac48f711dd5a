//! Notifications: what becomes of a team's runs, posted to other programs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DefinitionError, secret_variable, team::is_default};

/// An address to which the server (`ghostlight serve --listen`) posts what becomes of a team's runs.
///
/// Each message is signed with the [`secret`](Self::secret) by [Standard Webhooks](https://www.standardwebhooks.com), and
/// posted until the receiver answers with success. So a receiver may get a message more than once, each time with the same
/// `webhook-id`. The messages of one run arrive in order.
///
/// ```
/// use ghostlight_actors::definition::{Notification, RunNews};
///
/// let ended = Notification::new("https://example.org/runs", "${RECEIVER_SECRET}")
///     .events([RunNews::Completed, RunNews::Failed]);
/// assert!(ended.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Notification {
    /// The address, such as `https://example.org/runs`. Private addresses must be allowed by the server.
    pub url: String,
    /// A reference to the environment variable that holds the secret which signs the messages, such as
    /// `${RECEIVER_SECRET}`.
    pub secret: String,
    /// The news to post; all when left out.
    #[serde(skip_serializing_if = "is_default")]
    pub events: Vec<RunNews>,
}

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

    /// The name of the environment variable that holds the secret.
    pub fn secret_variable(&self) -> Option<&str> {
        secret_variable(&self.secret)
    }

    /// Checks that it has an address and a secret.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        check_address(&self.url)?;
        if self.secret_variable().is_none() {
            return Err(
                "it has no secret: name the environment variable that holds it, such as \
                 `secret: ${RECEIVER_SECRET}`"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

/// Checks the form of an address; whether it may be asked is for the server to say.
pub(super) fn check_address(url: &str) -> Result<(), String> {
    let rest = url.strip_prefix("https://");
    let rest = rest.or_else(|| url.strip_prefix("http://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.starts_with(['/', ':']) => Ok(()),
        _ => Err("its address does not begin with https://HOST".to_owned()),
    }
}

/// Checks the notifications of a team.
///
/// # Errors
/// The first fault, with the notification's address.
pub(super) fn check_all(notifications: &[Notification]) -> Result<(), DefinitionError> {
    for (number, notification) in notifications.iter().enumerate() {
        let url = notification.url.clone();
        let checked = match notifications[..number].contains(notification) {
            true => Err("it is there twice".to_owned()),
            false => notification.check(),
        };
        checked.map_err(|reason| DefinitionError::Notification { url, reason })?;
    }
    Ok(())
}
