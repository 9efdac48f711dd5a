use std::time::Duration;

use ghostlight_actors::{
    contract::{
        Entropy, Interceptor, ModelContext, ModelError, NextModel, NextTool, ToolContext,
        ToolError, ToolErrorKind, ToolOutput,
    },
    vocabulary::{Arguments, ModelRequest, ModelResponse, seconds},
};
use serde::Deserialize;

/// Repeats a call that failed for a temporary reason, after a pause that doubles each time, with
/// jitter.
///
/// A model call is repeated if its error is retryable. A tool call is repeated unless it was
/// refused or its effect is `once`. Around a model, it replaces the gateway's own retries. If a
/// server asks for a pause longer than the longest one, the call is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    attempts: u32,
    #[serde(rename = "base_pause_s", with = "seconds")]
    base_pause: Duration,
    #[serde(rename = "max_pause_s", with = "seconds")]
    max_pause: Duration,
}

impl Default for Retry {
    /// Three attempts, with half a second before the second, and at most 30 seconds before any.
    fn default() -> Self {
        Self::attempts(3)
    }
}

impl Retry {
    /// At most this many attempts, the first included.
    pub fn attempts(attempts: u32) -> Self {
        Self {
            attempts,
            base_pause: Duration::from_millis(500),
            max_pause: Duration::from_secs(30),
        }
    }

    /// Sets the pause before the second attempt and the longest pause.
    #[must_use]
    pub fn pauses(mut self, base: Duration, max: Duration) -> Self {
        (self.base_pause, self.max_pause) = (base, max);
        self
    }

    /// A random pause between half of the exponential pause and all of it.
    fn pause(&self, attempt: u32, entropy: &dyn Entropy) -> Duration {
        let times = 1 << attempt.saturating_sub(1).min(20);
        let doubled = self.base_pause.saturating_mul(times);
        doubled
            .min(self.max_pause)
            .mul_f64(0.5 + 0.5 * entropy.fraction())
    }
}

impl Interceptor for Retry {
    async fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let mut attempt = 1;
        loop {
            let error = match next.respond(request.clone(), cx.clone()).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if !error.retryable || error.exhausted {
                return Err(error);
            }
            // An attempt before the time that the server asks for would be wasted.
            let too_long = |asked| asked > self.max_pause;
            if attempt >= self.attempts || error.retry_after.is_some_and(too_long) {
                return Err(error.exhausted());
            }
            let pause = match error.retry_after {
                // Those whom a server sends away together do not come back together.
                Some(asked) => {
                    let share = (asked / 4).max(self.base_pause);
                    asked + share.mul_f64(next.entropy().fraction())
                }
                None => self.pause(attempt, &**next.entropy()),
            };
            cx.retrying(error.message, pause);
            next.pause(pause).await;
            attempt += 1;
        }
    }

    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let mut attempt = 1;
        loop {
            let output = next.call(arguments.clone(), cx.clone()).await;
            match &output {
                Err(error)
                    if next.may_repeat()
                        && error.kind != ToolErrorKind::Denied
                        && attempt < self.attempts => {}
                _ => return output,
            }
            next.pause(self.pause(attempt, &**next.entropy())).await;
            attempt += 1;
        }
    }
}
