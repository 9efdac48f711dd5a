//! How requests are gathered into batches.

use std::time::Duration;

use ghostlight_actors::vocabulary::seconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the requests of a model are gathered into batches of its provider. A team file holds the same fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct BatchSpec {
    /// How long requests are gathered, from the first one on; 30 seconds by default. Their runs stay in memory until then.
    #[serde(rename = "window_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub window: Duration,
    /// The most requests of a batch; 50,000 by default, as OpenAI takes them. Anthropic takes 100,000.
    pub max_requests: u32,
    /// The most bytes of a batch, all of which are in memory while it is gathered; 64 MiB by default. OpenAI takes 200
    /// MB, Anthropic 256. A single larger request is refused.
    pub max_bytes: u64,
    /// How often the provider is asked how a batch stands, once in a second at most; 60 seconds by default.
    #[serde(rename = "poll_interval_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub poll_interval: Duration,
}

impl Default for BatchSpec {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(30),
            max_requests: 50_000,
            max_bytes: 64 * 1024 * 1024,
            poll_interval: Duration::from_secs(60),
        }
    }
}

impl BatchSpec {
    /// Sets how long requests are gathered, from the first one on.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Sets the most requests of a batch.
    #[must_use]
    pub fn max_requests(mut self, requests: u32) -> Self {
        self.max_requests = requests;
        self
    }

    /// Sets the most bytes of a batch.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets how often the provider is asked how a batch stands.
    #[must_use]
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// At least a second.
    pub(super) fn polled_every(&self) -> Duration {
        self.poll_interval.max(Duration::from_secs(1))
    }
}
