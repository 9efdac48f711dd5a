//! A server, ready to be asked: its address, its headers, and the client that reaches it.

use std::{collections::BTreeMap, fmt, sync::Arc};

use ghostlight_actors::{contract::ModelError, vocabulary::ErrorKind};
use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};

use super::{Pace, ServerKind, Timeouts};
use crate::{
    CredentialError, Secret, SecretError, SecretText,
    client::{client, invalid, is_local},
    credential::Changing,
};

/// The address, headers and client that attempts share. Cloning it is cheap.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) http: reqwest::Client,
    /// The address, without a slash at its end.
    pub(crate) base: String,
    /// Headers of each request, the key among them, marked as sensitive.
    pub(crate) headers: HeaderMap,
    /// The server's name and port: the only part of its address that people are shown.
    pub(crate) host: String,
    /// The kind of the server.
    pub(crate) kind: ServerKind,
    /// The pace at which its model is asked.
    pub(crate) pace: Arc<Pace>,
    /// The key, if it changes. It is not among the headers.
    pub(crate) changing: Option<Arc<ChangingKey>>,
}

/// How a server is reached, as a provider's settings say it.
pub(crate) struct Reaching<'a> {
    pub(crate) base_url: &'a str,
    /// The model, whose pace all its users share.
    pub(crate) model: &'a str,
    pub(crate) key: Option<Key>,
    pub(crate) headers: &'a BTreeMap<String, String>,
    pub(crate) allow_plain_http: bool,
    pub(crate) timeouts: &'a Timeouts,
    pub(crate) kind: ServerKind,
}

/// A key, and the header that carries it.
pub(crate) enum Key {
    /// In `authorization`, after `Bearer`.
    Bearer(Secret),
    /// In this header, alone.
    Header(HeaderName, Secret),
    /// As the signature of the request, for Amazon's servers in this region; or as a bearer's token, where the key is one.
    #[cfg(feature = "bedrock")]
    Amazon(Secret, String),
}

/// How a request carries a key that changes.
enum Carrying {
    /// In a header, after this word.
    Header(HeaderName, &'static str),
    /// In a header as a bearer's token, or, where it is a pair of keys, in a signature.
    #[cfg(feature = "bedrock")]
    Signature(super::signature::Scope),
}

/// A key that changes, and how a request carries it.
pub(crate) struct ChangingKey {
    carrying: Carrying,
    key: Changing,
}

impl ChangingKey {
    /// Puts the key as it is now into a request, and returns it. One that the server has refused is not given again.
    pub(crate) async fn put_into(
        &self,
        request: &mut reqwest::Request,
        refused: Option<&SecretString>,
    ) -> Result<SecretString, CredentialError> {
        let key = self.key.key(refused).await?;
        let (name, scheme) = match &self.carrying {
            Carrying::Header(name, scheme) => (name.clone(), *scheme),
            #[cfg(feature = "bedrock")]
            Carrying::Signature(scope) => {
                if scope.sign(request, key.expose_secret())? {
                    return Ok(key);
                }
                (AUTHORIZATION, "Bearer ")
            }
        };
        let text = SecretString::from(format!("{scheme}{}", key.expose_secret()));
        let mut value = HeaderValue::try_from(text.expose_secret()).map_err(|_| {
            CredentialError::new("the key holds characters that a header cannot carry")
        })?;
        value.set_sensitive(true);
        request.headers_mut().insert(name, value);
        Ok(key)
    }
}

impl Endpoint {
    /// Reads the settings, looks up their secrets and makes a client.
    ///
    /// # Errors
    /// An address that cannot be used, a key for another machine over plain `http`, a secret that
    /// is not set, a header that HTTP does not allow. No error contains the value of a secret.
    pub(crate) fn open(reaching: Reaching<'_>) -> Result<Self, ModelError> {
        let Reaching {
            base_url,
            key,
            headers: further,
            ..
        } = reaching;
        let url = parse_address(base_url)?;
        let host = display_host(base_url);
        let is_clear = url.scheme() == "http" && !is_local(&url);
        if is_clear && !reaching.allow_plain_http && (key.is_some() || has_key(further)) {
            return Err(invalid(format!(
                "base_url is plain http, so the key for {host} would travel readable for all, \
                 through any proxy too: use https, or set allow_plain_http where the way there is \
                 trusted"
            )));
        }
        let mut headers = HeaderMap::new();
        let changing = key.as_ref().and_then(Key::changing).map(Arc::new);
        if let Some(key) = key.filter(|_| changing.is_none()) {
            let (name, value) = key.into_header()?;
            headers.insert(name, value);
        }
        for (name, value) in further {
            let (name, value) = header(name, value)?;
            headers.insert(name, value);
        }
        Ok(Self {
            http: client(&url, reaching.timeouts.connect)?,
            base: url.as_str().trim_end_matches('/').to_owned(),
            headers,
            pace: Pace::of(&host, reaching.model),
            host,
            kind: reaching.kind,
            changing,
        })
    }
}

impl Key {
    /// A key in a header of this name, alone.
    pub(crate) fn header(name: &'static str, key: Secret) -> Self {
        Self::Header(HeaderName::from_static(name), key)
    }

    fn changing(&self) -> Option<ChangingKey> {
        let (carrying, key) = match self {
            Self::Bearer(key) => (Carrying::Header(AUTHORIZATION, "Bearer "), key),
            Self::Header(name, key) => (Carrying::Header(name.clone(), ""), key),
            #[cfg(feature = "bedrock")]
            Self::Amazon(key, region) => {
                let scope = super::signature::Scope::bedrock(region);
                (Carrying::Signature(scope), key)
            }
        };
        let key = key.as_changing()?.clone();
        Some(ChangingKey { carrying, key })
    }

    fn into_header(self) -> Result<(HeaderName, HeaderValue), ModelError> {
        let (name, text) = match self {
            #[cfg(feature = "bedrock")]
            Self::Amazon(key, _) => return Self::Bearer(key).into_header(),
            Self::Bearer(key) => {
                let key = reveal(&key)?;
                let text = format!("Bearer {}", key.expose_secret());
                (AUTHORIZATION, SecretString::from(text))
            }
            Self::Header(name, key) => (name, reveal(&key)?),
        };
        let mut value = HeaderValue::try_from(text.expose_secret())
            .map_err(|_| invalid("the api_key holds characters that a header cannot carry"))?;
        value.set_sensitive(true);
        Ok((name, value))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

/// Whether this address is on this machine, so that no key is needed.
pub(crate) fn is_loopback(base_url: &str) -> bool {
    revealed(base_url).is_ok_and(|url| is_local(&url))
}

/// The server's name and port, for people; empty if the address cannot be read. A variable is shown by its name.
pub(crate) fn display_host(base_url: &str) -> String {
    let host = base_url
        .split_once("://")
        .map_or(base_url, |(_, rest)| rest);
    match host.split('/').next() {
        Some(host) if host.contains("${") => host.to_owned(),
        _ => true_host(base_url),
    }
}

/// The server's name and port; empty if the address cannot be read.
pub(crate) fn true_host(base_url: &str) -> String {
    revealed(base_url).map_or_else(|_| String::new(), |url| host_of(&url))
}

/// The address with the values of its variables.
fn revealed(base_url: &str) -> Result<Url, ModelError> {
    let wanted = "base_url must be an address such as https://api.openai.com/v1";
    let text =
        SecretText::read(base_url.trim()).map_err(|error| invalid(format!("base_url: {error}")))?;
    let text = text.reveal().map_err(not_had)?;
    Url::parse(text.expose_secret()).map_err(|error| invalid(format!("{wanted}: {error}")))
}

fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Reads an address, and looks up its variables.
///
/// # Errors
/// An address that cannot be requested, or that holds a credential; a variable that is not set
/// ([`ErrorKind::Authentication`]). No error repeats it.
pub fn parse_address(text: &str) -> Result<Url, ModelError> {
    let wanted = "base_url must be an address such as https://api.openai.com/v1";
    let url = revealed(text)?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(invalid(format!("{wanted}, with http or https")));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid(
            "base_url must not hold a name or password: use api_key or headers",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid(format!("{wanted}, without ? and #")));
    }
    Ok(url)
}

/// Whether one of these headers is a credential: a reference to a secret, or a known name.
fn has_key(headers: &BTreeMap<String, String>) -> bool {
    const NAMES: [&str; 6] = [
        "authorization",
        "api-key",
        "x-api-key",
        "x-goog-api-key",
        "cookie",
        "proxy-authorization",
    ];
    headers.iter().any(|(name, value)| {
        let is_known = NAMES
            .iter()
            .any(|known| name.trim().eq_ignore_ascii_case(known));
        is_known || value.parse::<Secret>().is_ok()
    })
}

fn reveal(secret: &Secret) -> Result<SecretString, ModelError> {
    secret.reveal().map_err(not_had)
}

fn not_had(error: SecretError) -> ModelError {
    ModelError::new(ErrorKind::Authentication, error.to_string())
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), ModelError> {
    let key = HeaderName::try_from(name)
        .map_err(|_| invalid(format!("{name:?} in headers is not the name of a header")))?;
    let bad = |_| {
        invalid(format!(
            "the value of {name} in headers cannot be sent in a header"
        ))
    };
    let text = SecretText::read(value).map_err(|error| invalid(format!("{name}: {error}")))?;
    let text = text.reveal().map_err(not_had)?;
    let mut value = HeaderValue::try_from(text.expose_secret()).map_err(bad)?;
    value.set_sensitive(true);
    Ok((key, value))
}
