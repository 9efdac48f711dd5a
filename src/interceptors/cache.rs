use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use ghostlight_actors::{
    contract::{
        Callee, EmbedderHandle, EmbeddingPurpose, Interceptor, ModelContext, ModelError, NextModel,
        NextTool, ToolContext, ToolError, ToolOutput,
    },
    vocabulary::{
        Arguments, Digest, Effect, ModelRequest, ModelResponse, Timestamp, Usage, seconds,
    },
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Returns a recent answer to the same request.
///
/// Models: the whole request must be the same, or with [`similar`](Self::similar) all of it but the last message of the
/// user, which must say nearly the same. Tools: only tools whose effect is `read`, with the
/// same arguments, and only successes. Put it only around tools whose result depends on nothing but
/// their arguments. A cached answer costs nothing.
///
/// The oldest entry is removed first. Time is the System's clock, which well-known cache libraries
/// do not use.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cache {
    #[serde(rename = "ttl_s", with = "seconds")]
    ttl: Duration,
    entries: usize,
    #[serde(skip)]
    kept: Mutex<CachedResult>,
    #[serde(skip)]
    meaning: Option<Meaning>,
}

/// Finds answers to questions that mean the same.
#[derive(Debug)]
struct Meaning {
    embedder: EmbedderHandle,
    /// The cosine from which two questions mean the same.
    least: f32,
    /// The oldest first.
    asked: Mutex<VecDeque<Question>>,
}

/// A question that was answered.
#[derive(Debug)]
struct Question {
    /// The model, and the request without the question.
    frame: (Callee, Digest),
    vector: Vec<f32>,
    until: Timestamp,
    answer: Box<ModelResponse>,
}

/// The words of a question and the request around it. Only a text that a user said last is a question; what was
/// attached to it, or what a tool said, has no like.
fn question(request: &ModelRequest) -> Option<(Digest, String)> {
    let last = request.conversation.last()?;
    let is_text = last.parts.iter().all(|part| part.as_text().is_some());
    let text = last.content();
    if !last.is_from_user() || !is_text || text.trim().is_empty() {
        return None;
    }
    let mut frame = request.clone();
    frame.conversation = frame.conversation.truncated(frame.conversation.len() - 1);
    Some((Digest::of_parts(&[b"frame", &frame.digest().0]), text))
}

/// The model or tool that was called, and what it was asked. A name may stand for different tools in different agents.
type Key = (Callee, Digest);

#[derive(Debug, Default)]
struct CachedResult {
    found: HashMap<Key, (Timestamp, Answer)>,
    /// In the order of insertion.
    order: VecDeque<Key>,
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
            meaning: None,
        }
    }

    /// Also returns the answer to another question that means nearly the same: whose vector, of this embedder, has at
    /// least this cosine with that of the question, from 0 to 1 (0.95 is careful). All else of the request must be the same. Answers that
    /// call tools are not given to other questions.
    ///
    /// Texts that are nearly the same can say the opposite, as with *not*: take an embedder that tells them apart, and put it
    /// around models whose answers do no harm where they are wrong.
    #[must_use]
    pub fn similar(mut self, embedder: impl Into<EmbedderHandle>, least: f64) -> Self {
        self.meaning = Some(Meaning {
            embedder: embedder.into(),
            least: least.clamp(0.0, 1.0) as f32,
            asked: Mutex::default(),
        });
        self
    }

    fn find(&self, key: &Key, now: Timestamp) -> Option<Answer> {
        let kept = self.kept.lock();
        let (until, answer) = kept.found.get(key)?;
        (now < *until).then(|| answer.clone())
    }

    fn keep(&self, key: Key, now: Timestamp, answer: Answer) {
        let mut kept = self.kept.lock();
        if kept
            .found
            .insert(key.clone(), (now.after(self.ttl), answer))
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

impl Meaning {
    /// The answer to the question that is nearest to this one.
    fn find(
        &self,
        frame: &(Callee, Digest),
        vector: &[f32],
        now: Timestamp,
    ) -> Option<Box<ModelResponse>> {
        let asked = self.asked.lock();
        let near = asked
            .iter()
            .filter(|asked| asked.frame == *frame && now < asked.until);
        let cosine =
            |asked: &Question| -> f32 { asked.vector.iter().zip(vector).map(|(a, b)| a * b).sum() };
        let near = near.map(|asked| (cosine(asked), asked));
        let near = near.filter(|(cosine, _)| *cosine >= self.least);
        let best = near.max_by(|(a, _), (b, _)| a.total_cmp(b));
        best.map(|(_, asked)| asked.answer.clone())
    }

    fn keep(&self, question: Question, most: usize) {
        let mut asked = self.asked.lock();
        asked.push_back(question);
        while asked.len() > most {
            asked.pop_front();
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
        let key = (next.callee().clone(), request.digest());
        if let Some(Answer::Model(mut answer)) = self.find(&key, next.clock().monotonic()) {
            answer.usage = Usage::default();
            return Ok(*answer);
        }
        let mut asked = None;
        if let (Some(meaning), Some((frame, text))) = (&self.meaning, question(&request)) {
            let frame = (next.callee().clone(), frame);
            // Where there is no vector, only the same request has the same answer.
            if let Ok(vector) = meaning
                .embedder
                .embed_one(&text, EmbeddingPurpose::Query)
                .await
            {
                if let Some(mut answer) = meaning.find(&frame, &vector, next.clock().monotonic()) {
                    answer.usage = Usage::default();
                    return Ok(*answer);
                }
                asked = Some((meaning, frame, vector));
            }
        }
        let answer = next.respond(request, cx).await?;
        let now = next.clock().monotonic();
        let kept = Box::new(answer.clone());
        if let Some((meaning, frame, vector)) = asked
            && answer.message.tool_calls().next().is_none()
        {
            meaning.keep(
                Question {
                    frame,
                    vector,
                    until: now.after(self.ttl),
                    answer: kept.clone(),
                },
                self.entries,
            );
        }
        self.keep(key, now, Answer::Model(kept));
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
        let asked = Digest::of_parts(&[definition.name.as_bytes(), asked.as_bytes()]);
        let key = (next.callee().clone(), asked);
        if let Some(Answer::Tool(output)) = self.find(&key, next.clock().monotonic()) {
            return Ok(output);
        }
        let output = next.call(arguments, cx).await?;
        if !output.later && output.continuation.is_none() {
            self.keep(key, next.clock().monotonic(), Answer::Tool(output.clone()));
        }
        Ok(output)
    }
}

/// The cache of a team file: `ttl_s`, `entries`, and with the feature `retrieval` `similar` and its `embedder`.
pub(super) fn of(given: &Map<String, Value>) -> Result<Cache, String> {
    let mut given = given.clone();
    let (similar, embedder) = (given.remove("similar"), given.remove("embedder"));
    let cache: Cache = super::settings(&given)?;
    match (similar, embedder) {
        (None, None) => Ok(cache),
        (None, Some(_)) => {
            Err("embedder: it has no effect without `similar`, a number from 0 to 1".to_owned())
        }
        (Some(similar), embedder) => {
            let least = similar.as_f64().filter(|least| (0.0..=1.0).contains(least));
            let least = least.ok_or("similar: it is a number from 0 to 1, such as 0.95")?;
            Ok(cache.similar(embedder_of(embedder)?, least))
        }
    }
}

#[cfg(feature = "retrieval")]
fn embedder_of(given: Option<Value>) -> Result<EmbedderHandle, String> {
    let spec = match given {
        Some(given) => crate::models::EmbedderSpec::deserialize(given)
            .map_err(|error| format!("embedder: {error}"))?,
        None => crate::models::EmbedderSpec::default(),
    };
    spec.embedder()
        .map_err(|error| format!("embedder: {error}"))
}

#[cfg(not(feature = "retrieval"))]
fn embedder_of(_: Option<Value>) -> Result<EmbedderHandle, String> {
    Err("similar: it needs the cargo feature `retrieval`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_anew_is_no_longer_the_oldest() {
        let cache = Cache::new(Duration::from_millis(500), 2);
        let tool = crate::interceptors::some_tool();
        let key = |text: &str| (tool.callee(), Digest::of(text.as_bytes()));
        let keep = |text: &str, now| {
            let answer = Answer::Tool(ToolOutput::text(text));
            cache.keep(key(text), now, answer);
        };
        let has = |text: &str, now| cache.find(&key(text), now).is_some();
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
