use std::{collections::HashMap, time::Duration};

use ghostlight_actors::{
    contract::{
        Interceptor, ModelContext, ModelError, NextModel, NextTool, ToolContext, ToolError,
        ToolOutput,
    },
    vocabulary::{Arguments, ErrorKind, ModelRequest, ModelResponse, Part, Timestamp, seconds},
};
use parking_lot::Mutex;
use serde::Deserialize;

use super::bucket::Bucket;

/// The estimated characters of a token.
const CHARACTERS_PER_TOKEN: u64 = 4;
/// The expected tokens of an answer if its request sets no bound.
const EXPECTED_ANSWER: u64 = 500;

/// Bounds calls, and the tokens of models, within a time, for each model and each tool separately.
/// A call that comes too early waits, and is refused if the wait would be too long.
///
/// The tokens of a model call are reserved by an estimate, and corrected when the answer reports
/// the actual number.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimit {
    calls: Option<u32>,
    tokens: Option<u64>,
    #[serde(rename = "per_s", with = "seconds")]
    per: Duration,
    #[serde(rename = "max_wait_s", with = "seconds")]
    max_wait: Duration,
    #[serde(skip)]
    buckets: Mutex<HashMap<String, Buckets>>,
}

#[derive(Debug)]
struct Buckets {
    calls: Option<Bucket>,
    tokens: Option<Bucket>,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self {
            calls: None,
            tokens: None,
            per: Duration::from_secs(60),
            max_wait: Duration::from_secs(60),
            buckets: Mutex::default(),
        }
    }
}

/// The reservation of a call that was not made yet. If it is dropped, the call was cancelled, and
/// the reservation is returned.
struct Reserved<'a> {
    limit: &'a RateLimit,
    name: String,
    tokens: u64,
    open: bool,
}

impl RateLimit {
    /// Bounds the calls within this time.
    pub fn calls(calls: u32, per: Duration) -> Self {
        Self {
            calls: Some(calls),
            per,
            ..Self::default()
        }
    }

    /// Bounds the tokens within this time.
    pub fn tokens(tokens: u64, per: Duration) -> Self {
        Self {
            tokens: Some(tokens),
            per,
            ..Self::default()
        }
    }

    /// Sets how long a call may wait before it is refused; a minute by default.
    #[must_use]
    pub fn max_wait(mut self, time: Duration) -> Self {
        self.max_wait = time;
        self
    }

    pub(super) fn checked(self) -> Result<Self, String> {
        match (self.calls, self.tokens) {
            (None, None) => Err("set `calls` or `tokens`".to_owned()),
            (Some(0), _) | (_, Some(0)) => Err("`calls` and `tokens` are 1 or more".to_owned()),
            _ if self.per.is_zero() => Err("`per_s` is more than 0".to_owned()),
            _ => Ok(self),
        }
    }

    /// Reserves a place, and returns the time to wait; the error is a wait that is too long.
    fn reserve(
        &self,
        name: String,
        tokens: u64,
        now: Timestamp,
    ) -> Result<(Reserved<'_>, Duration), Duration> {
        let mut all = self.buckets.lock();
        let per = self.per;
        let buckets = all.entry(name.clone()).or_insert_with(|| Buckets {
            calls: self.calls.map(|calls| Bucket::new(f64::from(calls), per)),
            tokens: self.tokens.map(|tokens| Bucket::new(tokens as f64, per)),
        });
        let calls = buckets
            .calls
            .as_mut()
            .map(|bucket| bucket.wait_for(1.0, now));
        let wait = buckets
            .tokens
            .as_mut()
            .map(|bucket| bucket.wait_for(tokens as f64, now));
        let wait = calls.into_iter().chain(wait).max().unwrap_or_default();
        if wait > self.max_wait {
            return Err(wait);
        }
        if let Some(bucket) = &mut buckets.calls {
            bucket.take(1.0);
        }
        if let Some(bucket) = &mut buckets.tokens {
            bucket.take(tokens as f64);
        }
        let (limit, open) = (self, true);
        Ok((
            Reserved {
                limit,
                name,
                tokens,
                open,
            },
            wait,
        ))
    }
}

impl Reserved<'_> {
    /// The call was made, and used this many tokens.
    fn settle(mut self, tokens: u64) {
        self.open = false;
        let mut all = self.limit.buckets.lock();
        if let Some(bucket) = all.get_mut(&self.name).and_then(|all| all.tokens.as_mut()) {
            bucket.settle(self.tokens as f64, tokens as f64);
        }
    }

    /// The call is being made: it counts, however it ends.
    fn begin(&mut self) {
        self.open = false;
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let mut all = self.limit.buckets.lock();
        if let Some(buckets) = all.get_mut(&self.name) {
            if let Some(bucket) = &mut buckets.calls {
                bucket.settle(1.0, 0.0);
            }
            if let Some(bucket) = &mut buckets.tokens {
                bucket.settle(self.tokens as f64, 0.0);
            }
        }
    }
}

/// The estimated tokens of a request and its answer.
fn estimate(request: &ModelRequest) -> u64 {
    let mut characters = request.instructions.len();
    for message in request.conversation.messages() {
        for part in &message.parts {
            characters += match part {
                Part::Text(text) => text.len(),
                Part::ToolCall(call) => call.arguments.text().len(),
                Part::ToolResult(result) => result.text.len(),
                _ => 0,
            };
        }
    }
    let answer = request
        .settings
        .max_tokens
        .map_or(EXPECTED_ANSWER, u64::from);
    (characters as u64).div_ceil(CHARACTERS_PER_TOKEN) + answer
}

impl Interceptor for RateLimit {
    async fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let name = format!("model {}", request.model);
        let tokens = if self.tokens.is_some() {
            estimate(&request)
        } else {
            0
        };
        let reserved = self.reserve(name.clone(), tokens, next.clock().monotonic());
        let (mut reserved, wait) = reserved.map_err(|wait| {
            let message = format!("{name}: its rate limit is used up for another {wait:?}");
            ModelError::new(ErrorKind::RateLimited, message)
        })?;
        if !wait.is_zero() {
            next.pause(wait).await;
        }
        reserved.begin();
        let answer = next.respond(request, cx).await;
        if let Ok(answer) = &answer {
            reserved.settle(answer.usage.total_tokens());
        }
        answer
    }

    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let name = format!("tool {}", next.definition().name);
        let reserved = self.reserve(name.clone(), 0, next.clock().monotonic());
        let (mut reserved, wait) = reserved.map_err(|wait| {
            let seconds = wait.as_secs().saturating_add(1);
            ToolError::new(format!(
                "{name}: its rate limit is used up for another {seconds} s"
            ))
        })?;
        if !wait.is_zero() {
            next.pause(wait).await;
        }
        reserved.begin();
        next.call(arguments, cx).await
    }
}
