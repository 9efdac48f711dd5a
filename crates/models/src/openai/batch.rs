//! OpenAI's interface for batches: files of requests, the batches made of them, and files of answers.
//!
//! <https://platform.openai.com/docs/api-reference/batch>

use bytes::{Bytes, BytesMut};
use ghostlight_actors::{
    contract::BoxFuture,
    vocabulary::{ErrorKind, ModelTicket},
};
use http::{Method, header::CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use crate::{
    batches::{
        BatchEndpoint, BatchServer, ItemEnd, Lines, Lost, PAGE, PAGES, Search, Standing, cancelled,
        expired, missing, plain, too_many_pages, unanswered,
    },
    http::Failure,
};

/// The field of a batch's metadata that holds its key.
const MARK: &str = "ghostlight_batch";

/// The reason why a model at Azure has none.
pub(crate) const NO_BATCHES_AT_AZURE: &str =
    "batches at Azure are not supported: remove batch, or use a model at OpenAI";

/// The batches of a model at a server with OpenAI's interface.
pub(crate) struct OpenAiBatches(pub(crate) BatchEndpoint);

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
    fn endpoint(&self) -> &BatchEndpoint {
        &self.0
    }

    fn line(&self, ticket: &ModelTicket, body: &RawValue) -> Result<Bytes, Failure> {
        let line = RequestLine {
            custom_id: ticket,
            method: "POST",
            url: self.0.path,
            body,
        };
        let mut line = serde_json::to_vec(&line).map_err(|_| Failure::Request)?;
        line.push(b'\n');
        Ok(line.into())
    }

    fn upload(&self, lines: Vec<Bytes>) -> BoxFuture<'_, Result<String, Failure>> {
        Box::pin(async move {
            let (kind, body) = form(lines);
            let request = self.0.request(Method::POST, "/files");
            let request = request.header(CONTENT_TYPE, kind).body(body);
            let made: Made = self.0.send(request).await?;
            Ok(made.id)
        })
    }

    fn submit<'a>(
        &'a self,
        file: &'a str,
        key: &'a str,
        _lines: Vec<Bytes>,
    ) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(async move {
            let body = json!({
                "input_file_id": file,
                "endpoint": self.0.path,
                "completion_window": "24h",
                "metadata": { MARK: key },
            });
            let request = self.0.request(Method::POST, "/batches").json(&body);
            let made: Made = self.0.ask(request).await?;
            Ok(made.id)
        })
    }

    fn find<'a>(&'a self, lost: Lost<'a>) -> BoxFuture<'a, Result<Search, Failure>> {
        Box::pin(async move {
            let mut after = String::new();
            for _ in 0..PAGES {
                let path = format!("/batches?limit={PAGE}{after}");
                let page: Page = self.0.ask(self.0.request(Method::GET, &path)).await?;
                if let Some(found) = page.data.iter().find(|it| it.metadata[MARK] == lost.key) {
                    return Ok(Search::Found(found.id.clone()));
                }
                let last = page.data.last().filter(|_| page.has_more);
                match last.filter(|last| last.created_at >= lost.since().0 / 1000) {
                    Some(last) => after = format!("&after={}", plain(&last.id)?),
                    None => return Ok(Search::Absent),
                }
            }
            Err(too_many_pages())
        })
    }

    fn look<'a>(&'a self, batch: &'a str) -> BoxFuture<'a, Result<Standing, Failure>> {
        Box::pin(async move {
            let request = self
                .0
                .request(Method::GET, &format!("/batches/{}", plain(batch)?));
            let about: About = self.0.ask(request).await?;
            let unanswered = match about.status.as_str() {
                "completed" => missing(),
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
            let path = format!("/files/{}/content", plain(file)?);
            self.0.lines(&path, requests).await
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
            let _: About = self.0.ask(self.0.request(Method::POST, &path)).await?;
            Ok(())
        })
    }

    fn delete<'a>(&'a self, files: &'a [String]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for file in files {
                let Ok(file) = plain(file) else { continue };
                let request = self.0.request(Method::DELETE, &format!("/files/{file}"));
                if let Err(failure) = self.0.ask::<Value>(request).await {
                    let error = self.error(failure);
                    tracing::debug!(file, %error, "a file of a batch stays at its server");
                }
            }
        })
    }
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
