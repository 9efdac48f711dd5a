//! The conversation of a leg that was broken off, read from its journal.
//!
//! A function that is cancelled or fails is dropped with the conversation in its variables. Its session
//! keeps a conversation that is read from the journal, by one rule, whether the process survived or not:
//! it has the messages of the models and the results of their calls, and a call without a recorded result
//! is told as interrupted. Of several texts in a row the last stays. What people said stands where the
//! function heard it.

use std::{collections::VecDeque, sync::Arc};

use serde_json::value::RawValue;

use super::{ChildResult, Leg, operations, read_end, read_result};
use crate::{
    contract::{StoreError, StoredLine},
    definition::{CREATE_AGENT, delegate_tool},
    vocabulary::{
        CallDigest, Entry, ErrorKind, Family, Message, ModelResponse, OperationError, Part, Role,
        ToolCall, ToolResult, ToolStatus,
    },
};

/// The result of a call that has none in the journal.
const INTERRUPTED: &str = "Interrupted: this call has no recorded result.";

/// One answer of a model, and the results of its calls.
struct Said {
    message: Message,
    calls: Vec<AskedCall>,
    steering: Vec<Message>,
}

struct AskedCall {
    call: ToolCall,
    digest: CallDigest,
    result: Option<ToolResult>,
}

/// The conversation of the run's last leg, after these messages with which it began.
///
/// # Errors
/// When an entry does not read.
pub(crate) fn spoken(
    lines: &[StoredLine],
    leg: &Leg,
    before: Vec<Arc<Message>>,
) -> Result<Vec<Arc<Message>>, StoreError> {
    let mut said: Vec<Said> = Vec::new();
    let mut before = before;
    for past in past(lines, leg)? {
        let ended = match past {
            Past::Ended(ended) => ended,
            Past::Heard(message) => {
                match said.last_mut() {
                    Some(last) => last.steering.push(message),
                    None => before.push(Arc::new(message)),
                }
                continue;
            }
        };
        match ended.family {
            Family::Model => {
                if let Some(response) = read_result(&ended.result) {
                    let step = u32::try_from(said.len() + 1).unwrap_or(u32::MAX);
                    said.push(Said::of(response, leg, step));
                }
            }
            Family::Tool => {
                // A part of a call that goes on is no end of the call.
                if let Some(end) = read_end(&ended.result).filter(|end| !goes_on(end)) {
                    let end = end.map_or_else(CallEnd::failed, CallEnd::Of);
                    take_end(&mut said, (&ended.name, ended.digest), end);
                }
            }
            Family::Delegate => {
                if let Some(end) = read_end(&ended.result) {
                    let name = delegate_tool(&ended.name);
                    let end = end.map_or_else(CallEnd::failed, in_words);
                    take_end(&mut said, (&name, ended.digest), end);
                }
            }
            _ => {}
        }
    }
    Ok(conversation(said, before))
}

/// The partial answer of the run's last leg: the results of delegated tasks and of the function's own calls
/// that came after the model's last text, or else this text. Several results stand each under the name of
/// its agent or tool. Results of calls that a model asked for are left out, since they are for that model.
///
/// # Errors
/// When an entry does not read.
pub(crate) fn made(lines: &[StoredLine], leg: &Leg) -> Result<Option<String>, StoreError> {
    let mut made: Vec<(Option<String>, String)> = Vec::new();
    let mut has_calls = false;
    for past in past(lines, leg)? {
        let Past::Ended(ended) = past else { continue };
        let (by, text) = match ended.family {
            Family::Model => {
                let said = read_result::<ModelResponse>(&ended.result);
                has_calls |= said.as_ref().is_some_and(|said| !said.calls().is_empty());
                (None, said.map(|said| said.content()))
            }
            Family::Tool if !has_calls => {
                let result = read_result::<ToolResult>(&ended.result);
                let result = result.filter(|result| result.status == ToolStatus::Success);
                (Some(ended.name), result.map(|result| result.text))
            }
            Family::Delegate | Family::Join => {
                let child = read_result::<ChildResult>(&ended.result);
                let outcome = child.and_then(|child| child.outcome.ok());
                let text = outcome.map(|outcome| outcome.text().to_owned());
                (Some(ended.name), text)
            }
            _ => continue,
        };
        if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
            if by.is_none() {
                made.clear();
            }
            made.push((by, text));
        }
    }
    // The results of delegated tasks supersede the model's text before them.
    if made.len() > 1 {
        made.retain(|(by, _)| by.is_some());
    }
    if made.len() < 2 {
        return Ok(made.pop().map(|(_, text)| text));
    }
    let part = |(by, text): (Option<String>, String)| match by {
        Some(by) => format!("### {by}\n{text}"),
        None => text,
    };
    let parts: Vec<String> = made.into_iter().map(part).collect();
    Ok(Some(parts.join("\n\n")))
}

/// The recorded end of an operation.
struct Ended {
    family: Family,
    name: String,
    digest: CallDigest,
    result: Box<RawValue>,
}

/// What is recorded of a leg.
enum Past {
    /// An operation ended.
    Ended(Ended),
    /// The function heard what a person said.
    Heard(Message),
}

/// The operations of this leg that have ended, and what its function heard between them, in order.
fn past(lines: &[StoredLine], leg: &Leg) -> Result<Vec<Past>, StoreError> {
    let mut past = Vec::new();
    for stored in lines {
        match stored.decode(&leg.run.into())? {
            Entry::Completed {
                op,
                kind,
                name,
                digest,
                result,
                ..
            } if op.leg == leg.number => past.push(Past::Ended(Ended {
                family: Family::of(&kind),
                name,
                digest,
                result,
            })),
            Entry::Heard { op, message, .. } if op.leg == leg.number => {
                past.push(Past::Heard(*message));
            }
            _ => {}
        }
    }
    Ok(past)
}

/// Ends a conversation with a note, as a message of the agent's.
pub(crate) fn close_with(messages: &mut Vec<Arc<Message>>, note: Message) {
    match messages.last() {
        // Some providers refuse two messages of an assistant in a row.
        Some(last) if last.role == Role::Assistant && last.tool_calls().next().is_none() => {
            let mut joined = Message::clone(last);
            joined.parts.extend(note.parts);
            messages.pop();
            messages.push(Arc::new(joined));
        }
        _ => messages.push(Arc::new(note)),
    }
}

impl Said {
    fn of(response: ModelResponse, leg: &Leg, step: u32) -> Self {
        let mut message = Message::clone(&response.message).by(&*leg.agent.name);
        let calls = message.name_calls(step).into_iter();
        let asked = |call: ToolCall| AskedCall {
            digest: digest_of(leg, &call),
            call,
            result: None,
        };
        Self {
            calls: calls.map(asked).collect(),
            message,
            steering: response.steering,
        }
    }

    fn says_something(&self) -> bool {
        let mut parts = self.message.parts.iter();
        !self.calls.is_empty()
            || parts.any(|part| match part {
                Part::Text(text) => !text.trim().is_empty(),
                Part::Data(_) => true,
                _ => false,
            })
    }
}

/// The digest that the call's operation has.
fn digest_of(leg: &Leg, call: &ToolCall) -> CallDigest {
    match operations::delegation_digest(leg, call) {
        Some(digest) => digest.into(),
        None => operations::tool_digest(&call.name, call.arguments.text()).into(),
    }
}

/// Gives an operation's end to the call that asked for it: of those that fit, the latest that
/// has none yet.
fn take_end(said: &mut [Said], (name, digest): (&str, CallDigest), end: CallEnd) {
    for said in said.iter_mut().rev() {
        let fits = |call: &ToolCall, asked: CallDigest| match &end {
            // A person who approved it may have changed its arguments.
            // The function's own calls may have the ids of a model's.
            CallEnd::Of(result) => call.id == result.call_id && call.name == result.name,
            // The digest of an agent that was made tells its name too.
            CallEnd::Words(..) => {
                asked == digest && (call.name == name || call.name == CREATE_AGENT)
            }
        };
        let open = said.calls.iter_mut().filter(|asked| asked.result.is_none());
        let mut of_it = open.filter(|asked| fits(&asked.call, asked.digest));
        if let Some(asked) = of_it.next() {
            asked.result = Some(match end {
                CallEnd::Of(result) => *result,
                CallEnd::Words(status, text) => ToolResult::new(&asked.call, status, text),
            });
            return;
        }
    }
}

fn goes_on(end: &Result<Box<ToolResult>, OperationError>) -> bool {
    let error = end.as_ref().err();
    error.is_some_and(|error| error.kind == ErrorKind::Continues)
}

/// The end of a call.
enum CallEnd {
    Of(Box<ToolResult>),
    Words(ToolStatus, String),
}

impl CallEnd {
    fn failed(error: OperationError) -> Self {
        Self::Words(operations::status_of(&error.kind), error.to_string())
    }
}

fn in_words(child: ChildResult) -> CallEnd {
    match &child.outcome {
        Ok(outcome) if outcome.stop_reason().is_none() => {
            CallEnd::Words(ToolStatus::Success, outcome.text().to_owned())
        }
        Ok(outcome) => {
            let reason = outcome.stop_reason().map(ToString::to_string);
            let text = format!("Stopped: {}.", reason.unwrap_or_default());
            CallEnd::Words(ToolStatus::Error, text)
        }
        Err(error) => CallEnd::Words(ToolStatus::Error, error.to_string()),
    }
}

fn conversation(said: Vec<Said>, before: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    let mut messages = before;
    let matters = |said: &Said| said.says_something() || !said.steering.is_empty();
    let mut said: VecDeque<Said> = said.into_iter().filter(matters).collect();
    while let Some(next) = said.pop_front() {
        let asks = !next.calls.is_empty();
        let superseded = !asks && next.steering.is_empty() && !said.is_empty();
        if superseded {
            continue;
        }
        if next.says_something() {
            messages.push(Arc::new(next.message));
        }
        if asks {
            let results = next
                .calls
                .into_iter()
                .map(|AskedCall { call, result, .. }| {
                    let interrupted =
                        || ToolResult::new(&call, ToolStatus::Interrupted, INTERRUPTED);
                    let mut result = result.unwrap_or_else(interrupted);
                    result.call_id.clone_from(&call.id);
                    result
                });
            messages.push(Arc::new(Message::results(results)));
        }
        messages.extend(next.steering.into_iter().map(Arc::new));
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::ToolCall;

    #[test]
    fn a_note_joins_what_an_agent_said_last_and_follows_everything_else() {
        let said = Message::assistant("I begin.");
        let mut calls = said.clone();
        calls
            .parts
            .push(Part::ToolCall(ToolCall::new("1", "look", "{}")));
        let cases = [
            (said, vec!["I begin.\n[ended]"]),
            (calls, vec!["I begin.", "[ended]"]),
            (Message::user("Go."), vec!["Go.", "[ended]"]),
        ];
        for (last, expected) in cases {
            let mut messages = vec![Arc::new(last)];
            close_with(&mut messages, Message::assistant("[ended]"));
            let texts: Vec<String> = messages.iter().map(|message| message.content()).collect();
            assert_eq!(texts, expected);
        }
    }
}
