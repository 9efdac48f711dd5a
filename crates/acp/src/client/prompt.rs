//! One prompt to an agent: what it says, what it asks, and how it ends.

use std::{collections::BTreeMap, future::pending, pin::Pin, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::process::{Failure, Process, refuse};
use crate::{
    protocol::{
        Chunk, ContentBlock, OfSession, PermissionOutcome, PermissionRequest, PermissionResponse,
        PromptRequest, PromptResponse, SessionNotification, StopReason, ToolCallContent, Update,
    },
    translation::ASKS,
    wire::{Incoming, Peer, RequestError},
};

/// The most bytes of an answer.
const MAX_TEXT: usize = 1 << 20;
/// The most characters of a question, and of the label of an option.
const MAX_QUESTION: usize = 8_192;
const MAX_LABEL: usize = 200;
/// The most options of a question.
const MAX_OPTIONS: usize = 20;
/// How long an agent may take to end a prompt that was cancelled.
const PATIENCE: Duration = Duration::from_secs(4);

/// The question of the agent, and a person's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Answers {
    /// The option that was chosen, by the call that it permits.
    pub(super) permissions: BTreeMap<String, String>,
    /// The answers in words, by the operation that asked.
    pub(super) words: BTreeMap<String, String>,
}

/// The state of a prompt.
#[derive(Debug)]
pub(super) enum Ended {
    /// The agent has answered.
    Answered(String),
    /// It stopped, and why.
    Stopped(String),
    /// It asks which of these options is chosen, each with its id.
    Permission {
        call: String,
        question: String,
        options: Vec<(String, String)>,
    },
    /// It asks something that is answered in words.
    Words { operation: String, question: String },
    /// Nobody wants it any more.
    Cancelled,
    /// It took longer than its time.
    Late,
}

/// The last message that the agent says.
#[derive(Debug, Default)]
struct Message {
    id: Option<String>,
    text: String,
    left_out: usize,
    is_over: bool,
}

impl Message {
    fn push(&mut self, chunk: Chunk) {
        let is_other =
            self.id.is_some() && chunk.message_id.is_some() && self.id != chunk.message_id;
        if self.is_over || is_other {
            *self = Self::default();
        }
        self.id = chunk.message_id.or_else(|| self.id.take());
        let ContentBlock::Text { text } = chunk.content else {
            return;
        };
        let room = MAX_TEXT.saturating_sub(self.text.len());
        let end = text.floor_char_boundary(room);
        self.text.push_str(&text[..end]);
        self.left_out += text.len() - end;
    }

    fn into_text(self) -> String {
        let mut text = ghostlight_safety::sanitize(&self.text).into_owned();
        if self.left_out > 0 {
            text.push_str(&format!("\n\n[{} bytes were left out]", self.left_out));
        }
        text
    }
}

/// The bounds of a prompt.
pub(super) struct Bounds<'a> {
    pub(super) cancelled: &'a CancellationToken,
    pub(super) time: Duration,
}

/// A prompt that was sent, with the process that has it.
pub(super) struct UnderWay {
    process: Process,
    request: PromptRequest,
    asked: Response,
    message: Message,
    /// The permission request that waits for a person.
    waits: Option<(Value, PermissionRequest)>,
}

type Response = Pin<Box<dyn Future<Output = Result<PromptResponse, RequestError>> + Send>>;

fn send(peer: &Peer, request: &PromptRequest) -> Response {
    let (peer, request) = (peer.clone(), request.clone());
    Box::pin(async move { peer.request("session/prompt", &request).await })
}

impl UnderWay {
    /// A prompt to this process, in a session that it has opened. It is sent when it is followed.
    pub(super) fn new(process: Process, request: PromptRequest) -> Self {
        Self {
            asked: send(&process.peer, &request),
            process,
            request,
            message: Message::default(),
            waits: None,
        }
    }

    /// Whether it ends with its process: an agent that does not know prompts by name cannot be told it again when a person
    /// has answered, so its process waits for the answer.
    pub(super) fn ends_with_its_process(&self) -> bool {
        !self.process.knows_prompts()
    }

    /// Follows the prompt to its end, or to a question that these answers do not answer.
    pub(super) async fn follow(
        &mut self,
        answers: &Answers,
        bounds: &Bounds<'_>,
        mut shows: impl FnMut(&str),
    ) -> Result<Ended, Failure> {
        let deadline = Instant::now() + bounds.time;
        loop {
            let (response, text) = match self.said(answers, bounds, deadline, &mut shows).await? {
                Said::Response(response, text) => (response, text),
                Said::Ended(ended) => return Ok(ended),
            };
            let asks = response
                .meta
                .as_ref()
                .and_then(|meta| meta.get(ASKS)?.as_str())
                .filter(|_| self.process.knows_prompts());
            return Ok(match (asks, response.stop_reason) {
                (Some(operation), _) => match answers.words.get(operation) {
                    Some(words) => {
                        self.request.prompt = vec![ContentBlock::text(words.clone())];
                        // The answer names its question, so that it is not an answer to another one, and no turn.
                        self.request.meta = Some([(ASKS.to_owned(), operation.into())].into());
                        self.asked = send(&self.process.peer, &self.request);
                        continue;
                    }
                    None => Ended::Words {
                        operation: operation.to_owned(),
                        question: cut(&text, MAX_QUESTION),
                    },
                },
                (None, StopReason::EndTurn) => Ended::Answered(text),
                (None, StopReason::MaxTokens) => {
                    Ended::Stopped("its answer was cut off".to_owned())
                }
                (None, StopReason::MaxTurnRequests) => {
                    Ended::Stopped(format!("it reached a bound: {}", cut(&text, 500)))
                }
                (None, StopReason::Refusal) => {
                    Ended::Stopped("its model's provider held the answer back".to_owned())
                }
                (None, StopReason::Cancelled) if bounds.cancelled.is_cancelled() => {
                    Ended::Cancelled
                }
                (None, StopReason::Cancelled) if Instant::now() >= deadline => Ended::Late,
                (None, StopReason::Cancelled) => {
                    Ended::Stopped("it was cancelled by somebody else".to_owned())
                }
            });
        }
    }

    async fn said(
        &mut self,
        answers: &Answers,
        bounds: &Bounds<'_>,
        deadline: Instant,
        shows: &mut impl FnMut(&str),
    ) -> Result<Said, Failure> {
        // When the prompt is given up although it was told to end, and as what.
        let mut given_up: Option<(Instant, Ended)> = None;
        if let Some((id, wanted)) = self.waits.take() {
            if bounds.cancelled.is_cancelled() {
                self.cancel().await;
                given_up = Some((Instant::now() + PATIENCE, Ended::Cancelled));
            }
            if let Some(ended) = self.permit(id, wanted, answers, given_up.is_some()).await {
                return Ok(Said::Ended(ended));
            }
        }
        let result = loop {
            let ends_at = given_up.as_ref().map_or(deadline, |(at, _)| *at);
            let is_stopping = given_up.is_some();
            let cancelled = async {
                match is_stopping {
                    true => pending().await,
                    false => bounds.cancelled.cancelled().await,
                }
            };
            let why = tokio::select! {
                biased;
                heard = self.process.lines.next() => {
                    match heard {
                        Ok(Some(Incoming::Request { id, method, params })) if method == "session/request_permission" => {
                            let Ok(wanted) = serde_json::from_value::<PermissionRequest>(params) else {
                                refuse(&self.process.peer, &id, "a permission request in another form").await;
                                continue;
                            };
                            // An answer is for the one request that waited, where the prompt is not told again.
                            let none = Answers::default();
                            let answers = if self.ends_with_its_process() { &none } else { answers };
                            if let Some(ended) = self.permit(id, wanted, answers, is_stopping).await {
                                return Ok(Said::Ended(ended));
                            }
                        }
                        Ok(Some(Incoming::Request { id, method, .. })) => refuse(&self.process.peer, &id, &method).await,
                        Ok(Some(Incoming::Notification { params, .. })) => {
                            let told = serde_json::from_value::<SessionNotification>(params);
                            match told.map(|told| told.update) {
                                Ok(Update::AgentMessageChunk(chunk)) => {
                                    if let ContentBlock::Text { text } = &chunk.content {
                                        shows(&ghostlight_safety::sanitize(text));
                                    }
                                    self.message.push(chunk);
                                }
                                // What it says after a call is another message.
                                Ok(Update::ToolCall(_)) => self.message.is_over = true,
                                _ => {}
                            }
                        }
                        // One that answers and ends at once has answered.
                        Ok(None) => break (&mut self.asked).await,
                        Err(_) => return Err(self.process.lost().await),
                    }
                    continue;
                },
                result = &mut self.asked => break result,
                () = cancelled => Ended::Cancelled,
                () = sleep_until(ends_at) => match given_up {
                    Some((_, ended)) => return Ok(Said::Ended(ended)),
                    None => Ended::Late,
                },
            };
            self.cancel().await;
            given_up = Some((Instant::now() + PATIENCE, why));
        };
        let response = self.process.read(result).await?;
        let message = std::mem::take(&mut self.message);
        Ok(Said::Response(response, message.into_text()))
    }

    /// Answers a permission request, or keeps it and says what a person is to be asked. One that nobody will answer any more is
    /// answered as cancelled, as the protocol wants it.
    async fn permit(
        &mut self,
        id: Value,
        wanted: PermissionRequest,
        answers: &Answers,
        is_stopping: bool,
    ) -> Option<Ended> {
        let outcome = match decide(&wanted, answers) {
            Ok(outcome) => outcome,
            Err(_) if is_stopping => PermissionOutcome::Cancelled,
            Err(ended) => {
                self.waits = Some((id, wanted));
                return Some(ended);
            }
        };
        // Where the connection is closed, the next thing that is heard tells so.
        let response = serde_json::json!(PermissionResponse { outcome });
        let _ = self.process.peer.respond(&id, Ok(response)).await;
        None
    }

    /// Tells the agent to end what is under way in the session.
    async fn cancel(&mut self) {
        let which = OfSession {
            session_id: self.request.session_id.clone(),
        };
        let _ = self.process.peer.notify("session/cancel", &which).await;
    }

    /// Ends the process.
    pub(super) async fn end(self) {
        let Self { process, asked, .. } = self;
        drop(asked);
        process.end().await;
    }
}

enum Said {
    Response(PromptResponse, String),
    Ended(Ended),
}

/// The answer to a permission request, or the question that it needs.
fn decide(wanted: &PermissionRequest, answers: &Answers) -> Result<PermissionOutcome, Ended> {
    let call = &wanted.tool_call;
    let known = answers.permissions.get(&call.tool_call_id);
    let is_offered = |id: &&String| wanted.options.iter().any(|option| option.option_id == **id);
    if let Some(option_id) = known.filter(is_offered) {
        return Ok(PermissionOutcome::Selected {
            option_id: option_id.clone(),
        });
    }
    let mut question = call.title.clone().unwrap_or_default();
    for ToolCallContent::Content { content } in call.content.iter().flatten() {
        if let ContentBlock::Text { text } = content {
            question.push_str("\n\n");
            question.push_str(text);
        }
    }
    let mut options: Vec<(String, String)> = Vec::new();
    for option in wanted.options.iter().take(MAX_OPTIONS) {
        let label = ghostlight_safety::sanitize_line(&option.name, MAX_LABEL);
        // People tell options by their labels.
        if !label.is_empty() && options.iter().all(|(_, known)| *known != label) {
            options.push((option.option_id.clone(), label));
        }
    }
    if options.is_empty() {
        // There is nothing that a person could choose.
        return Ok(PermissionOutcome::Cancelled);
    }
    Err(Ended::Permission {
        call: call.tool_call_id.clone(),
        question: cut(&question, MAX_QUESTION),
        options,
    })
}

fn cut(text: &str, most: usize) -> String {
    let text = ghostlight_safety::sanitize(text);
    ghostlight_safety::cut(&text, most).into_owned()
}
