//! Streamable HTTP, as a service to nest into a router.

use std::{
    borrow::Cow,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::Request;
use http_body::Body;
use http_body_util::{BodyExt as _, Collected, Full};
use rmcp::transport::{
    StreamableHttpServerConfig, StreamableHttpService,
    streamable_http_server::session::local::LocalSessionManager,
};
use tower_service::Service;

use super::{Owner, Served, handler::Handler, http_sessions::HttpSessions};
use crate::ambiguous;

type Inner = StreamableHttpService<Handler, LocalSessionManager>;

/// The options of a server over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The host names of the server, such as `example.com` or `example.com:8080`; when empty only those of this
    /// machine. A request for another name is refused, so that no web page reaches a local server by a name of its own
    /// (DNS rebinding).
    pub hosts: Vec<String>,
    /// The origins of web pages that may use it, such as `https://app.example.com:443`; when empty no page may.
    pub origins: Vec<String>,
    /// Whether a service in front of it has already checked host names and origins. Then it serves every request.
    pub guarded: bool,
}

/// A server over streamable HTTP, as a service that never fails: for axum, `nest_service("/mcp", service)`.
///
/// A session of a client belongs to the [`Owner`] for whom it was begun: to others it is as unknown as one that there is
/// not. An owner has 256 sessions at the most; the next one ends the oldest.
#[derive(Clone)]
pub struct HttpService {
    inner: Inner,
    sessions: Arc<HttpSessions>,
}

impl HttpService {
    pub(super) fn new(served: Arc<Served>, options: &HttpOptions) -> Self {
        let mut config = StreamableHttpServerConfig::default();
        if options.guarded {
            config = config.disable_allowed_hosts().disable_allowed_origins();
        } else {
            config = config
                .with_allowed_origins(options.origins.clone())
                .enforce_origin_validation();
            if !options.hosts.is_empty() {
                config = config.with_allowed_hosts(options.hosts.clone());
            }
        }
        let make = move || Ok(Handler::new(served.clone()));
        let sessions = Arc::<HttpSessions>::default();
        let inner = StreamableHttpService::new(make, sessions.manager.clone(), config);
        Self { inner, sessions }
    }
}

impl<B> Service<Request<B>> for HttpService
where
    B: Body + Send + 'static,
    B::Data: Send + 'static,
    B::Error: fmt::Display,
{
    type Response = <Inner as Service<Request<B>>>::Response;
    type Error = <Inner as Service<Request<B>>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<B>>::poll_ready(&mut self.inner, cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let owner = request.extensions().get::<Owner>();
        let owner = owner.map(|Owner(owner)| owner.clone());
        let sessions = self.sessions.clone();
        sessions.hide_from(owner.as_deref(), request.headers_mut());
        let mut inner = self.inner.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            // A body that did not come whole is none.
            let body = body.collect().await.map(Collected::to_bytes);
            let body = body.unwrap_or_default();
            let body = Full::new(match ambiguous::screened(&body) {
                Cow::Borrowed(_) => body.clone(),
                Cow::Owned(instead) => instead.into(),
            });
            let response = inner.call(Request::from_parts(parts, body)).await?;
            sessions.begin(owner, response.headers()).await;
            Ok(response)
        })
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService").finish_non_exhaustive()
    }
}
