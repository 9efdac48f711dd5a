//! The settings of an OpenAPI document's tools.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ghostlight_actors::vocabulary::{Effect, ToolFilter, seconds};
use reqwest::{Url, header::HeaderName};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::{OpenApiError, document::Document};
use crate::web::WebSpec;

/// The settings of an OpenAPI document's tools: the document, and how to call its API.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OpenApiSpec {
    /// The document: a file, or an `https` address, from which it is read when the System starts.
    pub document: String,
    /// The address of the API. When left out it is the address of the document's first server, and then neither
    /// credentials nor headers may be set.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The credentials, by the names that the document gives to its security schemes: a key, a token, or
    /// `user:password`.
    #[serde(default)]
    pub credentials: BTreeMap<String, SecretString>,
    /// Headers of each request, which may be secret.
    #[serde(default)]
    pub headers: BTreeMap<String, SecretString>,
    /// The effect of repeating a call, by names of tools in which `*` stands for any text; the longest pattern wins. When
    /// left out, GET and HEAD are `read`, PUT and DELETE `idempotent`, and the others `once`.
    #[serde(default)]
    pub effects: BTreeMap<String, Effect>,
    /// Addresses and networks that are not public and yet may be reached, such as `127.0.0.1`.
    #[serde(default)]
    pub allow_addresses: Vec<String>,
    /// How many bytes of an answer are read; 2 MiB when left out.
    #[serde(default = "max_bytes")]
    pub max_bytes: usize,
    /// How many characters of an answer the model reads; 20,000 when left out.
    #[serde(default = "max_output")]
    pub max_output: usize,
    /// How long one request may take; 30 seconds when left out.
    #[serde(rename = "timeout_s", with = "seconds", default = "timeout")]
    pub timeout: Duration,
    /// Looks up the secrets that credentials and headers name.
    #[serde(skip)]
    pub(super) reveal: Option<Reveal>,
}

/// Replaces the names of secrets in a text by their values.
pub(super) type LookUp = dyn Fn(&str) -> Result<SecretString, String> + Send + Sync;

#[derive(Clone)]
pub(super) struct Reveal(pub(super) Arc<LookUp>);

impl std::fmt::Debug for Reveal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reveal")
    }
}

fn max_bytes() -> usize {
    WebSpec::default().max_bytes
}

fn max_output() -> usize {
    WebSpec::default().max_output
}

fn timeout() -> Duration {
    WebSpec::default().timeout
}

impl OpenApiSpec {
    /// Settings for this document, with defaults for the rest.
    pub fn new(document: impl Into<String>) -> Self {
        Self {
            document: document.into(),
            base_url: None,
            credentials: BTreeMap::new(),
            headers: BTreeMap::new(),
            effects: BTreeMap::new(),
            allow_addresses: Vec::new(),
            max_bytes: max_bytes(),
            max_output: max_output(),
            timeout: timeout(),
            reveal: None,
        }
    }

    /// Treats credentials and headers as references, which this function resolves when a request is made. Its error
    /// says what is missing.
    #[must_use]
    pub fn revealing<F>(mut self, look_up: F) -> Self
    where
        F: Fn(&str) -> Result<SecretString, String> + Send + Sync + 'static,
    {
        self.reveal = Some(Reveal(Arc::new(look_up)));
        self
    }

    /// Sets the address of the API.
    #[must_use]
    pub fn base_url(mut self, address: impl Into<String>) -> Self {
        self.base_url = Some(address.into());
        self
    }

    /// Adds a credential for one of the document's security schemes.
    #[must_use]
    pub fn credential(
        mut self,
        scheme: impl Into<String>,
        secret: impl Into<SecretString>,
    ) -> Self {
        self.credentials.insert(scheme.into(), secret.into());
        self
    }

    /// Sets the effect of repeated calls of the tools with these names.
    #[must_use]
    pub fn effect(mut self, pattern: impl Into<String>, effect: Effect) -> Self {
        self.effects.insert(pattern.into(), effect);
        self
    }

    /// Allows an address or a network that is not public.
    #[must_use]
    pub fn allow_address(mut self, address: impl Into<String>) -> Self {
        self.allow_addresses.push(address.into());
        self
    }
}

impl OpenApiSpec {
    /// The address of the API. The document's own address is used only if no secrets are sent there.
    pub(super) fn base(&self, document: &Document) -> Result<Url, OpenApiError> {
        if let Some(given) = &self.base_url {
            let mut url = match given.contains("${") {
                // The fault must not repeat what the variables hold.
                true => address(self.revealed(given)?.expose_secret()).map_err(|_| {
                    OpenApiError::Setting(format!(
                        "`base_url`: {given} is not an address of a server"
                    ))
                })?,
                false => address(given)?,
            };
            url.set_query(None);
            return Ok(url);
        }
        if !self.credentials.is_empty() || !self.headers.is_empty() {
            return Err(OpenApiError::Setting(
                "`base_url` is missing: with `credentials` or `headers` it must be said where they go, which a \
                 document cannot decide"
                    .to_owned(),
            ));
        }
        let missing = || {
            OpenApiError::Setting(
                "`base_url` is missing, and the document names no server by a whole address"
                    .to_owned(),
            )
        };
        let server = document.server().ok_or_else(missing)?;
        let mut url = address(&server).map_err(|_| missing())?;
        url.set_query(None);
        if url.scheme() != "https" {
            return Err(OpenApiError::Setting(
                "`base_url` is missing: the document's server is not `https`, so say yourself that it is the right one"
                    .to_owned(),
            ));
        }
        Ok(url)
    }

    /// The text with the secrets that it refers to.
    fn revealed(&self, text: &str) -> Result<SecretString, OpenApiError> {
        match &self.reveal {
            Some(Reveal(look_up)) => {
                look_up(text).map_err(|error| OpenApiError::Setting(format!("`base_url`: {error}")))
            }
            None => Ok(text.into()),
        }
    }

    /// The web settings that allow this address and no other.
    pub(super) fn web(&self, url: &Url) -> WebSpec {
        WebSpec {
            schemes: vec![url.scheme().to_owned()],
            hosts: url.host_str().map(|host| vec![host.to_owned()]),
            ports: url.port_or_known_default().into_iter().collect(),
            allow_addresses: self.allow_addresses.clone(),
            max_bytes: self.max_bytes,
            max_output: self.max_output,
            timeout: self.timeout,
            ..WebSpec::default()
        }
    }

    pub(super) fn extra_headers(&self) -> Result<Vec<(HeaderName, SecretString)>, OpenApiError> {
        let headers = self.headers.iter().map(|(name, value)| {
            let known = HeaderName::try_from(name).ok();
            let known = known.filter(|name| !crate::web::UNSENT.contains(&name.as_str()));
            let known = known.ok_or_else(|| {
                OpenApiError::Setting(format!("`headers` holds {name:?}, which cannot be sent"))
            })?;
            Ok((known, value.clone()))
        });
        headers.collect()
    }

    pub(super) fn effect_of(&self, tool: &str) -> Option<Effect> {
        let fitting = self.effects.iter();
        let fitting =
            fitting.filter(|(pattern, _)| ToolFilter::Name((*pattern).clone()).takes(tool));
        let longest = fitting.max_by_key(|(pattern, _)| pattern.len());
        longest.map(|(_, effect)| *effect)
    }
}

/// An `http` or `https` address.
pub(super) fn address(text: &str) -> Result<Url, OpenApiError> {
    let fault =
        |why: &str| OpenApiError::Setting(format!("the address {text:?} cannot be used: {why}"));
    let mut url = Url::parse(text).map_err(|error| fault(&error.to_string()))?;
    if !matches!(url.scheme(), "https" | "http") || url.host_str().is_none() {
        return Err(fault("it is neither https nor http"));
    }
    url.set_fragment(None);
    Ok(url)
}
