//! The conversation of a leg that was broken off, read from its journal.
//!
//! A function that is cancelled or fails is dropped with the conversation in its variables. Its session
//! keeps a conversation that is read from the journal, by one rule, whether the process survived or not:
//! it has the messages of the models and the results of their calls, and a call without a recorded result
//! is told as interrupted. Of several texts in a row the last stays. What people said stands where the
//! function heard it.

use std::{collections::VecDeque, sync::Arc};

use super::{ChildResult, Leg, OperationLog, read_end, read_result, recorded_result::status_of};
use crate::{
    contract::{StoreError, StoredLine},
    vocabulary::{
        Entry, ErrorKind, Family, Message, ModelResponse, OperationError, OperationId, Part, Role,
        ToolCall, ToolResult, ToolStatus,
    },
};

/// The result of a call that has none in the journal.
const INTERRUPTED: &str = "Interrupted: this call has no recorded result.";

/// One answer of a model, and the results of its calls.
struct Said {
    /// The model operation.
    by: OperationId,
    message: Message,
    calls: Vec<(ToolCall, Option<ToolResult>)>,
    steering: Vec<Message>,
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
    let mut log = OperationLog::new();
    for stored in lines {
        let entry = stored.decode(&leg.run.into())?;
        let asked_by = log.add(stored.sequence, &entry);
        match entry {
            Entry::Heard { op, message, .. } if op.leg == leg.number => match said.last_mut() {
                Some(last) => last.steering.push(*message),
                None => before.push(Arc::new(*message)),
            },
            Entry::Completed {
                op, kind, result, ..
            } if op.leg == leg.number && Family::of(&kind) == Family::Model => {
                if let Some(response) = read_result::<ModelResponse>(&result) {
                    log.asked(op, &response.calls());
                    let step = u32::try_from(said.len() + 1).unwrap_or(u32::MAX);
                    said.push(Said::of(op, response, leg, step));
                }
            }
            entry => {
                let mut said = said.iter_mut().rev();
                if let Some(asked_by) = asked_by
                    && let Some(said) = said.find(|said| said.by == asked_by.model)
                    && let Some((call, result)) = said.calls.get_mut(asked_by.index as usize)
                    && let Some(end) = end_of(entry, call)
                {
                    *result = Some(end);
                }
            }
        }
    }
    Ok(conversation(said, before))
}

/// The result of a call by this entry about it. A part of a call that goes on is no end of the call.
fn end_of(entry: Entry, call: &ToolCall) -> Option<ToolResult> {
    let (kind, result) = match entry {
        Entry::CallAnswered { result, .. } => return Some(*result),
        Entry::Completed { kind, result, .. } => (kind, result),
        _ => return None,
    };
    let failed = |error: OperationError| match &error.kind {
        ErrorKind::Continues => None,
        kind => {
            let status = status_of(kind);
            Some(ToolResult::new(call, status, error.to_string()))
        }
    };
    match Family::of(&kind) {
        Family::Tool => read_end::<ToolResult>(&result)?.map_or_else(failed, Some),
        Family::Delegate => {
            let in_words = |child: ChildResult| {
                let (status, text) = in_words(child);
                Some(ToolResult::new(call, status, text))
            };
            read_end::<ChildResult>(&result)?.map_or_else(failed, in_words)
        }
        _ => None,
    }
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
    for stored in lines {
        let (family, name, result) = match stored.decode(&leg.run.into())? {
            Entry::Completed {
                op,
                kind,
                name,
                result,
                ..
            } if op.leg == leg.number => (Family::of(&kind), name, result),
            _ => continue,
        };
        let (by, text) = match family {
            Family::Model => {
                let said = read_result::<ModelResponse>(&result);
                has_calls |= said.as_ref().is_some_and(|said| !said.calls().is_empty());
                (None, said.map(|said| said.content()))
            }
            Family::Tool if !has_calls => {
                let result = read_result::<ToolResult>(&result);
                let result = result.filter(|result| result.status == ToolStatus::Success);
                (Some(name), result.map(|result| result.text))
            }
            Family::Delegate | Family::Join => {
                let child = read_result::<ChildResult>(&result);
                let outcome = child.and_then(|child| child.outcome.ok());
                let text = outcome.map(|outcome| outcome.text().to_owned());
                (Some(name), text)
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
    fn of(by: OperationId, response: ModelResponse, leg: &Leg, step: u32) -> Self {
        let mut message = Message::clone(&response.message).by(&*leg.agent.name);
        let calls = message.name_calls(step).into_iter();
        Self {
            by,
            calls: calls.map(|call| (call, None)).collect(),
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

/// The end of a delegated task, for the model that gave it.
fn in_words(child: ChildResult) -> (ToolStatus, String) {
    match &child.outcome {
        Ok(outcome) if outcome.stop_reason().is_none() => {
            (ToolStatus::Success, outcome.text().to_owned())
        }
        Ok(outcome) => {
            let reason = outcome.stop_reason().map(ToString::to_string);
            let text = format!("Stopped: {}.", reason.unwrap_or_default());
            (ToolStatus::Error, text)
        }
        Err(error) => (ToolStatus::Error, error.to_string()),
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
            let results = next.calls.into_iter().map(|(call, result)| {
                let interrupted = || ToolResult::new(&call, ToolStatus::Interrupted, INTERRUPTED);
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
