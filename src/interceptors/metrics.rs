use std::{collections::BTreeMap, sync::Arc};

use ghostlight_actors::{
    contract::{
        Interceptor, ModelContext, ModelError, NextModel, NextTool, ToolContext, ToolError,
        ToolOutput,
    },
    vocabulary::{Arguments, ModelRequest, ModelResponse},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Counts attempts, failures, tokens and time of each model and each tool. Clones share the
/// counters, so a clone can be kept to read them. After each attempt the counters of its model or
/// tool also go to `tracing`, under the target `ghostlight::metrics`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    #[serde(skip)]
    metered: Arc<Mutex<BTreeMap<String, Metered>>>,
}

/// The counters of one model or tool. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Metered {
    /// Attempts that ended.
    pub calls: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// The tokens of all answers.
    pub tokens: u64,
    /// The total duration of all attempts, in milliseconds.
    pub total_ms: u64,
    /// The duration of the longest attempt, in milliseconds.
    pub longest_ms: u64,
}

impl Metrics {
    /// Counters at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// All counters, by `model NAME` and `tool NAME`.
    pub fn read(&self) -> BTreeMap<String, Metered> {
        self.metered.lock().clone()
    }

    fn count(&self, name: String, ms: u64, failed: bool, tokens: u64) {
        let mut all = self.metered.lock();
        let of = all.entry(name.clone()).or_default();
        of.calls += 1;
        of.failures += u64::from(failed);
        // Token counts come from servers and may be any number.
        of.tokens = of.tokens.saturating_add(tokens);
        of.total_ms = of.total_ms.saturating_add(ms);
        of.longest_ms = of.longest_ms.max(ms);
        let Metered {
            calls,
            failures,
            tokens,
            total_ms,
            longest_ms,
        } = *of;
        drop(all);
        tracing::debug!(target: "ghostlight::metrics", of = %name, calls, failures, tokens, total_ms, longest_ms);
    }
}

impl Interceptor for Metrics {
    async fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let (name, began) = (format!("model {}", request.model), next.clock().monotonic());
        let answer = next.respond(request, cx).await;
        let ms = super::millis(next.clock().monotonic().since(began));
        let tokens = answer
            .as_ref()
            .map_or(0, |answer| answer.usage.total_tokens());
        self.count(name, ms, answer.is_err(), tokens);
        answer
    }

    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let (name, began) = (
            format!("tool {}", next.definition().name),
            next.clock().monotonic(),
        );
        let output = next.call(arguments, cx).await;
        let ms = super::millis(next.clock().monotonic().since(began));
        self.count(name, ms, output.is_err(), 0);
        output
    }
}
