//! One prompt to an agent: what it says, what it asks, and how it ends.

use std::{collections::BTreeMap, future::pending, time::Duration};

use ghostlight_actors::safety;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::process::{Failure, Process, refuse};
use crate::{
    protocol::{
        Chunk, ContentBlock, OfSession, PermissionKind, PermissionOption, PermissionOutcome,
        PermissionRequest, PermissionResponse, PromptRequest, PromptResponse, SessionNotification,
        StopReason, ToolCallContent, Update,
    },
    translation::ASKS,
    wire::{Incoming, Peer},
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

/// What the agent asked, and what a person answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Answers {
    /// The option that was chosen, by the call that it permits.
    pub(super) permissions: BTreeMap<String, String>,
    /// The answers in words, by the operation that asked.
    pub(super) words: BTreeMap<String, String>,
}

/// What a prompt has come to.
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
        let end = (0..=room.min(text.len()))
            .rev()
            .find(|at| text.is_char_boundary(*at));
        let end = end.unwrap_or(0);
        self.text.push_str(&text[..end]);
        self.left_out += text.len() - end;
    }

    fn into_text(self) -> String {
        let mut text = safety::sanitize(&self.text).into_owned();
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

/// Sends a prompt and follows it to its end, or to a question that these answers do not answer. An agent that does not
/// know prompts by name loses the prompt with its process, so it is given no permission that a person would have to be
/// asked for.
pub(super) async fn prompt(
    process: &mut Process,
    request: &PromptRequest,
    answers: &Answers,
    bounds: &Bounds<'_>,
    mut shows: impl FnMut(&str),
) -> Result<Ended, Failure> {
    let deadline = Instant::now() + bounds.time;
    let mut request = request.clone();
    loop {
        let (response, text) =
            match said(process, &request, answers, bounds, deadline, &mut shows).await? {
                Said::Response(response, text) => (response, text),
                Said::Ended(ended) => return Ok(ended),
            };
        let asks = response
            .meta
            .as_ref()
            .and_then(|meta| meta.get(ASKS)?.as_str());
        return Ok(match (asks, response.stop_reason) {
            (Some(operation), _) => match answers.words.get(operation) {
                Some(words) => {
                    request = PromptRequest {
                        session_id: request.session_id,
                        prompt: vec![ContentBlock::text(words.clone())],
                        // The answer names its question, so that it is no answer to another one, and no turn.
                        meta: Some([(ASKS.to_owned(), operation.into())].into()),
                    };
                    continue;
                }
                None => Ended::Words {
                    operation: operation.to_owned(),
                    question: cut(&text, MAX_QUESTION),
                },
            },
            (None, StopReason::EndTurn) => Ended::Answered(text),
            (None, StopReason::MaxTokens) => Ended::Stopped("its answer was cut off".to_owned()),
            (None, StopReason::MaxTurnRequests) => {
                Ended::Stopped(format!("it reached a bound: {}", cut(&text, 500)))
            }
            (None, StopReason::Refusal) => {
                Ended::Stopped("its model's provider held the answer back".to_owned())
            }
            (None, StopReason::Cancelled) if bounds.cancelled.is_cancelled() => Ended::Cancelled,
            (None, StopReason::Cancelled) if Instant::now() >= deadline => Ended::Late,
            (None, StopReason::Cancelled) => {
                Ended::Stopped("it was cancelled by somebody else".to_owned())
            }
        });
    }
}

enum Said {
    Response(PromptResponse, String),
    Ended(Ended),
}

async fn said(
    process: &mut Process,
    request: &PromptRequest,
    answers: &Answers,
    bounds: &Bounds<'_>,
    deadline: Instant,
    shows: &mut impl FnMut(&str),
) -> Result<Said, Failure> {
    let mut message = Message::default();
    let (peer, knows_prompts) = (process.peer.clone(), process.knows_prompts());
    let asked = peer.request::<PromptResponse>("session/prompt", request);
    tokio::pin!(asked);
    // When the prompt is given up although it was told to end, and as what.
    let mut given_up: Option<(Instant, Ended)> = None;
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
            heard = process.lines.next() => {
                match heard {
                    Ok(Some(Incoming::Request { id, method, params })) if method == "session/request_permission" => {
                        let Ok(wanted) = serde_json::from_value::<PermissionRequest>(params) else {
                            refuse(&peer, &id, "a permission request in another form").await;
                            continue;
                        };
                        match decide(&wanted, answers, knows_prompts) {
                            Ok(outcome) => {
                                let _ = peer.respond(&id, Ok(serde_json::json!(PermissionResponse { outcome }))).await;
                            }
                            Err(_) if is_stopping => {}
                            Err(ended) => return Ok(Said::Ended(ended)),
                        }
                    }
                    Ok(Some(Incoming::Request { id, method, .. })) => refuse(&peer, &id, &method).await,
                    Ok(Some(Incoming::Notification { params, .. })) => {
                        let told = serde_json::from_value::<SessionNotification>(params);
                        match told.map(|told| told.update) {
                            Ok(Update::AgentMessageChunk(chunk)) => {
                                if let ContentBlock::Text { text } = &chunk.content {
                                    shows(&safety::sanitize(text));
                                }
                                message.push(chunk);
                            }
                            // What it says after a call is another message.
                            Ok(Update::ToolCall(_)) => message.is_over = true,
                            _ => {}
                        }
                    }
                    // One that answers and ends at once has answered.
                    Ok(None) => break (&mut asked).await,
                    Err(_) => return Err(process.lost().await),
                }
                continue;
            },
            result = &mut asked => break result,
            () = cancelled => Ended::Cancelled,
            () = sleep_until(ends_at) => match given_up {
                Some((_, ended)) => return Ok(Said::Ended(ended)),
                None => Ended::Late,
            },
        };
        cancel(&peer, &request.session_id).await;
        given_up = Some((Instant::now() + PATIENCE, why));
    };
    let response = process.read(result).await?;
    Ok(Said::Response(response, message.into_text()))
}

/// Tells the agent to end what is under way in a session.
async fn cancel(peer: &Peer, session: &str) {
    let which = OfSession {
        session_id: session.to_owned(),
    };
    // Where the connection is closed, the next thing that is heard tells so.
    let _ = peer.notify("session/cancel", &which).await;
}

/// The answer to a permission request, or the question that it needs.
fn decide(
    wanted: &PermissionRequest,
    answers: &Answers,
    may_ask: bool,
) -> Result<PermissionOutcome, Ended> {
    let call = &wanted.tool_call;
    let known = answers.permissions.get(&call.tool_call_id);
    let is_offered = |id: &&String| wanted.options.iter().any(|option| option.option_id == **id);
    if let Some(option_id) = known.filter(is_offered) {
        return Ok(PermissionOutcome::Selected {
            option_id: option_id.clone(),
        });
    }
    if !may_ask {
        let rejects = |option: &&PermissionOption| option.kind == PermissionKind::RejectOnce;
        return Ok(match wanted.options.iter().find(rejects) {
            Some(option) => PermissionOutcome::Selected {
                option_id: option.option_id.clone(),
            },
            None => PermissionOutcome::Cancelled,
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
        let label = safety::sanitize_line(&option.name, MAX_LABEL);
        // People tell options by their labels.
        if !label.is_empty() && options.iter().all(|(_, known)| *known != label) {
            options.push((option.option_id.clone(), label));
        }
    }
    Err(Ended::Permission {
        call: call.tool_call_id.clone(),
        question: cut(&question, MAX_QUESTION),
        options,
    })
}

fn cut(text: &str, most: usize) -> String {
    let text = safety::sanitize(text);
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}
