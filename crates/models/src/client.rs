//! HTTP clients, for providers of models and for the approval webhook.

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{contract::ModelError, vocabulary::ErrorKind};
use ghostlight_safety::{is_loopback_host, is_secret_key};
use reqwest::Url;
use rustls_platform_verifier::BuilderVerifierExt as _;

/// The time limit for connecting where no setting gives one.
const CONNECT: Duration = Duration::from_secs(10);

/// An HTTP client for requests to this address that are not calls of a model.
///
/// # Errors
/// When the address is not `http` or `https`, or holds a credential; when no client can be made.
pub fn http_client(url: &str) -> Result<reqwest::Client, ModelError> {
    let url = Url::parse(url).map_err(|error| invalid(format!("the address: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(invalid("the address must begin with http:// or https://"));
    }
    let in_query = url.query_pairs().any(|(name, _)| is_secret_key(&name));
    if !url.username().is_empty() || url.password().is_some() || in_query {
        return Err(invalid(
            "the address must not hold a name, password or token: it is stored with the team",
        ));
    }
    client(&url, CONNECT)
}

/// A client that neither retries nor follows redirects.
pub(super) fn client(url: &Url, connect: Duration) -> Result<reqwest::Client, ModelError> {
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("ghostlight/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect)
        .tcp_keepalive(Duration::from_secs(60))
        // A redirect could carry the conversation, and perhaps the key, to another server.
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .tls_backend_preconfigured(tls(url)?);
    if is_local(url) || is_link_local(url) {
        // A proxy cannot reach this machine's own addresses, nor those of its cloud.
        builder = builder.no_proxy();
    }
    builder
        .build()
        .map_err(|_| invalid("no HTTP client could be made"))
}

/// TLS with ring and the machine's own trusted certificates, whatever the process's provider is.
/// For an address of this machine no certificates are read.
fn tls(url: &Url) -> Result<rustls::ClientConfig, ModelError> {
    let failed = |error: rustls::Error| {
        invalid(format!(
            "the machine's trusted certificates cannot be used ({error}); install its package of \
             certificates, often ca-certificates"
        ))
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    let builder = if url.scheme() == "http" && is_local(url) {
        builder.with_root_certificates(rustls::RootCertStore::empty())
    } else {
        builder.with_platform_verifier().map_err(failed)?
    };
    Ok(builder.with_no_client_auth())
}

/// Whether an address is on this machine.
pub(super) fn is_local(url: &Url) -> bool {
    url.host_str().is_some_and(is_loopback_host)
}

/// Whether an address is on the link of this machine, where clouds tell their machines about themselves.
fn is_link_local(url: &Url) -> bool {
    let ip = url.host_str().and_then(|host| host.parse().ok());
    ip.is_some_and(|ip: std::net::Ipv4Addr| ip.is_link_local())
}

pub(super) fn invalid(message: impl Into<String>) -> ModelError {
    ModelError::new(ErrorKind::InvalidInput, message)
}
