//! One attempt over HTTP, beneath async-openai.
//!
//! async-openai waits for ever on a silent server, retries requests on its own, loses the status of
//! an error whose body it cannot read, and logs bodies. So it gets our own HTTP service. This
//! service sends a request once, enforces the time limits, judges the status before the body, and
//! passes on only bodies that async-openai can read. A failure is kept here in full; the errors
//! that pass through async-openai are not used.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use futures_util::stream;
use ghostlight_actors::contract::BoxFuture;
use reqwest::{ResponseBuilderExt as _, Url};
use serde_json::Value;
use tokio::{sync::Notify, time::timeout};

use super::{
    settings::OpenAiSpec,
    sse::{EventGate, as_events, check, values},
};
use crate::http::{Attempt, Body, Endpoint, Failure, is_events};

/// The most pieces of a stream that may wait unread before reading pauses. The pieces of one read
/// may exceed it.
const MAX_WAITING: usize = 64;

/// How long to wait for the end of a stream whose answer is complete. The connection can be reused
/// only if the body was read to its end, which usually comes with the last event.
const LINGER: Duration = Duration::from_millis(50);

/// The HTTP service of one attempt, and the attempt's outcome. Clones share the outcome.
#[derive(Clone)]
pub(super) struct Exchange {
    attempt: Attempt,
    streaming: bool,
    failure: Arc<OnceLock<Failure>>,
    /// The answer, if it was to come in one piece; some servers send it as events all the same.
    whole: Arc<Mutex<Vec<Value>>>,
    /// The pieces of a stream that were read and not yet taken.
    backlog: Arc<Backlog>,
}

/// Limits reading ahead. async-openai reads into an unbounded queue, where a piece of one letter
/// takes a kilobyte, so the next bytes of a stream are read only when there is room.
#[derive(Default)]
struct Backlog {
    waiting: AtomicUsize,
    taken: Notify,
}

impl Backlog {
    fn add(&self, pieces: usize) {
        self.waiting.fetch_add(pieces, Ordering::AcqRel);
    }

    fn take(&self) {
        // The end of a stream counts as a piece and is never taken, so the count cannot fall below
        // zero.
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        self.taken.notify_one();
    }

    async fn room(&self) {
        while self.waiting.load(Ordering::Acquire) >= MAX_WAITING {
            self.taken.notified().await;
        }
    }
}

impl Exchange {
    /// An attempt that starts now.
    pub(super) fn new(http: reqwest::Client, settings: &OpenAiSpec, streaming: bool) -> Self {
        Self {
            attempt: Attempt::new(http, &settings.timeouts, settings.max_response_bytes),
            streaming,
            failure: Arc::default(),
            whole: Arc::default(),
            backlog: Arc::default(),
        }
    }

    /// The same exchange with this endpoint, whose pace it tells what is left of the quota.
    pub(super) fn at(mut self, endpoint: &Endpoint) -> Self {
        self.attempt = self.attempt.at(endpoint);
        self
    }

    /// Notes that a piece of the stream was taken.
    pub(super) fn taken(&self) {
        self.backlog.take();
    }

    /// Takes the answer that was to come in one piece.
    pub(super) fn take_whole(&self) -> Vec<Value> {
        std::mem::take(&mut *self.lock_whole())
    }

    fn lock_whole(&self) -> MutexGuard<'_, Vec<Value>> {
        // Nothing panics under this lock.
        self.whole.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The failure of the attempt, if it failed.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure.get().cloned()
    }

    /// Keeps the first failure of an attempt, and returns the placeholder error for async-openai.
    fn fail(&self, failure: Failure) -> std::io::Error {
        // The first failure counts: later ones are its consequences.
        let _ = self.failure.set(failure);
        std::io::Error::other("the attempt failed")
    }

    async fn send(self, request: HttpRequestFactory) -> Result<reqwest::Response, Failure> {
        let request = request.build().await.map_err(|_| Failure::Request)?;
        let url = request.url().clone();
        let mut body = self.attempt.send(request).await?;
        if self.streaming && !body.is_json() {
            return answer(url, reqwest::Body::wrap_stream(self.events(body)));
        }
        let body = body.read_all().await?;
        if !self.streaming && is_events(&body) {
            let (mut gate, mut events) = (EventGate::default(), Vec::new());
            let passed = gate.push(&body, &mut events);
            let ended = passed.and_then(|()| gate.finish(&mut events));
            *self.lock_whole() = values(&events)?;
            ended?;
            return answer(url, reqwest::Body::from("null"));
        }
        let whole = check(&body)?;
        if self.streaming {
            self.backlog.add(1);
            return answer(url, reqwest::Body::from(as_events(&body)));
        }
        // The answer is parsed here, once; async-openai gets a placeholder.
        self.lock_whole().push(whole);
        answer(url, reqwest::Body::from("null"))
    }

    /// The events of a stream, each complete and valid.
    fn events(self, body: Body) -> impl stream::Stream<Item = Result<Vec<u8>, std::io::Error>> {
        let state = Some((self, body, EventGate::default()));
        stream::unfold(state, |state| async move {
            let (exchange, mut body, mut gate) = state?;
            let mut events = Vec::new();
            exchange.backlog.room().await;
            let before = gate.passed();
            while events.is_empty() {
                let passed = match body.next().await {
                    Ok(Some(bytes)) => gate.push(&bytes, &mut events),
                    Ok(None) => match gate.finish(&mut events) {
                        Ok(()) => {
                            exchange.backlog.add(gate.passed() - before);
                            return Some((Ok(events), None));
                        }
                        failed => failed,
                    },
                    Err(failure) => Err(failure),
                };
                if let Err(failure) = passed {
                    exchange.backlog.add(gate.passed() - before);
                    let error = exchange.fail(failure);
                    // The events before the failure count: they may hold the last piece of the
                    // answer.
                    let end = stream_end(events, error);
                    return Some((end, None));
                }
            }
            exchange.backlog.add(gate.passed() - before);
            if gate.is_done() {
                // The answer is complete, so the result does not matter.
                let _ = timeout(LINGER, body.next()).await;
                return Some((Ok(events), None));
            }
            Some((Ok(events), Some((exchange, body, gate))))
        })
    }
}

/// The last item of a stream that failed. async-openai sees only that the stream ended; the caller
/// gets the failure from [`Exchange::failure`].
fn stream_end(events: Vec<u8>, error: std::io::Error) -> Result<Vec<u8>, std::io::Error> {
    if events.is_empty() {
        Err(error)
    } else {
        Ok(events)
    }
}

impl tower::Service<HttpRequestFactory> for Exchange {
    type Response = reqwest::Response;
    type Error = OpenAIError;
    type Future = BoxFuture<'static, Result<reqwest::Response, OpenAIError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequestFactory) -> Self::Future {
        let exchange = self.clone();
        let sent = self.clone().send(request);
        let outcome: Pin<Box<_>> = Box::pin(async move {
            sent.await
                .map_err(|failure| OpenAIError::Boxed(Box::new(exchange.fail(failure))))
        });
        outcome
    }
}

/// An answer from this address. Without one, `reqwest` would read an address of its own for each answer.
fn answer(url: Url, body: reqwest::Body) -> Result<reqwest::Response, Failure> {
    let answer = http::Response::builder().url(url).body(body);
    answer.map(Into::into).map_err(|_| Failure::Request)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _};

    use super::*;

    /// async-openai reads everything it is offered into an unbounded queue.
    #[tokio::test]
    async fn a_stream_is_read_as_fast_as_its_pieces_are_taken() {
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = sent.clone();
        let pieces = stream::repeat_with(move || {
            counted.fetch_add(1, Ordering::AcqRel);
            Ok::<_, std::io::Error>("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
        });
        let settings = OpenAiSpec::new("m");
        let client = crate::client::http_client("http://127.0.0.1:9").unwrap();
        let exchange = Exchange::new(client, &settings, true);
        let url = Url::parse("http://127.0.0.1:9").unwrap();
        let answer = answer(url, reqwest::Body::wrap_stream(pieces)).unwrap();
        let body = Body::new(&exchange.attempt, answer);
        let mut events = std::pin::pin!(exchange.clone().events(body));
        let mut read = 0;
        while events.next().now_or_never().is_some() {
            read += 1;
            assert!(read <= MAX_WAITING, "nobody takes them");
        }
        assert_eq!(read, MAX_WAITING);
        for _ in 0..10 {
            exchange.taken();
        }
        while events.next().now_or_never().is_some() {
            read += 1;
            assert!(read <= MAX_WAITING + 10);
        }
        assert_eq!(read, MAX_WAITING + 10);
        // The body itself may hold one more piece.
        assert!(sent.load(Ordering::Acquire) <= read + 1);
    }
}
