//! The settings of a client: the agent's address, the headers, and the time limits.

use std::{fmt, sync::Arc, time::Duration};

use ghostlight_actors::contract::Credential;
use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};

use super::{Binding, ClientError};
use crate::signing::CardKey;

/// Gets the value of a header when it is sent; the error gives the reason of a failure, without the value.
type Reveal = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// The settings of a client: the agent's address, the headers, and the time limits.
#[derive(Clone)]
pub struct ClientOptions {
    url: String,
    card: Option<String>,
    pub(super) binding: Option<Binding>,
    headers: Vec<(String, Reveal)>,
    secrets: Vec<Credential>,
    pub(super) trusted: Vec<CardKey>,
    pub(crate) request_timeout: Duration,
    pub(crate) task_timeout: Duration,
}

/// Why settings are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientOptionsError {
    /// An address is invalid.
    #[error("{0:?} is not an address of HTTP, such as https://example.org/agent")]
    Address(String),
    /// A header's name is invalid.
    #[error("{0:?} is not a name of a header")]
    Header(String),
    /// A time is too short.
    #[error("the time limit of a request or of a task is 0: give a longer one")]
    NoTime,
    /// The HTTP client cannot be made.
    #[error("no client could be made: {0}")]
    Client(String),
}

ghostlight_actors::parts_of_system_error!(ClientOptionsError);

/// The addresses of the settings. The headers are sent to their origins alone.
#[derive(Clone, Debug)]
pub(super) struct Addresses {
    pub(super) card: Url,
    pub(super) agent: Url,
}

impl ClientOptions {
    /// The agent at this address, with its card below it (`/.well-known/agent-card.json`).
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            card: None,
            binding: None,
            headers: Vec::new(),
            secrets: Vec::new(),
            trusted: Vec::new(),
            request_timeout: Duration::from_secs(30),
            task_timeout: Duration::from_secs(600),
        }
    }

    /// Sets the card's address, if it is elsewhere.
    #[must_use]
    pub fn card(mut self, url: impl Into<String>) -> Self {
        self.card = Some(url.into());
        self
    }

    /// Uses this binding, whichever the agent's card prefers.
    #[must_use]
    pub fn binding(mut self, binding: Binding) -> Self {
        self.binding = Some(binding);
        self
    }

    /// Sends this header with each request, such as `authorization`.
    #[must_use]
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let value = value.into();
        self.header_from(name, move || Ok(value.clone()))
    }

    /// The same, with a value that is looked up for each request. An error gives the reason why there is no value.
    #[must_use]
    pub fn header_from(
        mut self,
        name: impl Into<String>,
        value: impl Fn() -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        self.headers.push((name.into(), Arc::new(value)));
        self
    }

    /// Takes this secret out of what the agent says, such as a key in the path of its address; those in headers are taken out anyway.
    #[must_use]
    pub fn secret(mut self, secret: Credential) -> Self {
        self.secrets.push(secret);
        self
    }

    /// Trusts the agent's card only if this key, or another that is named so, signed it. Nothing is sent to an agent whose
    /// card is not trusted but the requests for its card. Without a key any card is trusted.
    #[must_use]
    pub fn signed_by(mut self, key: CardKey) -> Self {
        self.trusted.push(key);
        self
    }

    /// Sets the time limit of one request; 30 seconds.
    #[must_use]
    pub fn request_timeout(mut self, time: Duration) -> Self {
        self.request_timeout = time;
        self
    }

    /// Sets the time limit of a task, after which it is cancelled; the time in which it waits for an answer does not
    /// count. 10 minutes.
    #[must_use]
    pub fn task_timeout(mut self, time: Duration) -> Self {
        self.task_timeout = time;
        self
    }

    pub(super) fn check(&self) -> Result<Addresses, ClientOptionsError> {
        if self.request_timeout.is_zero() || self.task_timeout.is_zero() {
            return Err(ClientOptionsError::NoTime);
        }
        for (name, _) in &self.headers {
            HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| ClientOptionsError::Header(name.clone()))?;
        }
        let agent = address(&self.url)?;
        let card = match &self.card {
            Some(card) => address(card)?,
            None => {
                let mut card = agent.clone();
                let path = format!("{}{}", card.path().trim_end_matches('/'), super::CARD_PATH);
                card.set_path(&path);
                card
            }
        };
        Ok(Addresses { card, agent })
    }

    /// The secrets in the headers, and those that were named, which the agent may repeat.
    pub(crate) fn secrets(&self) -> Vec<Credential> {
        let headers = self.headers.iter();
        let values = headers.filter_map(|(name, reveal)| Some((name, reveal().ok()?)));
        values
            .flat_map(|(name, value)| Credential::of_header(name, &value))
            .chain(self.secrets.iter().cloned())
            .collect()
    }

    pub(super) fn sent_headers(&self) -> Result<HeaderMap, ClientError> {
        let mut headers = HeaderMap::new();
        for (name, reveal) in &self.headers {
            let failed = |reason: String| ClientError::Header {
                name: name.clone(),
                reason,
            };
            let value = reveal().map_err(failed)?;
            let mut value = HeaderValue::from_str(value.trim())
                .map_err(|_| failed("its value has characters that no header has".to_owned()))?;
            value.set_sensitive(true);
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| failed("its name is none".to_owned()))?;
            headers.insert(name, value);
        }
        Ok(headers)
    }
}

fn address(text: &str) -> Result<Url, ClientOptionsError> {
    let url = Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"));
    url.ok_or_else(|| ClientOptionsError::Address(text.to_owned()))
}

/// The values of headers may be secrets.
impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ClientOptions")
            .field("url", &self.url)
            .field("card", &self.card)
            .field("binding", &self.binding)
            .field("headers", &headers)
            .field("trusted", &self.trusted)
            .field("request_timeout", &self.request_timeout)
            .field("task_timeout", &self.task_timeout)
            .finish()
    }
}
