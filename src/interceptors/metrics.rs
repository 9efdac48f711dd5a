use std::{collections::BTreeMap, sync::Arc};

use ghostlight_actors::{
    contract::{
        Clock, Interceptor, ModelContext, ModelError, NextModel, NextTool, ToolContext, ToolError,
        ToolOutput,
    },
    vocabulary::{Arguments, ModelRequest, ModelResponse, Timestamp},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Counts attempts, failures, tokens and time of each model and each tool, in this process. Clones
/// share the counters, so a clone can be kept to read them. After each attempt the counters of its
/// model or tool also go to `tracing`, under the target `ghostlight::metrics`.
///
/// An attempt that is cut off, by a time limit outside of this interceptor or by a cancellation, is counted too.
/// Metrics of runs and calls, for a collector, are `ghostlight::opentelemetry`'s.
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
    /// Attempts that were cut off before they ended. Their time counts, and they are among neither the calls nor the
    /// failures.
    pub cut_off: u64,
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

    fn count(&self, name: &str, ms: u64, end: End) {
        let mut all = self.metered.lock();
        let of = match all.get_mut(name) {
            Some(of) => of,
            None => all.entry(name.to_owned()).or_default(),
        };
        match end {
            End::Answered { tokens } => {
                of.calls += 1;
                // Token counts come from servers and may be any number.
                of.tokens = of.tokens.saturating_add(tokens);
            }
            End::Failed => {
                of.calls += 1;
                of.failures += 1;
            }
            End::CutOff => of.cut_off += 1,
        }
        of.total_ms = of.total_ms.saturating_add(ms);
        of.longest_ms = of.longest_ms.max(ms);
        let Metered {
            calls,
            failures,
            cut_off,
            tokens,
            total_ms,
            longest_ms,
        } = *of;
        drop(all);
        tracing::debug!(target: "ghostlight::metrics", of = %name, calls, failures, cut_off, tokens, total_ms, longest_ms);
    }
}

/// How an attempt ended.
enum End {
    Answered { tokens: u64 },
    Failed,
    CutOff,
}

/// An attempt under way. It is counted when it is dropped, since nobody comes back to an attempt that is cut off.
struct Attempt<'a> {
    metrics: &'a Metrics,
    clock: &'a Arc<dyn Clock>,
    name: String,
    began: Timestamp,
    end: End,
}

impl<'a> Attempt<'a> {
    fn begin(metrics: &'a Metrics, clock: &'a Arc<dyn Clock>, name: String) -> Self {
        let began = clock.monotonic();
        let end = End::CutOff;
        Self {
            metrics,
            clock,
            name,
            began,
            end,
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let ms = super::millis(self.clock.monotonic().since(self.began));
        let end = std::mem::replace(&mut self.end, End::CutOff);
        self.metrics.count(&self.name, ms, end);
    }
}

impl Interceptor for Metrics {
    async fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let mut attempt = Attempt::begin(self, next.clock(), format!("model {}", request.model));
        let answer = next.respond(request, cx).await;
        attempt.end = match &answer {
            Ok(answer) => End::Answered {
                tokens: answer.usage.total_tokens(),
            },
            Err(_) => End::Failed,
        };
        answer
    }

    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let name = format!("tool {}", next.definition().name);
        let mut attempt = Attempt::begin(self, next.clock(), name);
        let output = next.call(arguments, cx).await;
        attempt.end = match &output {
            Ok(_) => End::Answered { tokens: 0 },
            Err(_) => End::Failed,
        };
        output
    }
}
