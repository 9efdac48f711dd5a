//! One attempt over HTTP, beneath async-openai.
//!
//! async-openai waits for ever on a silent server, repeats requests on its own, loses the status
//! of errors whose body it cannot read, and logs bodies. So it gets an HTTP service of ours,
//! which sends a request once, gives up in time, judges status before body, and hands on only
//! what async-openai can read. What went wrong is kept here, whole, and not in the errors that
//! pass through async-openai.

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
use serde_json::Value;
use tokio::{sync::Notify, time::timeout};

use super::{
    settings::OpenAiSettings,
    sse::{EventGate, as_events, check},
};
use crate::models::http::{Attempt, Body, Failure};

/// How many pieces of a stream may wait for whoever takes them before no more is read. What one read
/// brings comes on top.
const MAX_WAITING: usize = 64;

/// How long the end of a finished stream is waited for. A connection can be used again only when
/// the body was read to its end, which mostly comes with the last event.
const LINGER: Duration = Duration::from_millis(50);

/// An attempt's way to the server and what came of it. Clones share the outcome.
#[derive(Clone)]
pub(super) struct Exchange {
    attempt: Attempt,
    streaming: bool,
    failure: Arc<OnceLock<Failure>>,
    /// The answer, when it came in one piece.
    whole: Arc<Mutex<Option<Value>>>,
    /// The pieces of a stream that were read and not taken yet.
    backlog: Arc<Backlog>,
}

/// async-openai reads ahead into a queue without a bound, where a piece of one letter takes a
/// kilobyte. So the next bytes of a stream are read when there is room.
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
        // The end of a stream is a piece that nobody takes, so there are never too few.
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
    pub(super) fn new(http: reqwest::Client, settings: &OpenAiSettings, streaming: bool) -> Self {
        Self {
            attempt: Attempt::new(http, &settings.timeouts, settings.max_response_bytes),
            streaming,
            failure: Arc::default(),
            whole: Arc::default(),
            backlog: Arc::default(),
        }
    }

    /// Says that a piece of the stream was taken.
    pub(super) fn taken(&self) {
        self.backlog.take();
    }

    /// The answer that came in one piece, once.
    pub(super) fn take_whole(&self) -> Option<Value> {
        self.lock_whole().take()
    }

    fn lock_whole(&self) -> MutexGuard<'_, Option<Value>> {
        // Nothing that panics is done under this lock.
        self.whole.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What went wrong, if anything did.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure.get().cloned()
    }

    /// Keeps a failure, the first of an attempt, and gives what stands for it elsewhere.
    fn fail(&self, failure: Failure) -> std::io::Error {
        // Only the first counts: what follows is its consequence.
        let _ = self.failure.set(failure);
        std::io::Error::other("the attempt failed")
    }

    async fn send(self, request: HttpRequestFactory) -> Result<reqwest::Response, Failure> {
        let request = request.build().await.map_err(|_| Failure::Request)?;
        let mut body = self.attempt.send(request).await?;
        if self.streaming && !body.is_json() {
            return Ok(answer(reqwest::Body::wrap_stream(self.events(body))));
        }
        let body = body.read_all().await?;
        let whole = check(&body)?;
        if self.streaming {
            self.backlog.add(1);
            return Ok(answer(reqwest::Body::from(as_events(&body))));
        }
        // It is parsed here, once: what goes through async-openai stands for it.
        *self.lock_whole() = Some(whole);
        Ok(answer(reqwest::Body::from("null")))
    }

    /// The events of a stream, each whole and readable.
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
                    // What came before the failure counts: it may be the answer's last piece.
                    let end = stream_end(events, error);
                    return Some((end, None));
                }
            }
            exchange.backlog.add(gate.passed() - before);
            if gate.is_done() {
                // Whatever this brings, the answer is whole.
                let _ = timeout(LINGER, body.next()).await;
                return Some((Ok(events), None));
            }
            Some((Ok(events), Some((exchange, body, gate))))
        })
    }
}

/// The last item of a stream that failed. async-openai learns of the failure by the end alone,
/// the caller by [`Exchange::failure`].
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

fn answer(body: reqwest::Body) -> reqwest::Response {
    http::Response::new(body).into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _};

    use super::*;

    /// async-openai takes what it is given into a queue without a bound.
    #[tokio::test]
    async fn a_stream_is_read_as_fast_as_its_pieces_are_taken() {
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = sent.clone();
        let pieces = stream::repeat_with(move || {
            counted.fetch_add(1, Ordering::AcqRel);
            Ok::<_, std::io::Error>("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
        });
        let settings = OpenAiSettings::new("m");
        let client = crate::models::client::http_client("http://127.0.0.1:9").unwrap();
        let exchange = Exchange::new(client, &settings, true);
        let body = Body::new(
            &exchange.attempt,
            answer(reqwest::Body::wrap_stream(pieces)),
        );
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
        // The body itself may have one more in hand.
        assert!(sent.load(Ordering::Acquire) <= read + 1);
    }
}
