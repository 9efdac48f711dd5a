//! OpenAI's interface for batches: files of requests, the batches made of them, and files of answers.
//!
//! <https://platform.openai.com/docs/api-reference/batch>

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use ghostlight_actors::{
    contract::{BoxFuture, ModelError},
    vocabulary::{Digest, ErrorKind, ModelTicket, Timestamp},
};
use http::{Method, header::CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};
use tokio::time::timeout;

use crate::models::{
    Timeouts,
    batches::{BatchServer, ItemEnd, Lines, Standing},
    http::{Attempt, Body, Endpoint, Failure, Phase, Scrub, read_json},
};

/// The time limit of the request that makes a batch. Another process looks for the batch later than that.
const SUBMITTING: Duration = Duration::from_secs(60);
/// The largest answer about a batch, or a page of batches, in bytes.
const MAX_ABOUT: u64 = 16 * 1024 * 1024;
/// The batches of a page, and the pages that are searched.
const PAGE: usize = 100;
const PAGES: usize = 50;
/// By how much the server's clock may differ, in milliseconds.
const SKEW: u64 = 3_600_000;
/// The field of a batch's metadata that holds its key.
const MARK: &str = "ghostlight_batch";
/// How many bytes a file of answers may have, however few the requests were: 1 GiB.
const LEAST_ANSWERS: u64 = 1 << 30;
/// The room of a line of answers beside the answer, in bytes.
const FRAME: u64 = 4096;

/// The reason why a model at Azure has none.
pub(in crate::models) const NO_BATCHES_AT_AZURE: &str =
    "batches at Azure are not supported: remove batch, or use a model at OpenAI";

/// The batches of a model at a server with OpenAI's interface.
pub(in crate::models) struct OpenAiBatches {
    pub(in crate::models) server: Arc<Endpoint>,
    /// The server's name of the model. All requests of a batch are to one model.
    pub(in crate::models) model: String,
    /// The path to which each request would go alone, such as `/v1/chat/completions`.
    pub(in crate::models) path: &'static str,
    pub(in crate::models) timeouts: Timeouts,
    /// The bound on one answer.
    pub(in crate::models) max_response_bytes: u64,
}

/// A line of requests.
#[derive(Serialize)]
struct RequestLine<'a> {
    custom_id: &'a ModelTicket,
    method: &'static str,
    url: &'static str,
    body: &'a RawValue,
}

/// A line of answers.
#[derive(Deserialize)]
struct AnswerLine {
    custom_id: String,
    response: Option<AnswerOfLine>,
    error: Option<FaultOfLine>,
}

#[derive(Deserialize)]
struct AnswerOfLine {
    status_code: u16,
    body: Box<RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FaultOfLine {
    code: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Made {
    id: String,
}

#[derive(Deserialize)]
struct About {
    id: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    created_at: u64,
    output_file_id: Option<String>,
    error_file_id: Option<String>,
    #[serde(default)]
    metadata: Value,
    #[serde(default)]
    errors: Value,
}

#[derive(Deserialize)]
struct Page {
    data: Vec<About>,
    #[serde(default)]
    has_more: bool,
}

impl OpenAiBatches {
    fn attempt(&self, max_bytes: u64) -> Attempt {
        Attempt::new(self.server.http.clone(), &self.timeouts, max_bytes).at(&self.server)
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.server.base);
        let request = self.server.http.request(method, url);
        request.headers(self.server.headers.clone())
    }

    /// Sends a request, and reads the answer as JSON.
    async fn ask<T: for<'de> Deserialize<'de>>(
        &self,
        request: reqwest::RequestBuilder,
        total: Duration,
    ) -> Result<T, Failure> {
        let asked = async {
            let request = request.build().map_err(|_| Failure::Request)?;
            let mut body = self.attempt(MAX_ABOUT).send(request).await?;
            let value = read_json(&body.read_all().await?)?;
            T::deserialize(value)
                .map_err(|_| Failure::Malformed("it is not about a batch or a file".to_owned()))
        };
        timeout(total, asked)
            .await
            .unwrap_or(Err(Failure::Timeout(Phase::Total)))
    }

    async fn about(&self, batch: &str) -> Result<About, Failure> {
        let request = self.request(Method::GET, &format!("/batches/{}", plain(batch)?));
        self.ask(request, SUBMITTING).await
    }
}

/// The name for people of a model at this host, asked at this path.
pub(in crate::models) fn described(model: &str, host: &str, path: &str) -> String {
    format!("{model} at {host}{path}")
}

/// An id of the server as a part of a path.
fn plain(id: &str) -> Result<&str, Failure> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    match !id.is_empty() && id.len() <= 256 && id.bytes().all(fits) {
        true => Ok(id),
        false => Err(Failure::Malformed(
            "an id has other characters than letters, digits, _ and -".to_owned(),
        )),
    }
}

/// A form with the purpose of a file, and the file. No line of requests can be taken for a boundary, since it begins with a
/// brace.
fn form(lines: Vec<Bytes>) -> (String, Bytes) {
    const BOUNDARY: &str = "ghostlight-boundary-6d0f5a0c1b7e4f3a";
    let head = format!(
        "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--{BOUNDARY}\r\n\
         content-disposition: form-data; name=\"file\"; filename=\"requests.jsonl\"\r\n\
         content-type: application/jsonl\r\n\r\n"
    );
    let tail = format!("\r\n--{BOUNDARY}--\r\n");
    let all = lines.iter().map(Bytes::len).sum::<usize>();
    let mut body = BytesMut::with_capacity(head.len() + all + tail.len());
    body.extend_from_slice(head.as_bytes());
    lines.iter().for_each(|line| body.extend_from_slice(line));
    body.extend_from_slice(tail.as_bytes());
    (
        format!("multipart/form-data; boundary={BOUNDARY}"),
        body.freeze(),
    )
}

impl BatchServer for OpenAiBatches {
    fn description(&self) -> String {
        described(&self.model, &self.server.host, self.path)
    }

    fn account(&self) -> String {
        let headers = self.server.headers.iter();
        let mut parts: Vec<&[u8]> = headers
            .flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()])
            .collect();
        // A key that changes is not among them.
        parts.push(MARK.as_bytes());
        Digest::of_parts(&parts).to_string()[..12].to_owned()
    }

    fn upload_time(&self) -> Duration {
        self.timeouts.total()
    }

    fn line(&self, ticket: &ModelTicket, body: &RawValue) -> Result<Bytes, Failure> {
        let line = RequestLine {
            custom_id: ticket,
            method: "POST",
            url: self.path,
            body,
        };
        let mut line = serde_json::to_vec(&line).map_err(|_| Failure::Request)?;
        line.push(b'\n');
        Ok(line.into())
    }

    fn upload(&self, lines: Vec<Bytes>) -> BoxFuture<'_, Result<String, Failure>> {
        Box::pin(async move {
            let (kind, body) = form(lines);
            let request = self.request(Method::POST, "/files");
            let request = request.header(CONTENT_TYPE, kind).body(body);
            let made: Made = self.ask(request, self.timeouts.total()).await?;
            Ok(made.id)
        })
    }

    fn submit<'a>(&'a self, file: &'a str, key: &'a str) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(async move {
            let body = json!({
                "input_file_id": file,
                "endpoint": self.path,
                "completion_window": "24h",
                "metadata": { MARK: key },
            });
            let request = self.request(Method::POST, "/batches").json(&body);
            let made: Made = self.ask(request, SUBMITTING).await?;
            Ok(made.id)
        })
    }

    fn find<'a>(
        &'a self,
        key: &'a str,
        since: Timestamp,
    ) -> BoxFuture<'a, Result<Option<String>, Failure>> {
        Box::pin(async move {
            let since = since.0.saturating_sub(SKEW) / 1000;
            let mut after = String::new();
            for _ in 0..PAGES {
                let path = format!("/batches?limit={PAGE}{after}");
                let page: Page = self
                    .ask(self.request(Method::GET, &path), SUBMITTING)
                    .await?;
                if let Some(found) = page.data.iter().find(|it| it.metadata[MARK] == key) {
                    return Ok(Some(found.id.clone()));
                }
                let last = page.data.last().filter(|_| page.has_more);
                match last.filter(|last| last.created_at >= since) {
                    Some(last) => after = format!("&after={}", plain(&last.id)?),
                    None => return Ok(None),
                }
            }
            Err(Failure::Malformed(format!(
                "its list of batches has more than {PAGES} pages"
            )))
        })
    }

    fn look<'a>(&'a self, batch: &'a str) -> BoxFuture<'a, Result<Standing, Failure>> {
        Box::pin(async move {
            let about = self.about(batch).await?;
            let unanswered = match about.status.as_str() {
                "completed" => {
                    let message =
                        "the answers of its batch hold none to this request that can be read";
                    unanswered(ErrorKind::Malformed, false, message, String::new())
                }
                "expired" => expired(),
                "cancelled" => cancelled(),
                "failed" => failed(&about.errors),
                status => {
                    let cancellable = matches!(status, "validating" | "in_progress");
                    return Ok(Standing::UnderWay { cancellable });
                }
            };
            let files = [about.output_file_id, about.error_file_id];
            Ok(Standing::Ended {
                status: about.status,
                files: files.into_iter().flatten().collect(),
                unanswered,
            })
        })
    }

    fn answers<'a>(
        &'a self,
        file: &'a str,
        requests: usize,
    ) -> BoxFuture<'a, Result<Lines, Failure>> {
        Box::pin(async move {
            let line = self.max_response_bytes.saturating_add(FRAME);
            let all = line.saturating_mul(requests as u64).max(LEAST_ANSWERS);
            let request = self.request(Method::GET, &format!("/files/{}/content", plain(file)?));
            let request = request.build().map_err(|_| Failure::Request)?;
            let body: Body = self.attempt(all).send(request).await?;
            Ok(Lines::new(body, line))
        })
    }

    fn read(&self, line: &[u8]) -> Option<(String, ItemEnd)> {
        let line: AnswerLine = serde_json::from_slice(line).ok()?;
        let end = match (line.response, line.error) {
            (Some(answer), _) => ItemEnd::Answered {
                status: answer.status_code,
                body: answer.body,
            },
            (None, fault) => {
                let fault = fault.unwrap_or_default();
                match fault.code.as_deref() {
                    Some("batch_expired") => expired(),
                    // A cancelled batch has no other answers.
                    Some("batch_cancelled" | "batch_canceled") => cancelled(),
                    code => {
                        let code = code.unwrap_or("without a code");
                        let message = format!("its batch failed with this request ({code})");
                        unanswered(
                            ErrorKind::Model,
                            true,
                            message,
                            fault.message.unwrap_or_default(),
                        )
                    }
                }
            }
        };
        Some((line.custom_id, end))
    }

    fn cancel<'a>(&'a self, batch: &'a str) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let path = format!("/batches/{}/cancel", plain(batch)?);
            let _: About = self
                .ask(self.request(Method::POST, &path), SUBMITTING)
                .await?;
            Ok(())
        })
    }

    fn delete<'a>(&'a self, files: &'a [String]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for file in files {
                let Ok(file) = plain(file) else { continue };
                let request = self.request(Method::DELETE, &format!("/files/{file}"));
                if let Err(failure) = self.ask::<Value>(request, SUBMITTING).await {
                    let error = self.error(failure);
                    tracing::debug!(file, %error, "a file of a batch stays at its server");
                }
            }
        })
    }

    fn error(&self, failure: Failure) -> ModelError {
        failure.into_error(&self.server.host, self.server.kind, &Scrub::default())
    }
}

fn unanswered(
    kind: ErrorKind,
    retryable: bool,
    message: impl Into<String>,
    said: String,
) -> ItemEnd {
    ItemEnd::Unanswered {
        kind,
        message: message.into(),
        said,
        retryable,
    }
}

fn expired() -> ItemEnd {
    let message = "its batch did not come to this request within a day";
    unanswered(ErrorKind::Timeout, true, message, String::new())
}

fn cancelled() -> ItemEnd {
    let message = "its batch was cancelled at the provider";
    unanswered(ErrorKind::Model, false, message, String::new())
}

/// The end of the requests of a batch that the server did not take.
fn failed(errors: &Value) -> ItemEnd {
    let first = &errors["data"][0];
    let word = |key: &str| first[key].as_str().unwrap_or_default();
    // The account has too much in its queue: others must end before.
    let is_full = word("code") == "token_limit_exceeded";
    let kind = match is_full {
        true => ErrorKind::RateLimited,
        false => ErrorKind::InvalidInput,
    };
    let message = format!("the provider refused its batch ({})", word("code"));
    unanswered(kind, is_full, message, word("message").to_owned())
}
