//! One attempt: a request is sent once, given up in time, and judged by its status before its body.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use ghostlight_safety::{EventParser, ServerEvent};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

#[cfg(feature = "bedrock")]
use super::frames::FrameParser;
use super::{
    ChangingKey, Endpoint, Failure, JsonReader, Pace, Phase, Timeouts,
    plain_body::PlainBody,
    read_json,
    report::{Report, retry_after},
};

/// How much of the body of a failed answer is read, in bytes.
const REPORT_LIMIT: u64 = 64 * 1024;

/// How long the body of a failed answer is read.
const REPORT_TIME: Duration = Duration::from_secs(5);

/// An attempt, whose time limits run from its creation.
#[derive(Clone)]
pub(crate) struct Attempt {
    http: reqwest::Client,
    /// When the first byte of the body must have come.
    first_byte: Instant,
    idle: Duration,
    /// When all of the body must have come.
    total: Instant,
    max_bytes: u64,
    pace: Option<Arc<Pace>>,
    key: Option<Arc<ChangingKey>>,
}

impl Attempt {
    pub(crate) fn new(http: reqwest::Client, timeouts: &Timeouts, max_bytes: u64) -> Self {
        Self {
            http,
            first_byte: Instant::now() + timeouts.first_byte,
            idle: timeouts.idle,
            total: Instant::now() + timeouts.total,
            max_bytes,
            pace: None,
            key: None,
        }
    }

    /// The same attempt, with the key of this endpoint where it changes, and which tells its pace what is left of the quota.
    pub(crate) fn at(mut self, endpoint: &Endpoint) -> Self {
        self.pace = Some(endpoint.pace.clone());
        self.key.clone_from(&endpoint.changing);
        self
    }

    /// Sends a request and gives the body of a good answer.
    pub(crate) async fn send(&self, request: reqwest::Request) -> Result<Body, Failure> {
        let response = match &self.key {
            None => self.execute(request).await?,
            Some(key) => self.with_key(key, request).await?,
        };
        if let Some(pace) = &self.pace {
            pace.read(response.headers());
        }
        let status = response.status();
        if status.is_success() {
            PlainBody::check(response.headers())?;
            return Ok(Body::new(self, response));
        }
        let pause = retry_after(response.headers());
        let mut body = Body::new(self, response);
        let report = Box::new(Report::read(&body.read_report().await));
        Err(Failure::Rejected {
            status: status.as_u16(),
            retry_after: pause.or(report.retry_delay()),
            report,
        })
    }

    async fn execute(&self, request: reqwest::Request) -> Result<reqwest::Response, Failure> {
        let sent = timeout_at(self.first_byte, self.http.execute(request)).await;
        sent.map_err(|_| Failure::Timeout(Phase::FirstByte))?
            .map_err(|error| Failure::transport(&error))
    }

    /// Sends a request with a key that changes. One that the server refuses is replaced once.
    async fn with_key(
        &self,
        key: &ChangingKey,
        mut request: reqwest::Request,
    ) -> Result<reqwest::Response, Failure> {
        let again = request.try_clone();
        let sent = key.put_into(&mut request, None).await;
        let sent = sent.map_err(Failure::Credential)?;
        let response = self.execute(request).await?;
        // Amazon says so of keys whose time is over.
        let said = response.headers().get("x-amzn-errortype");
        let is_over = said.is_some_and(|said| said.as_bytes().starts_with(b"ExpiredToken"));
        if response.status() != http::StatusCode::UNAUTHORIZED && !is_over {
            return Ok(response);
        }
        let Some(mut again) = again else {
            return Ok(response);
        };
        match key.put_into(&mut again, Some(&sent)).await {
            Ok(_) => self.execute(again).await,
            // The server's refusal says more.
            Err(_) => Ok(response),
        }
    }

    /// Sends a body as JSON. The answer to a request for a stream may still come whole.
    pub(crate) async fn post(
        &self,
        url: String,
        headers: &http::HeaderMap,
        body: &impl Serialize,
    ) -> Result<Received, Failure> {
        let body = serde_json::to_vec(body).map_err(|_| Failure::Request)?;
        let request = self
            .http
            .post(url)
            .headers(headers.clone())
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body);
        let request = request.build().map_err(|_| Failure::Request)?;
        let mut body = self.send(request).await?;
        #[cfg(feature = "bedrock")]
        if body.is_of("application/vnd.amazon.eventstream") {
            return Ok(Received::Events(Box::new(Events {
                body,
                parser: Parser::Frames(FrameParser::default()),
                ready: VecDeque::new(),
                ended: false,
            })));
        }
        if body.is_events() {
            return Ok(Received::Events(Box::new(Events {
                body,
                parser: Parser::Lines(EventParser::default()),
                ready: VecDeque::new(),
                ended: false,
            })));
        }
        let bytes = body.read_all().await?;
        if is_events(&bytes) {
            let (mut parser, mut ready) = (EventParser::default(), VecDeque::new());
            parser.push(&bytes, &mut ready);
            parser.finish(&mut ready);
            return Ok(Received::Events(Box::new(Events {
                body,
                parser: Parser::Lines(parser),
                ready,
                ended: true,
            })));
        }
        let value = read_json(&bytes)?;
        match Failure::in_answer(&value) {
            Some(failure) => Err(failure),
            None => Ok(Received::Whole(value)),
        }
    }
}

/// Whether a body holds events, whatever the server calls it.
pub(crate) fn is_events(body: &[u8]) -> bool {
    let body = body.trim_ascii_start();
    let begins = |field: &&[u8]| body.starts_with(field);
    [&b"data:"[..], b"event:", b"id:", b"retry:", b":"]
        .iter()
        .any(begins)
}

/// The answer of a server.
pub(crate) enum Received {
    /// An answer in one piece.
    Whole(Value),
    /// An answer in pieces.
    Events(Box<Events>),
}

impl Received {
    /// Gives each value of an answer to what puts it together, and says whether it is a piece of a stream. A stream is
    /// whole if nothing but its end is missing.
    pub(crate) async fn values<A>(
        self,
        answer: &mut A,
        is_finished: impl Fn(&A) -> bool,
        mut take: impl FnMut(&mut A, &Value, bool) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut events = match self {
            Self::Whole(whole) => return take(answer, &whole, false),
            Self::Events(events) => events,
        };
        let mut json = JsonReader::default();
        loop {
            let event = match events.next().await {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(()),
                Err(failure) if failure.is_cut() && is_finished(answer) => return Ok(()),
                Err(failure) => return Err(failure),
            };
            let data = event.data.trim_ascii();
            if event.is_error || event.kind == b"error" {
                return Err(Failure::in_band(data));
            }
            match data {
                b"" => continue,
                b"[DONE]" => return Ok(()),
                _ => {}
            }
            let (value, _) = json.read(data)?;
            if let Some(failure) = Failure::in_answer(&value) {
                return Err(failure);
            }
            take(answer, &value, true)?;
        }
    }
}

/// The events of a stream, read as they are taken.
pub(crate) struct Events {
    body: Body,
    parser: Parser,
    ready: VecDeque<ServerEvent>,
    ended: bool,
}

/// The form of a stream.
enum Parser {
    /// Server-sent events.
    Lines(EventParser),
    /// Amazon's binary frames.
    #[cfg(feature = "bedrock")]
    Frames(FrameParser),
}

impl Events {
    /// The next event; `None` at the body's end.
    pub(crate) async fn next(&mut self) -> Result<Option<ServerEvent>, Failure> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            match self.body.next().await? {
                Some(bytes) => match &mut self.parser {
                    Parser::Lines(parser) => parser.push(&bytes, &mut self.ready),
                    #[cfg(feature = "bedrock")]
                    Parser::Frames(parser) => parser.push(&bytes, &mut self.ready)?,
                },
                None => {
                    self.ended = true;
                    match &mut self.parser {
                        Parser::Lines(parser) => parser.finish(&mut self.ready),
                        #[cfg(feature = "bedrock")]
                        Parser::Frames(parser) => {
                            parser.finish()?;
                            continue;
                        }
                    }
                    let is_json = |event: &&ServerEvent| !event.is_error && event.kind != b"error";
                    let data = self.ready.back().filter(is_json);
                    let data = data.map(|event| event.data.trim_ascii());
                    let data = data.filter(|data| !data.is_empty() && *data != b"[DONE]");
                    // Some servers omit the last line end; an event that is not whole was cut off.
                    if data.is_some_and(|data| read_json(data).is_err()) {
                        return Err(Failure::Cut);
                    }
                }
            }
        }
    }
}

/// The body of an answer, read in time and within bounds.
pub(crate) struct Body {
    response: reqwest::Response,
    /// When its first byte must have come; `None` once it has.
    first_byte: Option<Instant>,
    idle: Duration,
    total: Instant,
    limit: u64,
    left: u64,
    plain: PlainBody,
}

impl Body {
    pub(crate) fn new(attempt: &Attempt, response: reqwest::Response) -> Self {
        Self {
            response,
            first_byte: Some(attempt.first_byte),
            idle: attempt.idle,
            total: attempt.total,
            limit: attempt.max_bytes,
            left: attempt.max_bytes,
            plain: PlainBody::default(),
        }
    }

    /// Whether the content type is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.is_of("application/json")
    }

    /// Whether the content type is a stream of events.
    fn is_events(&self) -> bool {
        self.is_of("text/event-stream")
    }

    fn is_of(&self, wanted: &str) -> bool {
        let headers = self.response.headers();
        let kind = headers
            .get(http::header::CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with(wanted))
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let (deadline, phase) = match self.first_byte {
            Some(deadline) => (deadline, Phase::FirstByte),
            None => (Instant::now() + self.idle, Phase::Idle),
        };
        let (deadline, phase) = match deadline <= self.total {
            true => (deadline, phase),
            false => (self.total, Phase::Total),
        };
        let read = timeout_at(deadline, self.response.chunk()).await;
        let read = read.map_err(|_| Failure::Timeout(phase))?;
        let Some(bytes) = read.map_err(|error| Failure::transport(&error))? else {
            return Ok(None);
        };
        self.first_byte = None;
        let bytes = self.plain.next(bytes, self.left)?;
        match self.left.checked_sub(bytes.len() as u64) {
            Some(left) => self.left = left,
            None => return Err(Failure::TooLarge(self.limit)),
        }
        Ok(Some(bytes))
    }

    pub(crate) async fn read_all(&mut self) -> Result<Bytes, Failure> {
        let mut all = Vec::new();
        while let Some(bytes) = self.next().await? {
            all.extend_from_slice(&bytes);
        }
        Ok(all.into())
    }

    /// The body, as far as it comes within the bounds. The status has already told what matters.
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
