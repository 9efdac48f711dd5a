//! Messengers: people talk to a team where they talk to each other.

use std::time::Duration;

use ghostlight_actors::vocabulary::seconds;
use ghostlight_safety::sole_reference;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{is_default, notification::check_address, well_formed};

/// A messenger whose people talk to the team. A bridge, a small program beside the messenger, posts what they write and how
/// they react to the server (`ghostlight serve --listen`, at `/messengers/TEAM/NAME`), and takes the team's messages at
/// [`url`](Self::url). Both ways are signed with the [`secret`](Self::secret) by
/// [Standard Webhooks](https://www.standardwebhooks.com).
///
/// Each person has a session of their own in each chat, as the owner `messenger:NAME:PERSON`.
///
/// ```
/// use std::time::Duration;
/// use ghostlight_server::Messenger;
///
/// let chat = Messenger::new("chat", "https://bridge.example.org/out", "${BRIDGE_SECRET}");
/// let chat = chat.cool_down(Duration::from_secs(2));
/// assert!(chat.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Messenger {
    /// The name: letters, digits, `_` and `-`, unique in the team.
    pub name: String,
    /// The program that speaks to the server.
    #[serde(skip_serializing_if = "is_default")]
    pub form: MessengerForm,
    /// Where the bridge takes messages, or where the service's interface is; Telegram's own when left out. Private addresses
    /// must be allowed by the server. References to environment variables in it are looked up when it is used, and stored
    /// and shown as they are.
    pub url: String,
    /// Of Telegram: a reference to the environment variable that holds the bot's token, such as `${TELEGRAM_TOKEN}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// A reference to the environment variable that holds the secret which both sides sign with, such as
    /// `${BRIDGE_SECRET}`. Telegram is given it as `secret_token` with the address (`setWebhook`), and shows it with each
    /// update.
    pub secret: String,
    /// How long a person waits before their next message is taken, up to an hour; not at all when left out.
    #[serde(
        rename = "cool_down_s",
        with = "seconds",
        skip_serializing_if = "is_default"
    )]
    #[schemars(with = "f64")]
    pub cool_down: Duration,
    /// An emoji with which the team reacts to a message when it begins to work on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub react: Option<String>,
}

/// The programs that speak to a server for a messenger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MessengerForm {
    /// A bridge, whose messages and ours are signed.
    #[default]
    Bridge,
    /// Telegram itself: it posts the updates of a bot, and takes calls of its Bot API.
    Telegram,
}

impl Messenger {
    /// Where Telegram takes calls.
    const TELEGRAM: &'static str = "https://api.telegram.org";
    /// The longest pause between two messages of one person, in seconds.
    pub const MAX_COOL_DOWN: Duration = Duration::from_secs(3_600);
    /// The most bytes of an emoji.
    const MAX_EMOJI: usize = 64;

    /// A messenger whose bridge takes messages at this address. The secret is a reference, such as `${BRIDGE_SECRET}`.
    pub fn new(name: impl Into<String>, url: impl Into<String>, secret: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            url: url.into(),
            secret: secret.into(),
            ..Self::default()
        }
    }

    /// A bot of Telegram. Token and secret are references, such as `${TELEGRAM_TOKEN}` and `${TELEGRAM_SECRET}`.
    pub fn telegram(
        name: impl Into<String>,
        token: impl Into<String>,
        secret: impl Into<String>,
    ) -> Self {
        Self {
            form: MessengerForm::Telegram,
            token: Some(token.into()),
            ..Self::new(name, Self::TELEGRAM, secret)
        }
    }

    /// Where messages are posted.
    pub fn address(&self) -> &str {
        match (self.form, self.url.as_str()) {
            (MessengerForm::Telegram, "") => Self::TELEGRAM,
            (_, url) => url,
        }
    }

    /// The name of the environment variable that holds the bot's token.
    pub fn token_variable(&self) -> Option<&str> {
        sole_reference(self.token.as_deref()?)
    }

    /// Sets how many seconds a person waits before their next message is taken.
    #[must_use]
    pub fn cool_down(mut self, time: Duration) -> Self {
        self.cool_down = time;
        self
    }

    /// Sets the emoji with which the team reacts to a message when it begins to work on it.
    #[must_use]
    pub fn react(mut self, emoji: impl Into<String>) -> Self {
        self.react = Some(emoji.into());
        self
    }

    /// The name of the environment variable that holds the secret.
    pub fn secret_variable(&self) -> Option<&str> {
        sole_reference(&self.secret)
    }

    /// Checks that it has an address and a secret.
    ///
    /// # Errors
    /// The fault.
    pub fn check(&self) -> Result<(), String> {
        if !well_formed(&self.name) {
            return Err("its name is not 1 to 64 letters, digits, `_` or `-`".to_owned());
        }
        check_address(self.address())?;
        match (self.form, self.token_variable(), &self.token) {
            (MessengerForm::Telegram, None, _) => {
                return Err(
                    "it has no token: name the environment variable that holds the bot's, such as \
                     `token: ${TELEGRAM_TOKEN}`"
                        .to_owned(),
                );
            }
            (MessengerForm::Bridge, _, Some(_)) => {
                return Err("`token` is for `form: telegram`: remove it".to_owned());
            }
            _ => {}
        }
        if self.secret_variable().is_none() {
            return Err(
                "it has no secret: name the environment variable that holds it, such as \
                 `secret: ${BRIDGE_SECRET}`"
                    .to_owned(),
            );
        }
        if self.cool_down > Self::MAX_COOL_DOWN {
            let most = Self::MAX_COOL_DOWN.as_secs();
            return Err(format!("`cool_down_s` is {most} at the most"));
        }
        let emoji = self.react.as_deref().unwrap_or("x");
        if emoji.trim().is_empty() || emoji.len() > Self::MAX_EMOJI {
            return Err("`react` is an emoji".to_owned());
        }
        Ok(())
    }
}
