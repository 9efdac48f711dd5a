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
use bytes::Bytes;
use futures_util::stream;
use ghostlight_actors::contract::BoxFuture;
use serde_json::Value;
use tokio::{
    sync::Notify,
    time::{Instant, timeout, timeout_at},
};

use super::{
    failure::{Failure, Phase},
    report::{Report, retry_after},
    settings::OpenAiSettings,
    sse::{EventGate, as_events, check},
};

/// How much of the body of a failed answer is read, in bytes.
const REPORT_LIMIT: u64 = 64 * 1024;

/// How long it is read.
const REPORT_TIME: Duration = Duration::from_secs(5);

/// How many pieces of a stream may wait for whoever takes them before no more is read. What one read
/// brings comes on top.
const MAX_WAITING: usize = 64;

/// How long the end of a finished stream is waited for. A connection can be used again only when
/// the body was read to its end, which mostly comes with the last event.
const LINGER: Duration = Duration::from_millis(50);

/// An attempt's way to the server and what came of it. Clones share the outcome.
#[derive(Clone)]
pub(super) struct Exchange {
    http: reqwest::Client,
    streaming: bool,
    /// When the first byte of the body must have come.
    first_byte: Instant,
    idle: Duration,
    max_bytes: u64,
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
            http,
            streaming,
            first_byte: Instant::now() + settings.timeouts.first_byte(),
            idle: settings.timeouts.idle(),
            max_bytes: settings.max_response_bytes,
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
        let sent = timeout_at(self.first_byte, self.http.execute(request)).await;
        let response = sent
            .map_err(|_| Failure::Timeout(Phase::FirstByte))?
            .map_err(|error| Failure::transport(&error))?;
        let status = response.status();
        let retry_after = retry_after(response.headers());
        let is_json = is_json(response.headers());
        let mut body = Body::new(&self, response);
        if !status.is_success() {
            let report = Report::read(&body.read_report().await);
            return Err(Failure::Rejected {
                status: status.as_u16(),
                retry_after,
                report,
            });
        }
        if self.streaming && !is_json {
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

/// The body of an answer, read in time and within bounds.
struct Body {
    response: reqwest::Response,
    /// When its first byte must have come; `None` once it has.
    first_byte: Option<Instant>,
    idle: Duration,
    limit: u64,
    left: u64,
}

impl Body {
    fn new(exchange: &Exchange, response: reqwest::Response) -> Self {
        Self {
            response,
            first_byte: Some(exchange.first_byte),
            idle: exchange.idle,
            limit: exchange.max_bytes,
            left: exchange.max_bytes,
        }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let (deadline, phase) = match self.first_byte {
            Some(deadline) => (deadline, Phase::FirstByte),
            None => (Instant::now() + self.idle, Phase::Idle),
        };
        let read = timeout_at(deadline, self.response.chunk()).await;
        let read = read.map_err(|_| Failure::Timeout(phase))?;
        let Some(bytes) = read.map_err(|error| Failure::transport(&error))? else {
            return Ok(None);
        };
        self.first_byte = None;
        match self.left.checked_sub(bytes.len() as u64) {
            Some(left) => self.left = left,
            None => return Err(Failure::TooLarge(self.limit)),
        }
        Ok(Some(bytes))
    }

    async fn read_all(&mut self) -> Result<Bytes, Failure> {
        let mut all = Vec::new();
        while let Some(bytes) = self.next().await? {
            all.extend_from_slice(&bytes);
        }
        Ok(all.into())
    }

    /// As much as comes within bounds. The status has already told what matters.
    async fn read_report(&mut self) -> Vec<u8> {
        self.left = REPORT_LIMIT;
        let deadline = Instant::now() + REPORT_TIME;
        let mut report = Vec::new();
        while let Ok(Ok(Some(bytes))) = timeout_at(deadline, self.next()).await {
            report.extend_from_slice(&bytes);
        }
        report
    }
}

fn answer(body: reqwest::Body) -> reqwest::Response {
    http::Response::new(body).into()
}

fn is_json(headers: &http::HeaderMap) -> bool {
    let kind = headers
        .get(http::header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| {
        kind.trim_start()
            .to_ascii_lowercase()
            .starts_with("application/json")
    })
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
        let client = super::super::http_client("http://127.0.0.1:9").unwrap();
        let exchange = Exchange::new(client, &settings, true);
        let body = Body::new(&exchange, answer(reqwest::Body::wrap_stream(pieces)));
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
