//! The parts that the HTTP providers share: endpoints, one attempt within time and size limits, streams of
//! events, the meaning of failures, and how much of a server's words may be shown.
//!
//! A provider adds three things: its settings, the body of a request, and how an answer is put
//! together. It knows nothing of TLS, clocks and secrets.

mod attempt;
#[cfg(feature = "anthropic")]
mod blocks;
mod calls;
mod connection;
mod endpoint;
mod failure;
#[cfg(feature = "bedrock")]
mod frames;
mod inputs;
mod json;
#[cfg(feature = "anthropic")]
mod keys;
mod legal;
mod legal_tools;
mod own;
mod pace;
mod plain_body;
mod provider;
mod report;
mod scrub;
mod settings;
#[cfg(feature = "bedrock")]
mod signature;
mod usage;

#[cfg(any(feature = "anthropic", feature = "openai"))]
use std::collections::BTreeSet;
use std::time::Duration;

use ghostlight_actors::{
    contract::ModelError,
    vocabulary::{Message, ModelRequest, ModelResponse, Usage},
};
use tokio::time::timeout;

pub(super) use super::prices::Tariff;
use super::prices::{cost_micros, is_known};

pub(super) use attempt::{Attempt, Body, Received, is_events};
#[cfg(feature = "anthropic")]
pub(super) use blocks::Blocks;
pub(super) use calls::settle_calls;
pub(super) use connection::{Connection, Reach, key_for};
pub use endpoint::parse_address;
pub(super) use endpoint::{
    ChangingKey, Endpoint, Key, Reaching, display_host, is_loopback, true_host,
};
pub(super) use failure::{Failure, Phase, ServerKind};
pub(super) use inputs::Inputs;
pub(super) use json::{JsonReader, read_json};
#[cfg(feature = "anthropic")]
pub(super) use keys::{with_own_keys, with_sent_keys};
pub(super) use legal::GO_ON;
#[cfg(any(feature = "anthropic", feature = "openai"))]
use legal::sent_name;
pub(super) use legal::{CallIds, legal};
pub(super) use legal_tools::{is_offered, offered, with_further};
#[cfg(any(feature = "bedrock", feature = "gemini", feature = "openai"))]
pub(super) use own::Notes;
#[cfg(feature = "gemini")]
pub(super) use own::add_fields;
#[cfg(any(feature = "anthropic", feature = "openai"))]
pub(super) use own::in_words;
#[cfg(any(feature = "anthropic", feature = "gemini"))]
pub(super) use own::{OwnBlocks, text_ends};
pub(super) use pace::Pace;
pub(super) use provider::{Found, http_model, http_setters, provider};
#[cfg(any(feature = "anthropic", feature = "openai"))]
pub(super) use report::Report;
pub(super) use scrub::Scrub;
pub use settings::Timeouts;
pub(super) use settings::{address, merge, no_credentials, without_credentials};

/// The largest answer where no setting gives a bound: 16 MiB.
pub(super) const MAX_RESPONSE_BYTES: u64 = 16 * 1024 * 1024;

/// The names of the tools that were called in a conversation, in alphabetical order. Some providers
/// refuse a conversation with calls if the request offers no tools, so the request names these
/// tools again and forbids calls.
#[cfg(any(feature = "anthropic", feature = "openai"))]
pub(super) fn tools_called(request: &ModelRequest) -> BTreeSet<String> {
    let messages = request.conversation.messages();
    let calls = messages.iter().flat_map(|message| message.tool_calls());
    calls
        .map(|call| sent_name(&call.name).into_owned())
        .collect()
}

/// Whether it is known what a model costs: by its settings, by the table of prices, or because it runs on this machine.
pub(super) fn is_priced(tariff: Tariff<'_>, base_url: &str) -> bool {
    tariff.prices.is_some() || is_loopback(base_url) || is_known(tariff, &true_host(base_url))
}

/// The failure of an attempt.
pub(super) struct Failed {
    failure: Failure,
    /// Its usage, as far as the server told it, and its text; `None` where the server had not begun to answer.
    spent: Option<(Usage, String)>,
}

impl Failed {
    pub(super) fn after(failure: Failure, spent: Option<(Usage, String)>) -> Self {
        Self { failure, spent }
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self::after(failure, None)
    }
}

/// How much later than the body of its answer an attempt is given up.
const BODY_FIRST: Duration = Duration::from_millis(50);

/// Makes an attempt, and returns its answer with its latency, or the error that its failure means.
pub(super) async fn timed(
    endpoint: &Endpoint,
    total: Duration,
    tariff: Tariff<'_>,
    request: &ModelRequest,
    attempt: impl Future<Output = Result<ModelResponse, Failed>>,
) -> Result<ModelResponse, ModelError> {
    let started = endpoint.pace.turn(&endpoint.host).await?;
    // The body of an answer ends at its time by itself, since it knows what was consumed until then.
    let outcome = timeout(total + BODY_FIRST, attempt).await;
    let outcome = outcome.unwrap_or_else(|_| Err(Failure::Timeout(Phase::Total).into()));
    endpoint.pace.ended(
        started,
        outcome.as_ref().err().map(|failed| &failed.failure),
    );
    let mut response = judged(endpoint, tariff, request, outcome)?;
    response.latency_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(response)
}

/// The answer of an attempt with what it consumed and costs, or the error that its failure means.
pub(super) fn judged(
    endpoint: &Endpoint,
    tariff: Tariff<'_>,
    request: &ModelRequest,
    outcome: Result<ModelResponse, Failed>,
) -> Result<ModelResponse, ModelError> {
    let priced = |mut usage: Usage| {
        if let Some(cost) = cost_micros(tariff, &endpoint.host, &usage) {
            usage.cost_micros = cost;
        }
        usage
    };
    let mut response = outcome.map_err(|Failed { failure, spent }| {
        let error = failure.into_error(&endpoint.host, endpoint.kind, &Scrub::new(request));
        let usage = spent.map_or_else(Usage::default, |(told, said)| {
            usage::of_failed(told, request, &Message::assistant(said))
        });
        error.usage(priced(usage))
    })?;
    response.usage = priced(usage::estimated(response.usage, request, &response.message));
    Ok(response)
}
