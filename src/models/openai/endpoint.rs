//! A server, ready to be asked: its address, its headers, and the client that reaches it.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_openai::config::Config;
use ghostlight_actors::{contract::ModelError, safety::is_secret_key, vocabulary::ErrorKind};
use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use reqwest::Url;
use rustls_platform_verifier::BuilderVerifierExt as _;
use secrecy::{ExposeSecret, SecretString};

use super::settings::{OpenAiSettings, Timeouts};
use crate::models::{Secret, SecretError, SecretText};

/// What attempts share. Cloning it is cheap.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) http: reqwest::Client,
    pub(super) address: Arc<Address>,
    /// The server's name and port, which is all of its address that people are shown.
    pub(super) host: String,
    /// Whether this is OpenAI's own server.
    pub(super) is_openai: bool,
}

impl Endpoint {
    /// Reads the settings, looks up their secrets and makes a client.
    ///
    /// # Errors
    /// An address that cannot be used, a key for another machine over plain `http`, a secret that
    /// is not set, a header that HTTP does not allow. None holds a value of a secret.
    pub(super) fn open(settings: &OpenAiSettings) -> Result<Self, ModelError> {
        let url = parse_address(&settings.base_url)?;
        let host = host_of(&url);
        let is_openai = url.host_str() == Some("api.openai.com");
        let key = match &settings.api_key {
            None if is_openai => Some(Secret::variable("OPENAI_API_KEY")),
            key => key.clone(),
        };
        let is_clear = url.scheme() == "http" && !is_local(&url);
        if is_clear && !settings.allow_plain_http && (key.is_some() || has_key(&settings.headers)) {
            return Err(invalid(format!(
                "base_url is plain http, so the key for {host} would travel readable for all, \
                 through any proxy too: use https, or set allow_plain_http where the way there is \
                 trusted"
            )));
        }
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            headers.insert(AUTHORIZATION, bearer(&reveal(&key)?)?);
        }
        for (name, value) in &settings.headers {
            let (name, value) = header(name, value)?;
            headers.insert(name, value);
        }
        let address = Arc::new(Address {
            base: url.as_str().trim_end_matches('/').to_owned(),
            headers,
            no_key: SecretString::default(),
        });
        let http = client(&url, &settings.timeouts)?;
        Ok(Self {
            http,
            address,
            host,
            is_openai,
        })
    }
}

/// Address and headers, in the shape that async-openai asks for. Its own configuration reads
/// the environment behind the user's back and panics on a key with a line break.
pub(super) struct Address {
    base: String,
    headers: HeaderMap,
    no_key: SecretString,
}

/// [`Address`] as async-openai wants to own it.
#[derive(Clone)]
pub(super) struct SharedAddress(pub(super) Arc<Address>);

impl Config for SharedAddress {
    fn headers(&self) -> HeaderMap {
        self.0.headers.clone()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.0.base)
    }

    fn query(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn api_base(&self) -> &str {
        &self.0.base
    }

    /// Empty: the key is in the headers, marked as sensitive.
    fn api_key(&self) -> &SecretString {
        &self.0.no_key
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

/// Whether this address is one of this machine, so that no key is needed to reach it.
pub(super) fn is_loopback(base_url: &str) -> bool {
    Url::parse(base_url).is_ok_and(|url| is_local(&url))
}

/// The server's name and port, for people; nothing where the address cannot be read.
pub(super) fn display_host(base_url: &str) -> String {
    Url::parse(base_url)
        .map(|url| host_of(&url))
        .unwrap_or_default()
}

fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<std::net::IpAddr>() {
        Ok(ip) => ip.is_loopback(),
        Err(_) => bare == "localhost" || bare.ends_with(".localhost"),
    }
}

fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn invalid(message: impl Into<String>) -> ModelError {
    ModelError::new(ErrorKind::InvalidInput, message)
}

/// Reads an address.
///
/// # Errors
/// For what cannot be asked, and for one that holds a credential. None repeats it.
pub(super) fn parse_address(text: &str) -> Result<Url, ModelError> {
    let wanted = "base_url must be an address such as https://api.openai.com/v1";
    let url = Url::parse(text.trim()).map_err(|error| invalid(format!("{wanted}: {error}")))?;
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

/// Whether one of these headers is a credential: a reference to a secret, or known by its name.
fn has_key(headers: &BTreeMap<String, String>) -> bool {
    const NAMES: [&str; 5] = [
        "authorization",
        "api-key",
        "x-api-key",
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

fn bearer(key: &SecretString) -> Result<HeaderValue, ModelError> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose_secret()))
        .map_err(|_| invalid("the api_key holds characters that a header cannot carry"))?;
    value.set_sensitive(true);
    Ok(value)
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
    client(&url, &Timeouts::default())
}

/// A client without anything that repeats, redirects or waits on its own.
fn client(url: &Url, timeouts: &Timeouts) -> Result<reqwest::Client, ModelError> {
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("ghostlight/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(timeouts.connect())
        .tcp_keepalive(std::time::Duration::from_secs(60))
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

/// TLS with ring and the machine's own trusted certificates, without touching the process-wide
/// default provider, which belongs to the program. On this machine itself none are read.
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn open(base_url: &str) -> Result<Endpoint, ModelError> {
        let mut settings = OpenAiSettings::new("m");
        settings.base_url = base_url.into();
        Endpoint::open(&settings)
    }

    #[test]
    fn an_address_that_cannot_be_used_is_refused_without_repeating_its_secrets() {
        for address in [
            "",
            "api.openai.com/v1",
            "ftp://host/v1",
            "http://me:hunter2@host/v1",
            "http://host/v1?key=hunter2",
            "http://",
        ] {
            let error = open(address).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidInput, "{address}");
            assert!(error.message.contains("base_url"), "{error}");
            assert!(!error.message.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn only_addresses_of_this_machine_are_loopback() {
        for address in [
            "http://localhost:1/v1",
            "http://127.0.0.9/v1",
            "http://[::1]:8/v1",
        ] {
            assert!(is_loopback(address), "{address}");
        }
        for address in [
            "http://localhost.example.com",
            "http://10.0.0.1",
            "https://api.openai.com",
        ] {
            assert!(!is_loopback(address), "{address}");
        }
    }

    #[test]
    fn a_key_goes_to_another_machine_over_plain_http_only_where_that_is_allowed() {
        let with = |base_url: &str, change: &dyn Fn(&mut OpenAiSettings)| {
            let mut settings = OpenAiSettings::new("m");
            settings.base_url = base_url.into();
            change(&mut settings);
            Endpoint::open(&settings)
        };
        let key: &dyn Fn(&mut OpenAiSettings) =
            &|settings| settings.api_key = Some(Secret::value("sk-hunter2"));
        let header: &dyn Fn(&mut OpenAiSettings) = &|settings| {
            settings.headers.insert("x-token".into(), "${PATH}".into());
        };
        let plain: &dyn Fn(&mut OpenAiSettings) = &|settings| {
            settings
                .headers
                .insert("X-Api-Key".into(), "hunter2".into());
        };
        for secret in [key, header, plain] {
            let error = with("http://10.0.0.1/v1", secret).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidInput);
            assert!(error.message.contains("plain http"), "{error}");
            assert!(!error.message.contains("hunter2"), "{error}");
        }
        for address in [
            "http://127.0.0.1:9/v1",
            "http://localhost:9/v1",
            "https://10.0.0.1/v1",
        ] {
            assert!(with(address, key).is_ok(), "{address}");
        }
        assert!(open("http://10.0.0.1/v1").is_ok());
        let allowed = with("http://10.0.0.1/v1", &|settings| {
            settings.allow_plain_http = true;
            key(settings);
        });
        assert!(allowed.is_ok());
    }

    #[test]
    fn a_slash_at_the_end_changes_nothing() {
        let with = SharedAddress(open("http://127.0.0.1:9/v1/").unwrap().address);
        let without = SharedAddress(open("http://127.0.0.1:9/v1").unwrap().address);
        assert_eq!(
            with.url("/chat/completions"),
            "http://127.0.0.1:9/v1/chat/completions"
        );
        assert_eq!(with.url("/x"), without.url("/x"));
    }

    #[test]
    fn a_key_that_no_header_can_carry_is_an_error_and_not_a_panic() {
        let mut settings = OpenAiSettings::new("m");
        settings.base_url = "http://127.0.0.1:9/v1".into();
        settings.api_key = Some(Secret::value("two\nlines"));
        let error = Endpoint::open(&settings).unwrap_err();
        assert!(
            error.message.contains("api_key") && !error.message.contains("lines"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_variable_is_named() {
        let mut settings = OpenAiSettings::new("m");
        settings.base_url = "http://127.0.0.1:9/v1".into();
        settings
            .headers
            .insert("x-key".into(), "${GHOSTLIGHT_NO_SUCH_VARIABLE}".into());
        let error = Endpoint::open(&settings).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Authentication);
        assert!(
            error.message.contains("GHOSTLIGHT_NO_SUCH_VARIABLE"),
            "{error}"
        );
    }

    #[test]
    fn headers_are_never_printed() {
        let mut settings = OpenAiSettings::new("m");
        settings.base_url = "http://127.0.0.1:9/v1".into();
        settings.api_key = Some(Secret::value("sk-hunter2"));
        settings.headers.insert("x-key".into(), "hunter2".into());
        let endpoint = Endpoint::open(&settings).unwrap();
        let shown = format!("{endpoint:?} {:?}", endpoint.address.headers);
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
