//! Requests to public addresses only.

use std::{
    io::Read,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use flate2::read::{GzDecoder, ZlibDecoder};
use futures_util::StreamExt;
use ghostlight_actors::{contract::ToolError, vocabulary::ToolFilter};
use ipnet::IpNet;
use reqwest::{
    Method, StatusCode, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{
        ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue,
        LAST_MODIFIED, LINK, LOCATION,
    },
};
use rustls_platform_verifier::BuilderVerifierExt;

use super::{WebError, WebSpec, address::is_public};

/// Resolves the addresses of a host.
pub trait Resolver: Send + Sync + 'static {
    /// The addresses of this name.
    fn resolve(
        &self,
        host: String,
    ) -> Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>>;
}

/// The operating system's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(
        &self,
        host: String,
    ) -> Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>> {
        Box::pin(async move {
            let looked_up = tokio::task::spawn_blocking(move || {
                use std::net::ToSocketAddrs;
                let found = (host.as_str(), 0).to_socket_addrs()?;
                Ok(found.map(|address| address.ip()).collect())
            });
            looked_up.await.map_err(std::io::Error::other)?
        })
    }
}

/// The rules for addresses.
#[derive(Debug)]
struct Rules {
    settings: WebSpec,
    /// Networks that are not public but allowed.
    networks: Vec<IpNet>,
}

impl Rules {
    fn allows(&self, address: IpAddr) -> bool {
        // `::ffff:10.0.0.1` is treated as 10.0.0.1.
        let plain = address.to_canonical();
        is_public(plain) || self.networks.iter().any(|network| network.contains(&plain))
    }

    /// The reason why an address is refused, if it is.
    fn refuses(&self, url: &Url) -> Option<String> {
        let settings = &self.settings;
        if !settings.schemes.iter().any(|scheme| scheme == url.scheme()) {
            return Some(format!("only {} may be asked", settings.schemes.join(", ")));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Some("it holds a name or a password".to_owned());
        }
        let port = url.port_or_known_default().unwrap_or_default();
        if !settings.ports.is_empty() && !settings.ports.contains(&port) {
            return Some(format!("the port {port} may not be asked"));
        }
        let Some(host) = url.host_str() else {
            return Some("it names no host".to_owned());
        };
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let literal = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<IpAddr>();
        if let Ok(address) = literal
            && !self.allows(address)
        {
            return Some(
                "it is an address of this machine, a private network, or a reserved one".to_owned(),
            );
        }
        if settings
            .deny_hosts
            .iter()
            .any(|pattern| fits(pattern, &host))
        {
            return Some(format!("the host {host} may not be asked"));
        }
        match &settings.hosts {
            Some(allowed) if !allowed.iter().any(|pattern| fits(pattern, &host)) => {
                Some(format!("the host {host} is none of {}", allowed.join(", ")))
            }
            _ => None,
        }
    }
}

/// Whether a host matches a pattern: `example.org` matches only itself, `*.example.org` everything below it.
fn fits(pattern: &str, host: &str) -> bool {
    ToolFilter::names([pattern.to_ascii_lowercase()]).takes(host)
}

/// A resolver that gives the connection only checked addresses: a second look-up of the name could give other ones.
struct Pinning {
    rules: Arc<Rules>,
    resolver: Arc<dyn Resolver>,
}

impl Resolve for Pinning {
    fn resolve(&self, name: Name) -> Resolving {
        let (rules, resolver) = (self.rules.clone(), self.resolver.clone());
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = resolver.resolve(host.clone()).await?;
            // A name with a private address among public ones is suspicious.
            if let Some(address) = found.iter().find(|address| !rules.allows(**address)) {
                tracing::warn!(%host, %address, "a host of the web has an address that may not be reached");
                return Err(PRIVATE.into());
            }
            if found.is_empty() {
                return Err(format!("{host} has no address").into());
            }
            let addresses: Addrs =
                Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

const PRIVATE: &str =
    "the host's name leads to this machine, a private network, or a reserved address";

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<String>,
}

/// A response.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) url: Url,
    pub(crate) content_type: String,
    /// The `Link` header, which names the next page (RFC 8288).
    pub(crate) link: String,
    /// The `ETag` header, or the time of the last change, each after its kind.
    pub(crate) validator: Option<String>,
    pub(crate) body: Vec<u8>,
    /// Whether the body was longer than the limit.
    pub(crate) cut: bool,
}

impl Page {
    /// The address of the next page, if the server names one.
    pub(crate) fn next_page(&self) -> Option<String> {
        let mut links = self.link.split(',');
        let next = links.find(|link| {
            let mut parts = link.split(';').skip(1).map(str::trim);
            parts.any(|part| matches!(part, "rel=next" | "rel=\"next\""))
        })?;
        let target = next.trim().strip_prefix('<')?.split('>').next()?;
        let url = self.url.join(target).ok()?;
        (url.as_str().len() <= 2_048).then(|| url.to_string())
    }
}

/// The client for requests to the web.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    rules: Arc<Rules>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

impl Client {
    pub(crate) fn new(settings: &WebSpec, resolver: Arc<dyn Resolver>) -> Result<Self, WebError> {
        let networks = settings.allow_addresses.iter().map(|text| {
            let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            network.map_err(|_| WebError::Setting(format!("`allow_addresses` holds {text:?}, which is not an address or network such as 10.0.0.0/8")))
        });
        let rules = Arc::new(Rules {
            networks: networks.collect::<Result<_, _>>()?,
            settings: settings.clone(),
        });
        let pinning = Pinning {
            rules: rules.clone(),
            resolver,
        };
        let http = http_client(settings)?.dns_resolver(Arc::new(pinning));
        let http = http
            .build()
            .map_err(|error| WebError::Setting(error.to_string()))?;
        Ok(Self { http, rules })
    }

    /// The reason why an address is refused before its name is resolved, if it is.
    pub(super) fn refuses(&self, url: &Url) -> Option<String> {
        self.rules.refuses(url)
    }

    /// Sends a request and follows redirects; each address is checked like the first.
    pub(crate) async fn ask(&self, mut ask: Ask) -> Result<Page, ToolError> {
        let settings = &self.rules.settings;
        for hop in 0..=settings.max_redirects {
            if let Some(why) = self.rules.refuses(&ask.url) {
                let where_from = if hop > 0 { "it leads on to " } else { "" };
                return Err(ToolError::denied(format!(
                    "{where_from}{}: {why}",
                    shown(&ask.url)
                )));
            }
            let mut request = self
                .http
                .request(ask.method.clone(), ask.url.clone())
                .headers(ask.headers.clone());
            request = request.header(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
            if let Some(body) = &ask.body {
                request = request.body(body.clone());
            }
            let answer = request
                .send()
                .await
                .map_err(|error| failure(&ask, &error))?;
            let location = answer
                .headers()
                .get(LOCATION)
                .filter(|_| answer.status().is_redirection());
            let Some(location) = location else {
                return self.page(ask.url, answer).await;
            };
            let location = location
                .to_str()
                .map_err(|_| ToolError::new("it leads on to something that is not an address"))?;
            let next = ask
                .url
                .join(location)
                .map_err(|error| ToolError::new(format!("it leads on to no address: {error}")))?;
            if next.origin() != ask.url.origin() {
                // Headers for one server are not sent to another.
                ask.headers.clear();
            }
            let status = answer.status();
            let keeps_method = matches!(
                status,
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
            );
            if !keeps_method && ask.method != Method::HEAD {
                (ask.method, ask.body) = (Method::GET, None);
                ask.headers.remove(CONTENT_TYPE);
            } else if ask.body.is_some() && next.origin() != ask.url.origin() {
                return Err(ToolError::denied(
                    "it leads on to another server, to which the body is not sent",
                ));
            }
            ask.url = next;
        }
        Err(ToolError::new(format!(
            "it leads on and on: {} redirects are followed",
            settings.max_redirects
        )))
    }

    async fn page(&self, url: Url, answer: reqwest::Response) -> Result<Page, ToolError> {
        let most = self.rules.settings.max_bytes;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let text = |name| {
            headers
                .get(name)
                .and_then(|value: &HeaderValue| value.to_str().ok())
                .unwrap_or_default()
        };
        let (mut body, mut cut) = (Vec::new(), false);
        let mut pieces = answer.bytes_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| {
                ToolError::new(format!("the answer broke off: {}", without_url(error)))
            })?;
            let room = most - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.len() > room {
                cut = true;
                break;
            }
        }
        let encoding = text(CONTENT_ENCODING).to_ascii_lowercase();
        if !matches!(encoding.as_str(), "" | "identity") {
            (body, cut) =
                decoded(&encoding, &body, most).map(|(body, more)| (body, cut || more))?;
        }
        Ok(Page {
            status,
            url,
            content_type: text(CONTENT_TYPE).to_ascii_lowercase(),
            link: text(LINK).to_owned(),
            validator: validator(text(ETAG), text(LAST_MODIFIED)),
            body,
            cut,
        })
    }
}

fn validator(etag: &str, modified: &str) -> Option<String> {
    match (etag.is_empty(), modified.is_empty()) {
        (false, _) => Some(format!("etag {etag}")),
        (true, false) => Some(format!("modified {modified}")),
        (true, true) => None,
    }
}

/// A client without automatic redirects, with time limits, and without a proxy, which would resolve names itself.
pub(super) fn http_client(settings: &WebSpec) -> Result<reqwest::ClientBuilder, WebError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = tls.and_then(BuilderVerifierExt::with_platform_verifier);
    let tls = tls.map_err(|error| {
        WebError::Setting(format!(
            "the machine's trusted certificates cannot be used: {error}"
        ))
    })?;
    Ok(reqwest::Client::builder()
        .user_agent(concat!("ghostlight/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(settings.timeout.min(Duration::from_secs(10)))
        .timeout(settings.timeout)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
        .tls_backend_preconfigured(tls.with_no_client_auth()))
}

/// Decompresses a body up to a limit; returns whether there was more.
fn decoded(encoding: &str, body: &[u8], most: usize) -> Result<(Vec<u8>, bool), ToolError> {
    let mut plain = Vec::new();
    let limit = most as u64 + 1;
    let read = match encoding {
        "gzip" | "x-gzip" => GzDecoder::new(body).take(limit).read_to_end(&mut plain),
        "deflate" => ZlibDecoder::new(body).take(limit).read_to_end(&mut plain),
        other => {
            return Err(ToolError::new(format!(
                "the answer is encoded as {other:?}, which was not asked for"
            )));
        }
    };
    match read {
        // A body that was cut off ends in the middle.
        Err(error) if plain.is_empty() => Err(ToolError::new(format!(
            "the answer's compression is broken: {error}"
        ))),
        _ => {
            let more = plain.len() > most;
            plain.truncate(most);
            Ok((plain, more))
        }
    }
}

/// An address without its query, which may contain a secret.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string().chars().take(300).collect()
}

fn without_url(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut causes: Vec<String> = vec![error.to_string()];
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    causes.join(": ")
}

/// The error of a failed request, for the model. It counts as certainly failed only if no server was reached.
fn failure(ask: &Ask, error: &reqwest::Error) -> ToolError {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause.to_string() == PRIVATE {
            return ToolError::denied(format!("{}: {PRIVATE}", shown(&ask.url)));
        }
        source = cause.source();
    }
    let why = match error {
        _ if error.is_timeout() => "it did not answer in time".to_owned(),
        _ if error.is_connect() => "it cannot be reached".to_owned(),
        _ => "the request failed".to_owned(),
    };
    let told = format!("{}: {why}", shown(&ask.url));
    let is_safe = matches!(ask.method, Method::GET | Method::HEAD | Method::OPTIONS);
    match is_safe || error.is_connect() || error.is_builder() {
        true => ToolError::new(told),
        false => ToolError::in_doubt(told),
    }
}
