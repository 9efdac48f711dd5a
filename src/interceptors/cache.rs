use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use ghostlight_actors::{
    contract::{
        Interceptor, ModelContext, ModelError, NextModel, NextTool, ToolContext, ToolError,
        ToolOutput,
    },
    vocabulary::{Arguments, Digest, Effect, ModelRequest, ModelResponse, Timestamp, Usage},
};
use parking_lot::Mutex;
use serde::Deserialize;

/// Returns a recent answer to the same request.
///
/// Models: the whole request must be the same. Tools: only tools whose effect is `read`, with the
/// same arguments, and only successes. Put it only around tools whose result depends on nothing but
/// their arguments. A cached answer costs nothing.
///
/// The oldest entry is removed first. Time is the System's clock, which well-known cache libraries
/// do not use.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cache {
    #[serde(rename = "ttl_s", deserialize_with = "super::seconds")]
    ttl: Duration,
    entries: usize,
    #[serde(skip)]
    kept: Mutex<CachedResult>,
}

#[derive(Debug, Default)]
struct CachedResult {
    found: HashMap<Digest, (Timestamp, Answer)>,
    /// In the order of insertion.
    order: VecDeque<Digest>,
}

#[derive(Clone, Debug)]
enum Answer {
    Model(Box<ModelResponse>),
    Tool(ToolOutput),
}

impl Default for Cache {
    /// A thousand answers, each for five minutes.
    fn default() -> Self {
        Self::new(Duration::from_secs(300), 1000)
    }
}

impl Cache {
    /// Keeps at most this many answers, each for this long.
    pub fn new(ttl: Duration, entries: usize) -> Self {
        Self {
            ttl,
            entries,
            kept: Mutex::default(),
        }
    }

    fn find(&self, key: Digest, now: Timestamp) -> Option<Answer> {
        let kept = self.kept.lock();
        let (until, answer) = kept.found.get(&key)?;
        (now < *until).then(|| answer.clone())
    }

    fn keep(&self, key: Digest, now: Timestamp, answer: Answer) {
        let mut kept = self.kept.lock();
        if kept
            .found
            .insert(key, (now.after(self.ttl), answer))
            .is_some()
        {
            // The renewed entry becomes the youngest.
            kept.order.retain(|known| *known != key);
        }
        kept.order.push_back(key);
        while kept.order.len() > self.entries {
            if let Some(oldest) = kept.order.pop_front() {
                kept.found.remove(&oldest);
            }
        }
    }
}

impl Interceptor for Cache {
    async fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let key = Digest::of_parts(&[b"model", &request.digest().0]);
        if let Some(Answer::Model(mut answer)) = self.find(key, next.clock().monotonic()) {
            answer.usage = Usage::default();
            return Ok(*answer);
        }
        let answer = next.respond(request, cx).await?;
        let kept = Answer::Model(Box::new(answer.clone()));
        self.keep(key, next.clock().monotonic(), kept);
        Ok(answer)
    }

    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let definition = next.definition();
        let (Effect::Read, Ok(value)) = (definition.effect, arguments.value()) else {
            return next.call(arguments, cx).await;
        };
        let asked = value.to_string();
        let key = Digest::of_parts(&[b"tool", definition.name.as_bytes(), asked.as_bytes()]);
        if let Some(Answer::Tool(output)) = self.find(key, next.clock().monotonic()) {
            return Ok(output);
        }
        let output = next.call(arguments, cx).await?;
        if !output.later && output.continuation.is_none() {
            self.keep(key, next.clock().monotonic(), Answer::Tool(output.clone()));
        }
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_anew_is_no_longer_the_oldest() {
        let cache = Cache::new(Duration::from_millis(500), 2);
        let keep = |text: &str, now| {
            let answer = Answer::Tool(ToolOutput::text(text));
            cache.keep(Digest::of(text.as_bytes()), now, answer);
        };
        let has = |text: &str, now| cache.find(Digest::of(text.as_bytes()), now).is_some();
        let now = Timestamp::default();
        keep("old", now);
        keep("young", now);
        assert!(has("old", now.after(Duration::from_millis(499))));
        let now = now.after(Duration::from_millis(500));
        assert!(!has("old", now));
        keep("old", now);
        keep("new", now);
        assert!(has("old", now) && has("new", now) && !has("young", now));
        for _ in 0..100 {
            keep("old", now);
        }
        assert_eq!(cache.kept.lock().order.len(), 2);
    }
}
