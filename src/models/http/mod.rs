//! What providers over HTTP share: reaching a server, one attempt in time and within bounds,
//! streams of events, what a failure means and how much of a server's words may be shown.
//!
//! A provider of its own adds three things: its settings, the body of a request, and how an
//! answer is put together. It knows no TLS, no clock and no secret.

mod attempt;
mod connection;
mod endpoint;
mod failure;
mod report;
mod scrub;
mod settings;
mod sse;
mod usage;

#[cfg(any(feature = "anthropic", feature = "openai"))]
use std::collections::BTreeSet;
use std::time::Duration;

use ghostlight_actors::{
    contract::ModelError,
    vocabulary::{ModelRequest, ModelResponse, Prices},
};
use tokio::time::{Instant, timeout};

#[cfg(any(feature = "anthropic", feature = "gemini"))]
pub(super) use attempt::Received;
pub(super) use attempt::{Attempt, Body};
pub(super) use connection::{Connection, Reach, key_for};
pub(super) use endpoint::{Endpoint, Key, Reaching, display_host, is_loopback};
pub(super) use failure::{Failure, Phase, ServerKind};
pub(super) use scrub::Scrub;
pub use settings::Timeouts;
pub(super) use settings::{address, no_credentials, without_credentials};
#[cfg(any(feature = "anthropic", feature = "gemini", feature = "openai"))]
pub(super) use sse::{EventParser, ServerEvent};

/// The bound on an answer where none is set: 16 MiB.
pub(super) const MAX_RESPONSE_BYTES: u64 = 16 * 1024 * 1024;

/// The names of the tools that were called in a conversation, in the order of their letters. Some
/// providers refuse a conversation with calls in a request that offers no tools, so these are named
/// again there, and may not be called.
#[cfg(any(feature = "anthropic", feature = "openai"))]
pub(super) fn tools_called(request: &ModelRequest) -> BTreeSet<String> {
    let messages = request.conversation.messages();
    let calls = messages.iter().flat_map(|message| message.tool_calls());
    calls.map(|call| call.name.clone()).collect()
}

/// Makes an attempt in its time, and tells what it took or what its failure means.
pub(super) async fn timed(
    endpoint: &Endpoint,
    total: Duration,
    prices: Option<&Prices>,
    request: &ModelRequest,
    attempt: impl Future<Output = Result<ModelResponse, Failure>>,
) -> Result<ModelResponse, ModelError> {
    let started = Instant::now();
    let outcome = timeout(total, attempt).await;
    let outcome = outcome.unwrap_or(Err(Failure::Timeout(Phase::Total)));
    let mut response = outcome.map_err(|failure| {
        failure.into_error(&endpoint.host, endpoint.kind, &Scrub::new(request))
    })?;
    response.usage = usage::estimated(response.usage, request, &response.message);
    if let Some(prices) = prices {
        response.usage.cost_micros = prices.cost_micros(&response.usage);
    }
    response.latency_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(response)
}
