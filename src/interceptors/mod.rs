//! Interceptors: code around the calls to models and tools.
//!
//! An [`Interceptor`](crate::contract::Interceptor) runs once for each real attempt and never in
//! replay: its changes are part of the recorded result. The first installed is the outermost, so
//! `[Cache, Retry, RateLimit]` looks into the cache once, and applies the rate limit to each
//! attempt. None of them ever repeats a call whose effect is `once`.
//!
//! In code they are put around all calls, or around those of certain models or tools:
//!
//! ```
//! use ghostlight::{interceptors::{Cache, CircuitBreaker, Retry}, prelude::*, run::Intercept};
//!
//! let team = Agent::new("desk")
//!     .into_team()?
//!     .intercept(Intercept::new(Cache::default()).tools(["search"]))
//!     .intercept(Retry::attempts(3))
//!     .intercept(Intercept::new(CircuitBreaker::default()).models(["default"]));
//! # Ok::<(), ghostlight::Error>(())
//! ```
//!
//! In a team file they are a list of names, or of names with settings:
//!
//! ```yaml
//! interceptors:
//!   - { name: audit, file: ./audit.jsonl }
//!   - { name: cache, ttl_s: 600, tools: [search] }
//!   - { name: prices, input: 1.25, output: 10, models: [default] }
//!   - { name: rate_limit, calls: 60, tokens: 90000, per_s: 60, models: [default] }
//!   - logging
//! ```

mod audit;
mod authorization;
mod batching;
mod bucket;
mod cache;
mod circuit_breaker;
mod guard;
mod logging;
mod metrics;
mod personal_data;
mod prices;
mod rate_limit;
mod retry;
mod sanitizing;
mod timeout;
mod tracing;
mod validation;

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{
    contract::InterceptorHandle,
    run::Registry,
    vocabulary::{Message, ModelRequest, Retold, Role},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

pub use audit::Audit;
pub use authorization::Authorization;
pub use batching::Batching;
pub use cache::Cache;
pub use circuit_breaker::CircuitBreaker;
pub use guard::{Chain, Guard, GuardRule, Html, NormalForm, RuleAction, Severity};
pub use logging::Logging;
pub use metrics::{Metered, Metrics};
pub use personal_data::{GuardedPoint, PersonalAction, PersonalDataGuard};
pub use prices::Pricing;
pub use rate_limit::RateLimit;
pub use retry::Retry;
pub use sanitizing::Sanitize;
pub use timeout::Timeout;
pub use tracing::Tracing;
pub use validation::Validation;

/// The decision of a guard about a call. It is the content of the event `guarded`, which is
/// recorded with the end of the call. It names what was found and never contains the text.
///
/// ```
/// use ghostlight::{interceptors::{GUARDED, GuardDecision}, vocabulary::Event};
///
/// fn decision(event: &Event) -> Option<GuardDecision> {
///     match event {
///         Event::Custom { name, data } if name == GUARDED => serde_json::from_value(data.clone()).ok(),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GuardDecision {
    /// The kind of guard, as in a team file: `authorization`, `guard`, `personal_data`, `sanitize` or
    /// `validation`.
    pub guard: String,
    /// The point at which the guard stood.
    pub at: GuardedPoint,
    /// Its action.
    pub action: GuardAction,
    /// Why, or what was found.
    pub reason: String,
    /// How serious it is, where the guard's rules say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
}

/// The name of the event that carries a [`GuardDecision`].
pub const GUARDED: &str = "guarded";

/// The action of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GuardAction {
    /// The call was not made, or its answer was held back.
    Refused,
    /// The match was replaced.
    Changed,
    /// Nothing was changed; the decision only reports.
    Reported,
}

impl GuardDecision {
    fn new(guard: &str, at: GuardedPoint, action: GuardAction, reason: impl Into<String>) -> Self {
        let (guard, reason) = (guard.to_owned(), reason.into());
        Self {
            guard,
            at,
            action,
            reason,
            severity: None,
        }
    }
}

/// How many of these messages a model was given before: all up to its last answer. Guards treat all
/// messages in every request, but report only the new ones. This number is derived from the
/// conversation, so that it is the same after every restart of a run.
///
/// A request for a summary holds nothing new.
fn given_before(request: &ModelRequest, messages: &[Arc<Message>]) -> usize {
    if let Retold::Messages(_) = request.retold {
        return messages.len();
    }
    let answered = |message: &Arc<Message>| message.role == Role::Assistant;
    messages
        .iter()
        .rposition(answered)
        .map_or(0, |last| last + 1)
}

/// Adds every kind of interceptor that a team file can set up: `audit`, `authorization`, `cache`,
/// `circuit_breaker`, `guard`, `logging`, `metrics`, `personal_data`, `prices`, `rate_limit`, `retry`, `sanitize`,
/// `timeout`, `tracing` and `validation`.
pub(crate) fn register(registry: Registry) -> Registry {
    registry
        .interceptor_kind("audit", |given| {
            let audit: Audit = settings(given)?;
            audit.checked().map(InterceptorHandle::new)
        })
        .interceptor_kind("authorization", |given| {
            let authorization: Authorization = settings(given)?;
            authorization.checked().map(InterceptorHandle::new)
        })
        .interceptor_kind("cache", |given| {
            cache::of(given).map(InterceptorHandle::new)
        })
        .interceptor_kind("circuit_breaker", |given| {
            settings::<CircuitBreaker>(given).map(InterceptorHandle::new)
        })
        .interceptor_kind("guard", |given| {
            let guard: Guard = settings(given)?;
            guard.checked().map(InterceptorHandle::new)
        })
        .interceptor_kind("logging", |given| {
            settings::<Logging>(given).map(InterceptorHandle::new)
        })
        .interceptor_kind("metrics", |given| {
            settings::<Metrics>(given).map(InterceptorHandle::new)
        })
        .interceptor_kind("personal_data", |given| {
            let guard: PersonalDataGuard = settings(given)?;
            guard.checked().map(InterceptorHandle::new)
        })
        .interceptor_kind("prices", |given| {
            settings::<Pricing>(given).map(InterceptorHandle::new)
        })
        .interceptor_kind("rate_limit", |given| {
            let limit: RateLimit = settings(given)?;
            limit.checked().map(InterceptorHandle::new)
        })
        .interceptor_kind("retry", |given| {
            settings::<Retry>(given).map(InterceptorHandle::new)
        })
        .interceptor_kind("sanitize", |given| {
            settings::<Sanitize>(given).map(InterceptorHandle::new)
        })
        .interceptor_kind("timeout", |given| {
            settings::<Timeout>(given).map(InterceptorHandle::new)
        })
        .interceptor_kind("tracing", |given| {
            settings::<Tracing>(given).map(InterceptorHandle::new)
        })
        .interceptor_kind("validation", |given| {
            let validation: Validation = settings(given)?;
            validation.checked().map(InterceptorHandle::new)
        })
}

fn settings<T: DeserializeOwned>(given: &Map<String, Value>) -> Result<T, String> {
    T::deserialize(given).map_err(|error| error.to_string())
}

/// Milliseconds, rounded down.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A tool for tests that call none.
#[cfg(test)]
fn some_tool() -> ghostlight_actors::contract::ToolHandle {
    let definition = ghostlight_actors::vocabulary::ToolDefinition::new("act", "Acts.");
    crate::tools::tool_fn(definition, |_: Value| async { Ok("done") })
}
