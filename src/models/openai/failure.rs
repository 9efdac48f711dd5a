//! What can go wrong with an attempt, and what the gateway is told of it.
//!
//! Status comes before body: a failed answer is judged by its status, and its body, whatever
//! its shape, only adds detail.

use std::time::Duration;

use ghostlight_actors::{contract::ModelError, vocabulary::ErrorKind};
use serde_json::Value;

use super::scrub::Scrub;

/// Why an attempt failed, before it is told to anyone: it may hold a server's words.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// No connection came about.
    Connect(String),
    /// The server's certificate is not trusted.
    Certificate,
    /// Nothing came in time.
    Timeout(Phase),
    /// The answer ended before it was whole.
    Cut,
    /// The answer is larger than this many bytes.
    TooLarge(u64),
    /// The answer is not what the protocol says; where it went wrong, without its text.
    Malformed(String),
    /// The server answered with another status than 2xx.
    Rejected {
        status: u16,
        retry_after: Option<Duration>,
        report: Report,
    },
    /// The server answered 2xx, and told of an error inside.
    InBand(Report),
    /// The request could not be made.
    Request,
}

/// What was waited for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    FirstByte,
    Idle,
    Total,
}

/// What a server says of an error, of any of the shapes in use.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    code: Option<String>,
    kind: Option<String>,
    param: Option<String>,
    message: String,
}

impl Report {
    /// Reads `{"error": {…}}`, `{"error": "…"}`, `{"object": "error", …}`, `{"detail": …}` or
    /// plain text.
    pub(super) fn read(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::from_value(&value),
            Err(_) => Self {
                message: String::from_utf8_lossy(body).into_owned(),
                ..Self::default()
            },
        }
    }

    fn from_value(value: &Value) -> Self {
        // Google's server puts the error into a list.
        let value = value.get(0).unwrap_or(value);
        let error = match &value["error"] {
            Value::Null => value,
            error => error,
        };
        let word = |key: &str| match &error[key] {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let message = match error {
            Value::String(text) => Some(text.clone()),
            _ => word("message").or_else(|| word("detail")),
        };
        Self {
            code: word("code"),
            kind: word("type"),
            param: word("param"),
            message: message.unwrap_or_default(),
        }
    }

    /// The HTTP status that the code stands for, where it does: several servers send it as a
    /// number or as text.
    fn status(&self) -> Option<u16> {
        let status = self.code.as_deref()?.parse().ok()?;
        (400..=599).contains(&status).then_some(status)
    }

    fn says(&self, words: &[&str]) -> bool {
        let fields = [
            self.code.as_deref(),
            self.kind.as_deref(),
            Some(&self.message),
        ];
        let texts = fields.into_iter().flatten().map(str::to_lowercase);
        texts
            .into_iter()
            .any(|text| words.iter().any(|word| text.contains(word)))
    }

    /// Whether the request did not fit the model's context, in the words of OpenAI, vLLM,
    /// llama.cpp, Ollama, LiteLLM, Anthropic, Google, Mistral, Groq, xAI, Bedrock and TGI.
    fn is_overflow(&self) -> bool {
        self.says(&[
            "context_length_exceeded",
            "contextwindowexceeded",
            "exceed_context_size",
            "maximum context length",
            "maximum model length",
            "maximum prompt length",
            "maximum input length",
            "available context size",
            "exceeds the context length",
            "exceeds context window",
            "exceeds the context window",
            "exceeds the model's context",
            "exceeds the maximum number of tokens",
            "greater than the context length",
            "too large for model",
            "prompt is too long",
            "prompt too long",
            "input is too long",
            "reduce the length of the",
            "`max_new_tokens` must be <=",
        ])
    }

    fn is_out_of_funds(&self) -> bool {
        self.says(&[
            "insufficient_quota",
            "billing",
            "insufficient balance",
            "credit balance",
        ])
    }

    /// The server's short words (code, type, parameter), where they are words and not text.
    fn labels(&self) -> Vec<&str> {
        let is_label = |text: &&str| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.[]".contains(&byte);
            text.len() <= 64 && text.bytes().all(fits)
        };
        let fields = [&self.kind, &self.code, &self.param];
        fields
            .into_iter()
            .flatten()
            .map(String::as_str)
            .filter(is_label)
            .collect()
    }
}

impl Failure {
    /// An error that came inside of an answer with a good status.
    pub(super) fn in_band(body: &[u8]) -> Self {
        Self::InBand(Report::read(body))
    }

    /// The error that this answer is, if it is one.
    pub(super) fn in_answer(value: &Value) -> Option<Self> {
        let is_error = !value["error"].is_null() || value["object"] == "error";
        is_error.then(|| Self::InBand(Report::from_value(value)))
    }

    /// JSON that cannot be read. Only the place is kept: the text may be a model's output.
    pub(super) fn unreadable(error: &serde_json::Error) -> Self {
        let place = format!("line {}, column {}", error.line(), error.column());
        Self::Malformed(format!("it is not JSON (at {place})"))
    }

    /// A failed exchange. Its own text may hold the address and is not kept.
    pub(super) fn transport(error: &reqwest::Error) -> Self {
        let mut causes = std::iter::successors(std::error::Error::source(error), |e| e.source());
        if causes.any(is_certificate_error) {
            return Self::Certificate;
        }
        if error.is_builder() {
            return Self::Request;
        }
        if !error.is_connect() {
            return Self::Cut;
        }
        let mut causes = std::iter::successors(std::error::Error::source(error), |e| e.source());
        let cause = causes.find_map(|cause| cause.downcast_ref::<std::io::Error>());
        let reason = match cause {
            _ if error.is_timeout() => String::from("timed out"),
            Some(io) => io.kind().to_string(),
            None => String::from("failed"),
        };
        Self::Connect(reason)
    }

    /// Whether the answer's end did not come, though all that came was good.
    pub(super) fn is_cut(&self) -> bool {
        matches!(self, Self::Cut | Self::Timeout(Phase::Idle))
    }

    /// What the gateway is told.
    pub(super) fn into_error(self, host: &str, scrub: &Scrub<'_>) -> ModelError {
        let retryable = |kind, message: String| ModelError::new(kind, message).retryable();
        match self {
            Self::Connect(reason) => retryable(
                ErrorKind::Model,
                format!(
                    "no connection to {host}: {reason}; check base_url and that the server runs"
                ),
            ),
            Self::Certificate => ModelError::new(
                ErrorKind::Model,
                format!(
                    "the certificate of {host} is not trusted; add its authority to the \
                     machine's certificates, or correct base_url"
                ),
            ),
            Self::Timeout(phase) => retryable(ErrorKind::Timeout, phase.message(host)),
            Self::Cut => retryable(
                ErrorKind::Model,
                format!("the answer of {host} was cut off before its end"),
            ),
            Self::TooLarge(limit) => ModelError::new(
                ErrorKind::Model,
                format!(
                    "the answer of {host} is larger than {limit} bytes; raise \
                     max_response_bytes or bound max_tokens"
                ),
            ),
            Self::Malformed(what) => retryable(
                ErrorKind::Malformed,
                format!(
                    "the answer of {host} cannot be read: {what}; check that base_url is that \
                     of an OpenAI-compatible server"
                ),
            ),
            Self::Rejected {
                status,
                retry_after,
                report,
            } => {
                let error = refused(host, Some(status), &report, scrub).status(status);
                match retry_after {
                    Some(pause) => error.retry_after(pause),
                    None => error,
                }
            }
            Self::InBand(report) => {
                let status = report.status();
                let error = refused(host, status, &report, scrub);
                match status {
                    Some(status) => error.status(status),
                    None => error,
                }
            }
            Self::Request => ModelError::new(
                ErrorKind::InvalidInput,
                format!("no request to {host} could be made; check base_url, api_key and headers"),
            ),
        }
    }
}

impl Phase {
    fn message(self, host: &str) -> String {
        match self {
            Self::FirstByte => format!(
                "{host} sent nothing in time; raise timeouts.first_byte_ms if the model needs longer"
            ),
            Self::Idle => format!(
                "{host} fell silent in the middle of its answer; raise timeouts.idle_ms if the \
                 model needs longer"
            ),
            Self::Total => format!(
                "{host} did not end its answer in time; raise timeouts.total_ms if the model \
                 needs longer"
            ),
        }
    }
}

/// A bad certificate stays bad, while other failures of TLS may pass.
fn is_certificate_error(cause: &(dyn std::error::Error + 'static)) -> bool {
    let found = match cause.downcast_ref::<std::io::Error>() {
        Some(io) => io
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>()),
        None => cause.downcast_ref::<rustls::Error>(),
    };
    matches!(found, Some(rustls::Error::InvalidCertificate(_)))
}

/// What a server's refusal means, whether its status came as a status or in band.
fn refused(host: &str, status: Option<u16>, report: &Report, scrub: &Scrub<'_>) -> ModelError {
    let (kind, retryable, advice) = classify(status, report);
    let mut message = match status {
        Some(status) => format!("{host} answered with status {status}"),
        None => format!("{host} reported an error"),
    };
    let labels = report.labels();
    if !labels.is_empty() {
        message = format!("{message} ({})", labels.join(", "));
    }
    // What a server says of a request that it refused helps to correct it. What it says of its
    // own failure may repeat the model's output, and what it says of a key repeats the key.
    let is_told = matches!(
        status,
        Some(400 | 402 | 404 | 405 | 409 | 413 | 415 | 422 | 429)
    );
    if is_told && let Some(words) = scrub.excerpt(&report.message) {
        message = format!("{message}: {words}");
    }
    if !advice.is_empty() {
        message = format!("{message}; {advice}");
    }
    let error = ModelError::new(kind, message);
    if retryable { error.retryable() } else { error }
}

fn classify(status: Option<u16>, report: &Report) -> (ErrorKind, bool, &'static str) {
    const SHORTEN: &str = "the request does not fit the model's context: shorten the conversation";
    const KEY: &str = "check the key and what it may do";
    const WHERE: &str = "check the model's name, and that base_url ends where the server's \
                         /chat/completions begins (often in /v1)";
    let may_be_overflow = matches!(status, None | Some(400 | 413 | 422 | 500));
    if may_be_overflow && report.is_overflow() {
        return (ErrorKind::ContextOverflow, false, SHORTEN);
    }
    match status {
        Some(401 | 403) => (ErrorKind::Authentication, false, KEY),
        Some(402) => (ErrorKind::Model, false, "check the account's balance"),
        Some(404) => (ErrorKind::NotFound, false, WHERE),
        Some(408) => (ErrorKind::Timeout, true, ""),
        Some(413) => (ErrorKind::ContextOverflow, false, SHORTEN),
        Some(429) if report.is_out_of_funds() => (
            ErrorKind::RateLimited,
            false,
            "the quota is used up: check the account's plan",
        ),
        Some(429) => (ErrorKind::RateLimited, true, ""),
        Some(400 | 422) => (ErrorKind::InvalidInput, false, ""),
        Some(409 | 425) => (ErrorKind::Model, true, ""),
        Some(300..=399) => (
            ErrorKind::Model,
            false,
            "it redirects: set base_url to the new place",
        ),
        Some(500..) => (ErrorKind::Model, true, ""),
        Some(_) => (ErrorKind::Model, false, WHERE),
        None if report.is_out_of_funds() => (ErrorKind::RateLimited, false, ""),
        None if report.says(&["rate_limit", "ratelimit", "rate limit"]) => {
            (ErrorKind::RateLimited, true, "")
        }
        None if report.says(&["invalid_api_key", "authentication"]) => {
            (ErrorKind::Authentication, false, KEY)
        }
        None if report.says(&["invalid_request", "badrequest"]) => {
            (ErrorKind::InvalidInput, false, "")
        }
        None => (ErrorKind::Model, true, ""),
    }
}

/// How long the server asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date,
/// which is compared with the server's own `date`, so that no clock has to agree with its.
pub(super) fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    if let Some(millis) = number("retry-after-ms") {
        return Duration::try_from_secs_f64(millis / 1_000.0).ok();
    }
    if let Some(seconds) = number("retry-after") {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = |name: &str| httpdate::parse_http_date(text(name)?).ok();
    date("retry-after")?.duration_since(date("date")?).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn error(status: u16, body: &str) -> ModelError {
        let report = Report::read(body.as_bytes());
        let failure = Failure::Rejected {
            status,
            retry_after: None,
            report,
        };
        failure.into_error("host", &Scrub::default())
    }

    #[test]
    fn a_full_context_is_known_in_the_words_of_each_server() {
        let bodies = [
            (
                400,
                r#"{"error":{"message":"Input tokens exceed the configured limit","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            ),
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","param":null,"code":400}"#,
            ),
            (
                400,
                r#"{"error":{"message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096.","type":"BadRequestError","code":400}}"#,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_ctx":4096}}"#,
            ),
            (
                500,
                r#"{"error":{"code":500,"message":"the request exceeds the available context size.","type":"server_error"}}"#,
            ),
            (
                400,
                r#"{"error":{"message":"litellm.ContextWindowExceededError: too much","type":null,"code":"400"}}"#,
            ),
            (
                400,
                r#"{"error":"the input length exceeds the context length"}"#,
            ),
            (
                400,
                r#"{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            ),
            (
                400,
                r#"[{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8)."}}]"#,
            ),
            (
                422,
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193",
            ),
            (413, r#"{"error":{"message":"Request entity too large"}}"#),
        ];
        for (status, body) in bodies {
            let error = error(status, body);
            assert_eq!(error.kind, ErrorKind::ContextOverflow, "{body}");
            assert!(!error.retryable);
            assert_eq!(error.status, Some(status));
        }
    }

    #[test]
    fn a_rate_limit_that_names_tokens_is_no_full_context() {
        let body = r#"{"error":{"message":"Please reduce the length of the messages","code":"rate_limit_exceeded"}}"#;
        let error = error(429, body);
        assert_eq!(
            (error.kind, error.retryable),
            (ErrorKind::RateLimited, true)
        );
    }

    #[test]
    fn a_used_up_quota_is_not_worth_another_attempt() {
        let error = error(
            429,
            r#"{"error":{"message":"x","code":"insufficient_quota"}}"#,
        );
        assert_eq!(
            (error.kind, error.retryable),
            (ErrorKind::RateLimited, false)
        );
    }

    #[test]
    fn the_status_of_an_error_in_band_is_its_code() {
        let cases = [
            (
                r#"{"error":{"code":429,"message":"slow down"}}"#,
                ErrorKind::RateLimited,
                true,
                Some(429),
            ),
            (
                r#"{"error":{"code":"401","message":"no"}}"#,
                ErrorKind::Authentication,
                false,
                Some(401),
            ),
            (
                r#"{"object":"error","message":"x","code":400}"#,
                ErrorKind::InvalidInput,
                false,
                Some(400),
            ),
            (
                r#"{"error":{"code":"rate_limit_exceeded"}}"#,
                ErrorKind::RateLimited,
                true,
                None,
            ),
            (
                r#"{"error":"the engine died"}"#,
                ErrorKind::Model,
                true,
                None,
            ),
        ];
        for (body, kind, retryable, status) in cases {
            let failure = Failure::in_answer(&serde_json::from_str(body).unwrap()).unwrap();
            let error = failure.into_error("host", &Scrub::default());
            assert_eq!(
                (error.kind, error.retryable, error.status),
                (kind, retryable, status),
                "{body}"
            );
        }
    }

    #[test]
    fn an_answer_with_a_null_error_is_no_error() {
        assert!(Failure::in_answer(&serde_json::json!({"error": null, "choices": []})).is_none());
    }

    #[test]
    fn a_pause_is_read_in_all_its_forms_and_nonsense_is_none() {
        let pause = |pairs: &[(&'static str, &str)]| {
            let mut headers = http::HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            retry_after(&headers)
        };
        assert_eq!(
            pause(&[("retry-after", "3600")]),
            Some(Duration::from_secs(3600))
        );
        assert_eq!(
            pause(&[("retry-after", "0.5")]),
            Some(Duration::from_millis(500))
        );
        assert_eq!(
            pause(&[("retry-after", "9"), ("retry-after-ms", "20")]),
            Some(Duration::from_millis(20))
        );
        let date = [
            ("date", "Sun, 06 Nov 1994 08:49:07 GMT"),
            ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ];
        assert_eq!(pause(&date), Some(Duration::from_secs(30)));
        assert_eq!(pause(&date[1..]), None);
        for nonsense in ["-1", "NaN", "1e300", "soon", ""] {
            assert_eq!(pause(&[("retry-after", nonsense)]), None, "{nonsense}");
        }
    }
}
