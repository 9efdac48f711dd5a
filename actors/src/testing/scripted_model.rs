//! A model with answers from a test.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::check_transcript;
use crate::{
    contract::{Model, ModelContext, ModelError},
    vocabulary::{
        Delta, ErrorKind, ModelRequest, ModelResponse, OperationId, Part, Role, RunId, ToolCall,
        Usage,
    },
};

/// A model whose answers come from a closure, a list or a [`Script`], and that keeps every
/// request that it saw. Cloning shares it, so a test keeps one clone and registers another.
///
/// As providers do, it refuses a conversation that breaks [their rules](super::check_transcript).
///
/// ```
/// use ghostlight_actors::{testing::ScriptedModel, vocabulary::ModelResponse};
///
/// let listed = ScriptedModel::replies(["first", "second"]);
/// let coded = ScriptedModel::from_fn(|request, number| {
///     let messages = request.conversation.len();
///     Ok(ModelResponse::text(format!("call {number} with {messages} messages")))
/// });
/// # let _ = (listed, coded);
/// ```
#[derive(Clone)]
pub struct ScriptedModel {
    shared: Arc<Shared>,
    delay: Duration,
    piece_delay: Duration,
    usage: Option<Usage>,
}

struct Shared {
    answer: Box<Answer>,
    seen: Mutex<Vec<SeenRequest>>,
}

type Answer = dyn Fn(&ModelRequest, u64) -> Reply + Send + Sync;

/// What a [`ScriptedModel`] does with one request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reply {
    /// It answers.
    Respond(ModelResponse),
    /// The attempt fails.
    Fail(ModelError),
    /// It says nothing until the attempt is cancelled.
    Hang,
}

/// A request that a [`ScriptedModel`] saw.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SeenRequest {
    /// What was asked.
    pub request: ModelRequest,
    /// The run that asked.
    pub run: RunId,
    /// The operation that asked.
    pub operation: OperationId,
    /// Which attempt of the operation it was, from 1.
    pub attempt: u32,
}

impl ScriptedModel {
    /// A model that asks this closure. The number counts the calls of this model, from 0.
    pub fn from_fn<F>(answer: F) -> Self
    where
        F: Fn(&ModelRequest, u64) -> Result<ModelResponse, ModelError> + Send + Sync + 'static,
    {
        Self::from_reply_fn(move |request, number| answer(request, number).into())
    }

    /// Like [`from_fn`](Self::from_fn), for a closure that can also [hang](Reply::Hang).
    pub fn from_reply_fn<F>(answer: F) -> Self
    where
        F: Fn(&ModelRequest, u64) -> Reply + Send + Sync + 'static,
    {
        Self {
            shared: Arc::new(Shared {
                answer: Box::new(answer),
                seen: Mutex::default(),
            }),
            delay: Duration::ZERO,
            piece_delay: Duration::ZERO,
            usage: None,
        }
    }

    /// A model whose n-th call gets the n-th reply. Past the last one every call fails, so that
    /// a test notices a call too many.
    pub fn replies<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> Self {
        let replies: Vec<Reply> = replies.into_iter().map(Into::into).collect();
        Self::from_reply_fn(move |_, number| pick(&replies, number))
    }

    /// A model that chooses its reply by the conversation: with n model answers in it, counted from 0, the n-th
    /// reply. The answer depends on the request alone, so this model works for a run that goes on in another process,
    /// and for several runs at once.
    pub fn turns<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> Self {
        let replies: Vec<Reply> = replies.into_iter().map(Into::into).collect();
        Self::from_reply_fn(move |request, _| pick(&replies, turns_before(request)))
    }

    /// A model that follows a script.
    pub fn script(script: Script) -> Self {
        let usage = script.usage;
        let model = Self::from_reply_fn(move |request, number| script.reply(request, number));
        Self { usage, ..model }
    }

    /// A model that never answers.
    pub fn hanging() -> Self {
        Self::from_reply_fn(|_, _| Reply::Hang)
    }

    /// Waits this long, by tokio's clock, before each answer or failure.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Waits this long, by tokio's clock, after each delta. Deltas are sent where the request
    /// asks for them: text word by word, a tool call's name and then its arguments.
    #[must_use]
    pub fn piece_delay(mut self, delay: Duration) -> Self {
        self.piece_delay = delay;
        self
    }

    /// Reports this usage with each answer that has none of its own.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// The requests that arrived, in order, each with the agent that sent it.
    pub fn seen(&self) -> Vec<SeenRequest> {
        self.shared.seen.lock().clone()
    }

    /// The requests that arrived, in order.
    pub fn requests(&self) -> Vec<ModelRequest> {
        let seen = self.shared.seen.lock();
        seen.iter().map(|seen| seen.request.clone()).collect()
    }

    /// How many requests arrived.
    pub fn calls(&self) -> usize {
        self.shared.seen.lock().len()
    }

    /// Notes the request and returns its number.
    fn note(&self, request: &ModelRequest, cx: &ModelContext) -> u64 {
        let mut seen = self.shared.seen.lock();
        seen.push(SeenRequest {
            request: request.clone(),
            run: cx.run(),
            operation: cx.operation(),
            attempt: cx.attempt(),
        });
        seen.len() as u64 - 1
    }

    async fn stream(&self, response: &ModelResponse, cx: &ModelContext) {
        for delta in deltas(response) {
            cx.delta(delta);
            if !self.piece_delay.is_zero() {
                tokio::time::sleep(self.piece_delay).await;
            }
        }
    }
}

impl Model for ScriptedModel {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let number = self.note(&request, &cx);
        if let Err(breach) = check_transcript(&request.conversation.messages()) {
            let message = format!("no provider takes this conversation: {breach}");
            return Err(ModelError::new(ErrorKind::InvalidInput, message).status(400));
        }
        let reply = (self.shared.answer)(&request, number);
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        match reply {
            Reply::Respond(mut response) => {
                if response.model.is_empty() {
                    response.model = String::from("scripted");
                }
                if response.usage == Usage::default() {
                    response.usage = self.usage.unwrap_or_default();
                }
                if request.stream {
                    self.stream(&response, &cx).await;
                }
                Ok(response)
            }
            Reply::Fail(error) => Err(error),
            Reply::Hang => {
                cx.cancelled().cancelled().await;
                let message = "the call to the scripted model was cancelled while it hung";
                Err(ModelError::new(ErrorKind::Cancelled, message))
            }
        }
    }

    fn description(&self) -> String {
        String::from("a scripted model for tests")
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel")
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}

fn turns_before(request: &ModelRequest) -> u64 {
    let messages = request.conversation.messages();
    let answers = messages.iter().filter(|m| m.role == Role::Assistant);
    answers.count() as u64
}

fn pick(replies: &[Reply], number: u64) -> Reply {
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    replies.get(index).cloned().unwrap_or_else(|| {
        let have = replies.len();
        Reply::Fail(ModelError::new(
            ErrorKind::Model,
            format!("the script has {have} replies, and reply {number} (from 0) was asked for"),
        ))
    })
}

fn deltas(response: &ModelResponse) -> Vec<Delta> {
    let mut deltas = Vec::new();
    let mut calls = 0;
    for part in &response.message.parts {
        match part {
            Part::Text(text) => {
                deltas.extend(text.split_inclusive(' ').map(|w| Delta::Text(w.to_owned())));
            }
            Part::Reasoning(reasoning) => deltas.push(Delta::Reasoning(reasoning.text.clone())),
            Part::ToolCall(call) => {
                let mut push = |name, arguments: &str| {
                    deltas.push(Delta::ToolCall {
                        index: calls,
                        name,
                        arguments: arguments.to_owned(),
                    });
                };
                push(Some(call.name.clone()), "");
                push(None, call.arguments.text());
                calls += 1;
            }
            _ => {}
        }
    }
    deltas
}

impl From<Result<ModelResponse, ModelError>> for Reply {
    fn from(result: Result<ModelResponse, ModelError>) -> Self {
        match result {
            Ok(response) => Self::Respond(response),
            Err(error) => Self::Fail(error),
        }
    }
}

impl From<ModelResponse> for Reply {
    fn from(response: ModelResponse) -> Self {
        Self::Respond(response)
    }
}

impl From<ModelError> for Reply {
    fn from(error: ModelError) -> Self {
        Self::Fail(error)
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::Respond(ModelResponse::text(text))
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self::Respond(ModelResponse::text(text))
    }
}

impl From<ToolCall> for Reply {
    fn from(call: ToolCall) -> Self {
        Self::Respond(ModelResponse::tool_calls([call]))
    }
}

impl From<Vec<ToolCall>> for Reply {
    fn from(calls: Vec<ToolCall>) -> Self {
        Self::Respond(ModelResponse::tool_calls(calls))
    }
}

/// Replies as plain data, for a JSON or YAML file.
///
/// ```
/// # use ghostlight_actors::testing::{Script, ScriptedModel};
/// let script: Script = serde_json::from_str(r#"{
///     "replies": [
///         { "calls": [{ "name": "search", "arguments": { "query": "resume" } }] },
///         { "error": { "kind": "rate_limited", "message": "slow down", "retryable": true } },
///         { "text": "That is how." }
///     ]
/// }"#)?;
/// let model = ScriptedModel::script(script);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// How a request finds its reply.
    pub order: ScriptOrder,
    /// The replies.
    pub replies: Vec<ScriptedReply>,
    /// Whether the last reply is given again past the end; otherwise such a call fails.
    pub repeat_last: bool,
    /// What each answer reports as consumed.
    pub usage: Option<Usage>,
}

/// How a request finds its reply in a [`Script`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScriptOrder {
    /// The n-th call of the model gets the n-th reply.
    #[default]
    Calls,
    /// A conversation with n answers of a model in it gets the n-th reply, from 0.
    Turns,
}

/// One reply of a [`Script`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptedReply {
    /// An answer of one text.
    Text(String),
    /// An answer that asks for tools.
    Calls(Vec<ScriptedCall>),
    /// The attempt fails.
    Error {
        /// What kind of failure it is.
        kind: ErrorKind,
        /// What it says.
        message: String,
        /// Whether another attempt can help.
        #[serde(default)]
        retryable: bool,
    },
    /// Nothing is said until the attempt is cancelled.
    Hang,
}

/// A tool call of a [`Script`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// The call's id; one is made from the places of reply and call where there is none.
    #[serde(default)]
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The arguments: an object, or a text that is sent as it is, well-formed or not.
    #[serde(default)]
    pub arguments: Value,
}

impl Script {
    fn reply(&self, request: &ModelRequest, number: u64) -> Reply {
        let mut index = match self.order {
            ScriptOrder::Calls => number,
            ScriptOrder::Turns => turns_before(request),
        };
        if self.repeat_last {
            index = index.min((self.replies.len() as u64).saturating_sub(1));
        }
        let found = usize::try_from(index)
            .ok()
            .and_then(|i| self.replies.get(i));
        match found {
            Some(reply) => reply.reply(index),
            None => Reply::Fail(ModelError::new(
                ErrorKind::Model,
                format!(
                    "the script has {} replies, and reply {index} (from 0) was asked for",
                    self.replies.len()
                ),
            )),
        }
    }
}

impl ScriptedReply {
    fn reply(&self, index: u64) -> Reply {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Calls(calls) => {
                let calls = calls.iter().enumerate();
                let calls = calls.map(|(place, call)| call.call(index, place));
                Reply::Respond(ModelResponse::tool_calls(calls))
            }
            Self::Error {
                kind,
                message,
                retryable,
            } => {
                let error = ModelError::new(kind.clone(), message);
                Reply::Fail(if *retryable { error.retryable() } else { error })
            }
            Self::Hang => Reply::Hang,
        }
    }
}

impl ScriptedCall {
    fn call(&self, reply: u64, place: usize) -> ToolCall {
        let id = match &self.id {
            Some(id) => id.clone(),
            None => format!("call-{reply}-{place}"),
        };
        match &self.arguments {
            Value::String(text) => ToolCall::new(id, &self.name, text.as_str()),
            Value::Null => ToolCall::new(id, &self.name, "{}"),
            object => ToolCall::new(id, &self.name, object.clone()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::vocabulary::{Message, Preview, Transcript};

    fn asked(texts: &[(Role, &str)]) -> ModelRequest {
        let messages = texts.iter().map(|(role, text)| Message::text(*role, *text));
        ModelRequest::new(Transcript::from_iter(messages))
    }

    #[tokio::test]
    async fn replies_come_in_the_order_of_the_calls_and_one_too_many_fails() {
        let model = ScriptedModel::replies(["a", "b"]);
        let request = asked(&[(Role::User, "hello")]);
        for expected in ["a", "b"] {
            let answer = model
                .respond(request.clone(), ModelContext::detached())
                .await;
            assert_eq!(answer.unwrap().content(), expected);
        }
        let answer = model
            .respond(request.clone(), ModelContext::detached())
            .await;
        assert!(answer.unwrap_err().message.contains("has 2 replies"));
        assert_eq!(model.calls(), 3);
        assert_eq!(model.requests()[2].digest(), request.digest());
    }

    #[tokio::test]
    async fn turns_depend_on_the_conversation_alone() {
        let model = ScriptedModel::turns(["a", "b"]);
        let later = asked(&[(Role::User, "x"), (Role::Assistant, "a"), (Role::User, "y")]);
        for _ in 0..2 {
            let answer = model.respond(later.clone(), ModelContext::detached()).await;
            assert_eq!(answer.unwrap().content(), "b");
        }
    }

    #[tokio::test]
    async fn a_script_from_json_gives_calls_errors_and_texts() {
        let json = r#"{"replies": [
            {"calls": [{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": "{bad"}]},
            {"error": {"kind": "rate_limited", "message": "slow", "retryable": true}},
            {"text": "end"}
        ], "repeat_last": true}"#;
        let model = ScriptedModel::script(serde_json::from_str(json).unwrap());
        let next = || model.respond(asked(&[]), ModelContext::detached());
        let calls = next().await.unwrap().calls();
        assert_eq!(calls[0], ToolCall::new("call-0-0", "f", r#"{"x":1}"#));
        assert_eq!(calls[1].arguments.text(), "{bad");
        let error = next().await.unwrap_err();
        assert_eq!(
            (error.kind, error.retryable),
            (ErrorKind::RateLimited, true)
        );
        assert_eq!(next().await.unwrap().content(), "end");
        assert_eq!(next().await.unwrap().content(), "end");
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_streams_word_by_word_and_hangs_until_it_is_cancelled() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = said.clone();
        let cx = ModelContext::detached().previews(Arc::new(move |preview| {
            if let Preview::Delta { delta, .. } = preview {
                heard.lock().push(delta);
            }
        }));
        let started = tokio::time::Instant::now();
        let model = ScriptedModel::replies(["one two"]).delay(Duration::from_secs(3));
        model.respond(asked(&[]).streaming(), cx).await.unwrap();
        assert_eq!(started.elapsed(), Duration::from_secs(3));
        let words = ["one ", "two"].map(|word| Delta::Text(word.to_owned()));
        assert_eq!(*said.lock(), words);

        let token = CancellationToken::new();
        let id = ModelContext::detached();
        let cx = ModelContext::new(id.run(), id.operation(), 1, token.clone());
        let hanging = ScriptedModel::hanging();
        let pending = tokio::time::timeout(
            Duration::from_secs(60),
            hanging.respond(asked(&[]), cx.clone()),
        );
        assert!(pending.await.is_err());
        token.cancel();
        let error = hanging.respond(asked(&[]), cx).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Cancelled);
    }
}
