//! The endpoint at which a model's batches are made, and requests about them.

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{
    contract::ModelError,
    vocabulary::{Digest, ErrorKind},
};
use http::Method;
use serde::Deserialize;
use tokio::time::timeout;

use super::{ItemEnd, Lines};
use crate::{
    Timeouts,
    http::{Attempt, Endpoint, Failure, Phase, Scrub, read_json},
};

/// The time limit of a small request about a batch.
const ASKING: Duration = Duration::from_secs(60);
/// The largest answer about a batch, or a page of batches, in bytes.
const MAX_ABOUT: u64 = 16 * 1024 * 1024;
/// How many bytes a file of answers may have, however few the requests were: 1 GiB.
const LEAST_ANSWERS: u64 = 1 << 30;
/// The room of a line of answers beside the answer, in bytes.
const FRAME: u64 = 4096;
/// The end of what an account's mark is made of: marks of older programs have it.
const MARK: &str = "ghostlight_batch";

/// The endpoint at which batches of one model are made.
pub(crate) struct BatchEndpoint {
    pub(crate) server: Arc<Endpoint>,
    /// The server's name of the model. All requests of a batch are to one model.
    pub(crate) model: String,
    /// The path to which each request would go alone, such as `/v1/chat/completions`.
    pub(crate) path: &'static str,
    pub(crate) timeouts: Timeouts,
    /// The bound on one answer.
    pub(crate) max_response_bytes: u64,
}

impl BatchEndpoint {
    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.server.base);
        let request = self.server.http.request(method, url);
        request.headers(self.server.headers.clone())
    }

    fn attempt(&self, max_bytes: u64) -> Attempt {
        Attempt::new(self.server.http.clone(), &self.timeouts, max_bytes).at(&self.server)
    }

    /// Sends a small request, and reads the answer as JSON.
    pub(crate) async fn ask<T: for<'de> Deserialize<'de>>(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<T, Failure> {
        self.ask_within(ASKING, request).await
    }

    /// Sends a request with many others in it, and reads the answer as JSON.
    pub(crate) async fn send<T: for<'de> Deserialize<'de>>(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<T, Failure> {
        self.ask_within(self.timeouts.total, request).await
    }

    async fn ask_within<T: for<'de> Deserialize<'de>>(
        &self,
        total: Duration,
        request: reqwest::RequestBuilder,
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

    /// The lines of a file of answers to this many requests.
    pub(crate) async fn lines(&self, path: &str, requests: usize) -> Result<Lines, Failure> {
        let line = self.max_response_bytes.saturating_add(FRAME);
        let all = line.saturating_mul(requests as u64).max(LEAST_ANSWERS);
        let request = self.request(Method::GET, path);
        let request = request.build().map_err(|_| Failure::Request)?;
        Ok(Lines::new(self.attempt(all).send(request).await?, line))
    }

    pub(super) fn account(&self) -> String {
        let headers = self.server.headers.iter();
        let mut parts: Vec<&[u8]> = headers
            .flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()])
            .collect();
        // A key that changes is not among them.
        parts.push(MARK.as_bytes());
        Digest::of_parts(&parts).to_string()[..12].to_owned()
    }

    pub(super) fn error(&self, failure: Failure) -> ModelError {
        failure.into_error(&self.server.host, self.server.kind, &Scrub::default())
    }
}

/// The name for people of a model at this host, asked at this path.
pub(crate) fn described(model: &str, host: &str, path: &str) -> String {
    format!("{model} at {host}{path}")
}

/// An id of the server as a part of a path.
pub(crate) fn plain(id: &str) -> Result<&str, Failure> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    match !id.is_empty() && id.len() <= 256 && id.bytes().all(fits) {
        true => Ok(id),
        false => Err(Failure::Malformed(
            "an id has other characters than letters, digits, _ and -".to_owned(),
        )),
    }
}

pub(crate) fn unanswered(
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

/// The end of a request whose answer is not among those of its batch.
pub(crate) fn missing() -> ItemEnd {
    let message = "the answers of its batch hold none to this request that can be read";
    unanswered(ErrorKind::Malformed, false, message, String::new())
}

pub(crate) fn expired() -> ItemEnd {
    let message = "its batch did not come to this request within a day";
    unanswered(ErrorKind::Timeout, true, message, String::new())
}

pub(crate) fn cancelled() -> ItemEnd {
    let message = "its batch was cancelled at the provider";
    unanswered(ErrorKind::Model, false, message, String::new())
}
