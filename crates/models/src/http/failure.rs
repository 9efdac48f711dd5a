//! Failures of an attempt, and the errors that the gateway gets for them.
//!
//! Status comes before body: a failed answer is judged by its status, and its body, whatever
//! its shape, only adds detail.

use std::{io, time::Duration};

use ghostlight_actors::{contract::ModelError, vocabulary::ErrorKind};
use serde_json::Value;

use super::{report::Report, scrub::Scrub};
use crate::CredentialError;

/// Why an attempt failed, before it is reported: it may contain words of the server.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// No connection was made.
    Connect(String),
    /// The server's certificate is not trusted.
    Certificate,
    /// A time limit passed.
    Timeout(Phase),
    /// The answer ended before it was whole.
    Cut,
    /// The answer is larger than this many bytes.
    TooLarge(u64),
    /// The answer breaks the protocol; the place of the fault, without the answer's text.
    Malformed(String),
    /// The server answered with a status that is not 2xx.
    Rejected {
        status: u16,
        retry_after: Option<Duration>,
        report: Box<Report>,
    },
    /// The server answered 2xx with an error in the body.
    InBand(Box<Report>),
    /// The request could not be built.
    Request,
    /// There is no key, for this reason.
    Credential(CredentialError),
}

/// The kind of server, in words for people.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerKind {
    /// Its name, such as `an OpenAI-compatible server`.
    pub(crate) name: &'static str,
    /// The setting to check when the server does not find what is asked of it.
    pub(crate) place: &'static str,
}

/// The phase that ran into its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    FirstByte,
    Idle,
    Total,
}

impl Failure {
    /// An error in the body of an answer with a good status.
    pub(crate) fn in_band(body: &[u8]) -> Self {
        Self::InBand(Box::new(Report::read(body)))
    }

    /// An error that an answer with a good status holds in a form of its server's own.
    pub(crate) fn reported(error: &Value) -> Self {
        Self::InBand(Box::new(Report::from_value(error)))
    }

    /// An answer that ends with a mere sign of failure, without an error.
    pub(crate) fn broken_off(word: &str) -> Self {
        let error =
            serde_json::json!({ "error": { "message": "the server broke off", "type": word } });
        Self::reported(&error)
    }

    /// The error in this answer, if there is one.
    pub(crate) fn in_answer(value: &Value) -> Option<Self> {
        // MiniMax answers with status 200 and a code beside the answer, which is 0 where all is well.
        let code = &value["base_resp"]["status_code"];
        let is_error = !value["error"].is_null()
            || value["object"] == "error"
            || code.as_i64().is_some_and(|code| code != 0);
        is_error.then(|| Self::reported(value))
    }

    /// JSON that cannot be parsed. Only the place is kept: the text may be a model's output.
    pub(crate) fn unreadable(error: &serde_json::Error) -> Self {
        let place = format!("line {}, column {}", error.line(), error.column());
        Self::Malformed(format!("it is not JSON (at {place})"))
    }

    /// A failed exchange. Its own text may contain the address and is not kept.
    pub(crate) fn transport(error: &reqwest::Error) -> Self {
        if causes(error).any(is_certificate_error) {
            return Self::Certificate;
        }
        if error.is_builder() {
            return Self::Request;
        }
        if !error.is_connect() {
            return Self::Cut;
        }
        let kind_of = |cause: Cause<'_>| Some(cause.downcast_ref::<io::Error>()?.kind());
        let kind = causes(error)
            .filter_map(kind_of)
            .find(|kind| *kind != io::ErrorKind::Other);
        // The connector's own words for a name that was not resolved; the kind of that error has none.
        let is_unknown_host = causes(error).any(|cause| cause.to_string().starts_with("dns error"));
        Self::Connect(match kind {
            _ if error.is_timeout() => String::from("timed out"),
            _ if is_unknown_host => String::from("its name was not found"),
            Some(kind) => kind.to_string(),
            None => String::from("failed"),
        })
    }

    /// Whether the end of the answer is missing, though all of it so far was good.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(self, Self::Cut | Self::Timeout(Phase::Idle))
    }

    /// Whether the server does not have the response that the request follows, any more.
    #[cfg(feature = "openai")]
    pub(crate) fn has_lost_response(&self) -> bool {
        const SIGNS: [&str; 2] = ["previous_response_not_found", "previous response"];
        match self {
            Self::Rejected {
                status: 400 | 404,
                report,
                ..
            } => report.says(&SIGNS),
            Self::InBand(report) => report.says(&SIGNS),
            _ => false,
        }
    }

    /// The pause that the server asks for, if it refuses because it is asked too often; without one it leaves it open.
    pub(super) fn asks_to_wait(&self) -> Option<Option<Duration>> {
        match self {
            Self::Rejected {
                status: 429,
                retry_after: None,
                report,
            } if report.is_out_of_funds() => None,
            Self::Rejected {
                status: 429,
                retry_after,
                ..
            } => Some(*retry_after),
            Self::Rejected {
                status: 503 | 529,
                retry_after: Some(pause),
                ..
            } => Some(Some(*pause)),
            Self::InBand(report) if report.status() == Some(429) => Some(report.retry_delay()),
            _ => None,
        }
    }

    /// The error that the gateway gets.
    pub(crate) fn into_error(self, host: &str, kind: ServerKind, scrub: &Scrub<'_>) -> ModelError {
        let (status, pause, report) = match self {
            Self::Rejected {
                status,
                retry_after,
                report,
            } => (Some(status), retry_after, report),
            Self::InBand(report) => (report.status(), None, report),
            other => return other.own_error(host, kind),
        };
        let mut error = refused(host, kind, status, &report, scrub);
        (error.status, error.retry_after) = (status, pause);
        error
    }

    /// The error of a failure that the server said nothing about.
    fn own_error(self, host: &str, server: ServerKind) -> ModelError {
        let (kind, retryable, message) = match self {
            Self::Connect(reason) => (
                ErrorKind::Model,
                true,
                format!("no connection to {host}: {reason}; check base_url and that it runs"),
            ),
            Self::Certificate => (
                ErrorKind::Model,
                false,
                format!(
                    "the certificate of {host} is not trusted; add its authority to the \
                     machine's certificates, or correct base_url"
                ),
            ),
            Self::Timeout(phase) => (ErrorKind::Timeout, true, phase.message(host)),
            // The model would not end: that is its own fault, and not the server's.
            Self::TooLarge(limit) => (
                ErrorKind::TooLarge,
                false,
                format!(
                    "the answer of {host} is larger than {limit} bytes; raise \
                     max_response_bytes or bound max_tokens"
                ),
            ),
            Self::Malformed(what) => (
                ErrorKind::Malformed,
                true,
                format!(
                    "the answer of {host} cannot be read: {what}; check that base_url is that \
                     of {}",
                    server.name
                ),
            ),
            Self::Request => (
                ErrorKind::InvalidInput,
                false,
                format!("no request to {host} could be made; check base_url, api_key and headers"),
            ),
            // A program that prints a key may fail for a moment.
            Self::Credential(error) => (ErrorKind::Authentication, true, error.to_string()),
            Self::Cut | Self::Rejected { .. } | Self::InBand(_) => (
                ErrorKind::Model,
                true,
                format!("the answer of {host} was cut off before its end"),
            ),
        };
        let error = ModelError::new(kind, message);
        if retryable { error.retryable() } else { error }
    }
}

impl Phase {
    fn message(self, host: &str) -> String {
        match self {
            Self::FirstByte => format!(
                "{host} sent nothing in time; raise timeouts.first_byte_s if the model needs longer"
            ),
            Self::Idle => format!(
                "{host} fell silent in the middle of its answer; raise timeouts.idle_s if the \
                 model needs longer"
            ),
            Self::Total => format!(
                "{host} did not end its answer in time; raise timeouts.total_s if the model \
                 needs longer"
            ),
        }
    }
}

type Cause<'a> = &'a (dyn std::error::Error + 'static);

/// The chain of an error's causes. It includes what an I/O error wraps, which `source` of the I/O
/// error skips.
fn causes<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = Cause<'a>> {
    std::iter::successors(std::error::Error::source(error), |cause| {
        match cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(wrapped) => Some(wrapped as Cause<'a>),
            None => cause.source(),
        }
    })
}

/// A bad certificate stays bad; other TLS failures may pass.
fn is_certificate_error(cause: Cause<'_>) -> bool {
    matches!(
        cause.downcast_ref(),
        Some(rustls::Error::InvalidCertificate(_))
    )
}

/// The meaning of a server's refusal, whether it came as a status or in the body.
fn refused(
    host: &str,
    server: ServerKind,
    status: Option<u16>,
    report: &Report,
    scrub: &Scrub<'_>,
) -> ModelError {
    let (kind, retryable, advice) = classify(server, status, report);
    let mut message = match status {
        Some(status) => format!("{host} answered with status {status}"),
        None => format!("{host} reported an error"),
    };
    let labels = report.labels();
    if !labels.is_empty() {
        message = format!("{message} ({})", labels.join(", "));
    }
    // The server's words about a refused request help to correct it. Its words about its own
    // failure may repeat the model's output, and its words about a key repeat the key.
    let is_told = report.is_out_of_funds()
        || matches!(
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

fn classify(
    server: ServerKind,
    status: Option<u16>,
    report: &Report,
) -> (ErrorKind, bool, &'static str) {
    const SHORTEN: &str = "the request does not fit the model's context: shorten the conversation";
    const KEY: &str = "check the key and what it may do";
    const FUNDS: &str = "check the account's balance";
    let place = server.place;
    // Google refuses a bad key with status 400.
    if status == Some(400) && report.says(&["api_key_invalid", "api key not valid"]) {
        return (ErrorKind::Authentication, false, KEY);
    }
    // The fault is the model's, and its next attempt may be better.
    if report.is_malformed_call() {
        return (ErrorKind::Malformed, true, "");
    }
    let may_be_overflow = matches!(status, None | Some(400 | 413 | 422 | 500));
    if may_be_overflow && report.is_overflow() {
        return (ErrorKind::ContextOverflow, false, SHORTEN);
    }
    match status {
        Some(401 | 403) => (ErrorKind::Authentication, false, KEY),
        Some(402) => (ErrorKind::Model, false, FUNDS),
        Some(404) => (ErrorKind::NotFound, false, place),
        Some(408) => (ErrorKind::Timeout, true, ""),
        Some(413) => (ErrorKind::ContextOverflow, false, SHORTEN),
        // Google mentions the plan in every limit, and a delay only in limits per minute.
        Some(429) if report.is_out_of_funds() && report.retry_delay().is_none() => (
            ErrorKind::RateLimited,
            false,
            "the quota is used up: check the account's plan",
        ),
        Some(429) => (ErrorKind::RateLimited, true, ""),
        // Some servers report an empty account as a failure of their own.
        Some(500..) if report.is_out_of_funds() => (ErrorKind::Model, false, FUNDS),
        Some(400 | 422) => (ErrorKind::InvalidInput, false, ""),
        // Amazon's 424 is a failure of the model.
        Some(409 | 424 | 425) => (ErrorKind::Model, true, ""),
        Some(300..=399) => (
            ErrorKind::Model,
            false,
            "it redirects: set base_url to the new place",
        ),
        Some(500..) => (ErrorKind::Model, true, ""),
        Some(_) => (ErrorKind::Model, false, place),
        None if report.is_out_of_funds() => (ErrorKind::RateLimited, false, ""),
        None if report.says(&["rate_limit", "ratelimit", "rate limit"]) => {
            (ErrorKind::RateLimited, true, "")
        }
        None if report.says(&["invalid_api_key", "authentication", "permission_error"]) => {
            (ErrorKind::Authentication, false, KEY)
        }
        None if report.says(&["not_found_error"]) => (ErrorKind::NotFound, false, place),
        None if report.says(&["request_too_large"]) => (ErrorKind::ContextOverflow, false, SHORTEN),
        None if report.says(&["timeout_error"]) => (ErrorKind::Timeout, true, ""),
        None if report.says(&["invalid_request", "badrequest"]) => {
            (ErrorKind::InvalidInput, false, "")
        }
        None => (ErrorKind::Model, true, ""),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const KIND: ServerKind = ServerKind {
        name: "a server",
        place: "check the model's name",
    };

    fn error(status: u16, body: &str) -> ModelError {
        let report = Box::new(Report::read(body.as_bytes()));
        let failure = Failure::Rejected {
            status,
            retry_after: None,
            report,
        };
        failure.into_error("host", KIND, &Scrub::default())
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
            let error = failure.into_error("host", KIND, &Scrub::default());
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
}
