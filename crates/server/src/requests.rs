//! The requests that are under way on one connection.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, HttpBody},
    http::{HeaderValue, Request, Response, header},
};
use bytes::Bytes;
use hyper::{
    body::{Frame, Incoming, SizeHint},
    service::Service,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// Counts the requests of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Requests(Arc<Mutex<Count>>);

#[derive(Debug)]
struct Count {
    open: usize,
    /// When the last request ended, or the connection began.
    since: Instant,
}

impl Requests {
    pub(crate) fn new() -> Self {
        let since = Instant::now();
        Self(Arc::new(Mutex::new(Count { open: 0, since })))
    }

    /// A service whose requests are counted.
    pub(crate) fn counted<S>(&self, service: S) -> Counted<S> {
        let requests = self.clone();
        Counted { service, requests }
    }

    /// Waits until the connection had no request for this time. Requests that begin and end wake nothing: this looks when
    /// the time may be up.
    pub(crate) async fn idle(&self, time: Duration) {
        loop {
            let rest = {
                let count = self.0.lock();
                match count.open {
                    0 => time.saturating_sub(count.since.elapsed()),
                    _ => time,
                }
            };
            if rest.is_zero() {
                return;
            }
            sleep(rest).await;
        }
    }

    fn begin(&self) -> Open {
        self.0.lock().open += 1;
        Open(self.clone())
    }
}

/// One request, until its response was sent or given up.
#[derive(Debug)]
pub(crate) struct Open(Requests);

impl Drop for Open {
    fn drop(&mut self) {
        let mut count = self.0.0.lock();
        count.open = count.open.saturating_sub(1);
        count.since = Instant::now();
    }
}

/// A service whose requests are counted.
#[derive(Clone, Debug)]
pub(crate) struct Counted<S> {
    service: S,
    requests: Requests,
}

impl<S> Service<Request<Incoming>> for Counted<S>
where
    S: Service<Request<Incoming>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Held<Open>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Held<Open>>, S::Error>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        // HTTP/2 names the host in the address, where nobody else looks for it.
        let host = request.uri().authority().map(|host| host.as_str());
        let host = host.and_then(|host| HeaderValue::from_str(host).ok());
        if let (Some(host), false) = (host, request.headers().contains_key(header::HOST)) {
            request.headers_mut().insert(header::HOST, host);
        }
        let open = self.requests.begin();
        let answered = self.service.call(request);
        Box::pin(async move {
            let response = answered.await?;
            Ok(response.map(|body| Held::new(body, open)))
        })
    }
}

/// The body of a response, whose request counts until it was sent.
#[derive(Debug)]
pub(crate) struct Held<T> {
    body: Body,
    _counted: T,
}

impl<T> Held<T> {
    pub(crate) fn new(body: Body, counted: T) -> Self {
        let _counted = counted;
        Self { body, _counted }
    }
}

impl<T: Unpin> HttpBody for Held<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
