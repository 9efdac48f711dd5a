//! Streamable HTTP, as a service to nest into a router.

use std::{
    borrow::Cow,
    fmt,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use futures_util::stream;
use http::{Request, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Collected, LengthLimitError, Limited, StreamBody};
use rmcp::transport::{
    StreamableHttpServerConfig, StreamableHttpService,
    streamable_http_server::session::local::LocalSessionManager,
};
use tower_service::Service;

use super::{MAX_MESSAGE_BYTES, Owner, Served, handler::Handler, http_sessions::HttpSessions};
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

ghostlight_actors::setters!(HttpOptions {
    hosts: Vec<String>,
    origins: Vec<String>,
    guarded: bool,
});

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
            // The status of a body that could not be read.
            let fault = Arc::<OnceLock<StatusCode>>::default();
            let found = fault.clone();
            // The SDK reads it once the request's headers are in order, or not at all.
            let read = async move {
                let body = body.map_err(|error| error.to_string());
                let body = Limited::new(body, MAX_MESSAGE_BYTES).collect().await;
                match body.map(Collected::to_bytes) {
                    Ok(body) => Ok(Frame::data(match ambiguous::screened(&body) {
                        Cow::Borrowed(_) => body.clone(),
                        Cow::Owned(instead) => instead.into(),
                    })),
                    Err(error) => {
                        found.get_or_init(|| match error.is::<LengthLimitError>() {
                            true => StatusCode::PAYLOAD_TOO_LARGE,
                            false => StatusCode::BAD_REQUEST,
                        });
                        Err(error.to_string())
                    }
                }
            };
            let body = StreamBody::new(stream::once(read));
            let mut response = inner.call(Request::from_parts(parts, body)).await?;
            if let Some(status) = fault.get() {
                *response.status_mut() = *status;
            }
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

#[cfg(test)]
mod tests {
    use std::{
        io::Cursor,
        sync::atomic::{AtomicBool, Ordering::SeqCst},
    };

    use ghostlight_actors::{actor::System, testing::InMemoryStore};

    use super::*;
    use crate::server::McpServer;

    fn request<B>(host: &str, kind: &str, body: B) -> Request<B> {
        let request = Request::post("/")
            .header("host", host)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", kind);
        request.body(body).unwrap()
    }

    #[tokio::test]
    async fn a_body_is_read_within_a_bound_and_only_once_the_headers_are_in_order() {
        let system = System::builder(InMemoryStore::new()).start().await;
        let system = system.unwrap_or_else(|error| panic!("{error}"));
        let mut service = McpServer::new(system).http(&HttpOptions::default());
        let (here, json) = ("localhost", "application/json");

        let long = http_body_util::Full::new(Cursor::new(vec![b' '; MAX_MESSAGE_BYTES + 1]));
        let Ok(answer) = service.call(request(here, json, long)).await;
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);

        let lost = stream::iter([Err::<Frame<&[u8]>, _>("it is gone")]);
        let Ok(answer) = service
            .call(request(here, json, StreamBody::new(lost)))
            .await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);

        for (host, kind) in [("evil.example", json), (here, "text/plain")] {
            let is_read = Arc::<AtomicBool>::default();
            let reading = is_read.clone();
            let body = stream::once(async move {
                reading.store(true, SeqCst);
                Ok::<_, String>(Frame::data(&b"{}"[..]))
            });
            let Ok(answer) = service
                .call(request(host, kind, StreamBody::new(body)))
                .await;
            assert!(answer.status().is_client_error(), "{host} {kind}");
            assert!(!is_read.load(SeqCst), "{host} {kind}");
        }
    }
}
