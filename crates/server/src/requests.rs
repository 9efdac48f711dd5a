//! The requests that are under way on one connection.

use std::{
    pin::Pin,
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
use tokio::{sync::watch, time::timeout};

/// Counts the requests of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Requests(watch::Sender<usize>);

impl Requests {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// A service whose requests are counted.
    pub(crate) fn counted<S>(&self, service: S) -> Counted<S> {
        let requests = self.clone();
        Counted { service, requests }
    }

    /// Waits until the connection had no request for this time.
    pub(crate) async fn idle(&self, time: Duration) {
        let mut open = self.0.subscribe();
        loop {
            if open.wait_for(|open| *open == 0).await.is_err() {
                return;
            }
            if timeout(time, open.changed()).await.is_err() {
                return;
            }
        }
    }

    fn begin(&self) -> Open {
        self.0.send_modify(|open| *open += 1);
        Open(self.clone())
    }
}

/// One request, until its response was sent or given up.
#[derive(Debug)]
struct Open(Requests);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.send_modify(|open| *open = open.saturating_sub(1));
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
    type Response = Response<Held>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Held>, S::Error>> + Send>>;

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
            Ok(response.map(|body| Held { body, _open: open }))
        })
    }
}

/// The body of a response, whose request counts until it was sent.
#[derive(Debug)]
pub(crate) struct Held {
    body: Body,
    _open: Open,
}

impl HttpBody for Held {
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
