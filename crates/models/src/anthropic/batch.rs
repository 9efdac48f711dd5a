//! Anthropic's interface for batches: the requests of a batch come with it, and it has no marks.
//!
//! <https://platform.claude.com/docs/en/api/creating-message-batches>

use bytes::{Bytes, BytesMut};
use ghostlight_actors::{
    contract::BoxFuture,
    vocabulary::{ErrorKind, ModelTicket, Timestamp},
};
use http::{Method, header::CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::{
    BatchSpec,
    batches::{
        BatchEndpoint, BatchServer, ItemEnd, Line, Lines, Lost, PAGE, PAGES, Search, Standing,
        cancelled, expired, missing, plain, too_many_pages, unanswered,
    },
    http::Failure,
};

/// The most requests and bytes that the provider takes as one batch.
const MAX_REQUESTS: u32 = 100_000;
const MAX_BYTES: u64 = 256_000_000 - 1_000;
/// The text before and after the requests of a batch.
const HEAD: &[u8] = br#"{"requests":["#;
const TAIL: &[u8] = b"]}";

/// The reason why a model in Vertex AI has none.
pub(super) const NO_BATCHES_AT_VERTEX: &str =
    "batches in Vertex AI are not supported: remove batch, or use the model at Anthropic";

/// The batches of a model at a server with Anthropic's interface.
pub(super) struct AnthropicBatches(pub(super) BatchEndpoint);

/// The settings, within the provider's bounds.
pub(super) fn within_bounds(mut spec: BatchSpec) -> BatchSpec {
    spec.max_requests = spec.max_requests.min(MAX_REQUESTS);
    spec.max_bytes = spec.max_bytes.min(MAX_BYTES);
    spec
}

#[derive(Serialize)]
struct RequestOfBatch<'a> {
    custom_id: &'a ModelTicket,
    params: &'a RawValue,
}

/// A line of answers.
#[derive(Deserialize)]
struct AnswerLine {
    custom_id: String,
    result: ResultOfLine,
}

#[derive(Deserialize)]
struct ResultOfLine {
    r#type: String,
    message: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct About {
    id: String,
    #[serde(default)]
    processing_status: String,
    #[serde(default)]
    request_counts: Counts,
    created_at: Option<String>,
    archived_at: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Counts {
    processing: u64,
    succeeded: u64,
    errored: u64,
    canceled: u64,
    expired: u64,
}

#[derive(Deserialize)]
struct Page {
    data: Vec<About>,
    #[serde(default)]
    has_more: bool,
}

impl About {
    fn is_over(&self) -> bool {
        self.processing_status == "ended"
    }

    /// The number of its requests. The server moves them from one count to another.
    fn requests(&self) -> u64 {
        let of = &self.request_counts;
        of.processing + of.succeeded + of.errored + of.canceled + of.expired
    }

    /// The time at which it was made, as far as it can be read.
    fn made_at(&self) -> Option<Timestamp> {
        let at: jiff::Timestamp = self.created_at.as_ref()?.parse().ok()?;
        let at = u64::try_from(at.as_millisecond());
        Some(Timestamp(at.unwrap_or_default()))
    }

    /// Whether it was made at this time or later, as far as its time can be read.
    fn is_made_since(&self, time: Timestamp) -> bool {
        self.made_at().is_none_or(|made| made >= time)
    }

    /// Whether it may be a batch that was lost, by all that its entry in the list says.
    fn may_be(&self, lost: Lost<'_>) -> bool {
        self.is_made_since(lost.since())
            && self.made_at().is_none_or(|made| made <= lost.until())
            && self.requests() == lost.requests.len() as u64
            && !lost.others.contains(&self.id)
    }
}

impl AnthropicBatches {
    /// Whether the answers of a batch are to these requests: all of them or none.
    async fn answers_to(&self, batch: &str, lost: Lost<'_>) -> Result<bool, Failure> {
        let mut lines = match self.answers(batch, lost.requests.len()).await {
            // Whoever deletes it has read them.
            Err(Failure::Rejected { status: 404, .. }) => return Ok(false),
            lines => lines?,
        };
        while let Some(line) = lines.next().await? {
            if let Line::Whole(line) = line
                && let Some((id, _)) = self.read(&line)
            {
                return Ok(lost.requests.contains(&id));
            }
        }
        Ok(false)
    }

    async fn page(&self, after: &str) -> Result<Page, Failure> {
        let path = format!("/messages/batches?limit={PAGE}{after}");
        self.0.ask(self.0.request(Method::GET, &path)).await
    }
}

impl BatchServer for AnthropicBatches {
    fn endpoint(&self) -> &BatchEndpoint {
        &self.0
    }

    fn line(&self, ticket: &ModelTicket, body: &RawValue) -> Result<Bytes, Failure> {
        let request = RequestOfBatch {
            custom_id: ticket,
            params: body,
        };
        let mut line = serde_json::to_vec(&request).map_err(|_| Failure::Request)?;
        line.push(b',');
        Ok(line.into())
    }

    fn upload(&self, _lines: Vec<Bytes>) -> BoxFuture<'_, Result<String, Failure>> {
        Box::pin(async { Ok(String::new()) })
    }

    fn submit<'a>(
        &'a self,
        _file: &'a str,
        _key: &'a str,
        lines: Vec<Bytes>,
    ) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(async move {
            let all = lines.iter().map(Bytes::len).sum::<usize>();
            let mut body = BytesMut::with_capacity(HEAD.len() + all + TAIL.len());
            body.extend_from_slice(HEAD);
            lines.iter().for_each(|line| body.extend_from_slice(line));
            // The comma behind the last one.
            body.truncate(body.len() - 1);
            body.extend_from_slice(TAIL);
            let request = self.0.request(Method::POST, "/messages/batches");
            let request = request.header(CONTENT_TYPE, "application/json");
            let made: About = self.0.send(request.body(body.freeze())).await?;
            Ok(made.id)
        })
    }

    /// Its only signs are its time, the number of its requests, and the ids of its answers once it has ended.
    fn find<'a>(&'a self, lost: Lost<'a>) -> BoxFuture<'a, Result<Search, Failure>> {
        Box::pin(async move {
            let (mut after, mut may_be) = (String::new(), false);
            for _ in 0..PAGES {
                let page = self.page(&after).await?;
                for about in &page.data {
                    if !about.may_be(lost) {
                        continue;
                    }
                    if !about.is_over() {
                        may_be = true;
                    } else if self.answers_to(&about.id, lost).await? {
                        return Ok(Search::Found(about.id.clone()));
                    }
                }
                let last = page.data.last().filter(|_| page.has_more);
                match last.filter(|last| last.is_made_since(lost.since())) {
                    Some(last) => after = format!("&after_id={}", plain(&last.id)?),
                    None if may_be => return Ok(Search::Undecided),
                    None => return Ok(Search::Absent),
                }
            }
            Err(too_many_pages())
        })
    }

    fn look<'a>(&'a self, batch: &'a str) -> BoxFuture<'a, Result<Standing, Failure>> {
        Box::pin(async move {
            let path = format!("/messages/batches/{}", plain(batch)?);
            let about: About = self.0.ask(self.0.request(Method::GET, &path)).await?;
            if !about.is_over() {
                let cancellable = about.processing_status == "in_progress";
                return Ok(Standing::UnderWay { cancellable });
            }
            let (files, unanswered) = match about.archived_at {
                None => (vec![about.id], missing()),
                Some(_) => (Vec::new(), archived()),
            };
            Ok(Standing::Ended {
                status: about.processing_status,
                files,
                unanswered,
            })
        })
    }

    /// The server's file of answers has the name of its batch.
    fn answers<'a>(
        &'a self,
        file: &'a str,
        requests: usize,
    ) -> BoxFuture<'a, Result<Lines, Failure>> {
        Box::pin(async move {
            let path = format!("/messages/batches/{}/results", plain(file)?);
            self.0.lines(&path, requests).await
        })
    }

    fn read(&self, line: &[u8]) -> Option<(String, ItemEnd)> {
        let line: AnswerLine = serde_json::from_slice(line).ok()?;
        let ResultOfLine {
            r#type,
            message,
            error,
        } = line.result;
        let end = match r#type.as_str() {
            "succeeded" => ItemEnd::Answered {
                status: 200,
                body: message?,
            },
            "errored" => ItemEnd::Answered {
                status: status_of(error.as_deref()?),
                body: error?,
            },
            "canceled" => cancelled(),
            "expired" => expired(),
            _ => return None,
        };
        Some((line.custom_id, end))
    }

    fn cancel<'a>(&'a self, batch: &'a str) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let path = format!("/messages/batches/{}/cancel", plain(batch)?);
            let _: About = self.0.ask(self.0.request(Method::POST, &path)).await?;
            Ok(())
        })
    }

    /// Deletes batches with their answers.
    fn delete<'a>(&'a self, files: &'a [String]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for batch in files {
                let Ok(batch) = plain(batch) else { continue };
                let path = format!("/messages/batches/{batch}");
                let request = self.0.request(Method::DELETE, &path);
                if let Err(failure) = self.0.ask::<Value>(request).await {
                    let error = self.error(failure);
                    tracing::debug!(batch, %error, "a batch stays at its server");
                }
            }
        })
    }
}

/// The status with which the provider reports such an error of a request that goes alone.
fn status_of(error: &RawValue) -> u16 {
    let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
    let kind = &error["error"]["type"];
    match kind.as_str().unwrap_or_default() {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    }
}

/// The end of the requests of a batch whose answers were fetched too late.
fn archived() -> ItemEnd {
    let message = "the answers of its batch were fetched too late: the provider has archived it";
    unanswered(ErrorKind::Model, true, message, String::new())
}
