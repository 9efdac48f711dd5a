//! Streamable HTTP, as a service to nest into a router.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use http::Request;
use http_body::Body;
use rmcp::transport::{
    StreamableHttpServerConfig, StreamableHttpService,
    streamable_http_server::session::local::LocalSessionManager,
};
use tower_service::Service;

use super::{Served, handler::Handler};

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
#[derive(Clone)]
pub struct HttpService(Inner);

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
        Self(StreamableHttpService::new(make, Arc::default(), config))
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
    type Future = <Inner as Service<Request<B>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<B>>::poll_ready(&mut self.0, cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.0.call(request)
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService").finish_non_exhaustive()
    }
}
