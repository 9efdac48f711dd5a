//! Clients of HTTP, for providers of models and for the webhook that approves.

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{contract::ModelError, safety::is_secret_key, vocabulary::ErrorKind};
use reqwest::Url;
use rustls_platform_verifier::BuilderVerifierExt as _;

/// How long a connection may take where no setting says it.
const CONNECT: Duration = Duration::from_secs(10);

/// A client for another kind of request to this address, made in the same way.
///
/// # Errors
/// When the address is none that can be asked.
pub(crate) fn http_client(url: &str) -> Result<reqwest::Client, ModelError> {
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
    install_provider();
    client(&url, CONNECT)
}

/// A client without anything that repeats, redirects or waits on its own.
pub(super) fn client(url: &Url, connect: Duration) -> Result<reqwest::Client, ModelError> {
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("ghostlight/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect)
        .tcp_keepalive(Duration::from_secs(60))
        // A redirect would carry the conversation, and perhaps the key, to another place.
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .tls_backend_preconfigured(tls(url)?);
    if is_local(url) {
        // A proxy cannot reach this machine's own addresses.
        builder = builder.no_proxy();
    }
    builder
        .build()
        .map_err(|_| invalid("no HTTP client could be made"))
}

/// Makes ring the process's provider of cryptography, where the program has chosen none.
///
/// With this crate in a program, its own `reqwest` knows TLS without a provider, and
/// `reqwest::Client::new()` panics for want of one where the program's features name none.
pub(crate) fn install_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have been first, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// TLS with ring and the machine's own trusted certificates, whatever the process's provider is.
/// On this machine itself none are read.
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

/// Whether an address is one of this machine.
pub(super) fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<std::net::IpAddr>() {
        Ok(ip) => ip.is_loopback(),
        Err(_) => bare == "localhost" || bare.ends_with(".localhost"),
    }
}

pub(super) fn invalid(message: impl Into<String>) -> ModelError {
    ModelError::new(ErrorKind::InvalidInput, message)
}
