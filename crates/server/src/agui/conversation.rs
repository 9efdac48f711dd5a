//! The messages of a thread as the client has them.

use ghostlight_actors::{
    session::LoggedTurn,
    vocabulary::{Message, Part, Role},
};
use serde_json::{Value, json};

use super::event::{Event, Told};

/// The most bytes of messages that are kept for a snapshot. Past it no snapshot is sent.
const MOST: usize = 1 << 20;

/// The messages that the client has sent, and those that it was told since then.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// `None` for one that is too long.
    messages: Option<Vec<Value>>,
    bytes: usize,
}

impl Conversation {
    /// The messages that the client has sent.
    pub(super) fn new(messages: Vec<Value>) -> Self {
        let mut conversation = Self {
            messages: Some(Vec::new()),
            bytes: 0,
        };
        for message in messages {
            if message["role"] != "activity" {
                conversation.push(message);
            }
        }
        conversation
    }

    fn push(&mut self, message: Value) {
        self.bytes += size(&message);
        self.keep(message);
    }

    fn keep(&mut self, message: Value) {
        match &mut self.messages {
            Some(messages) if self.bytes <= MOST => messages.push(message),
            kept => *kept = None,
        }
    }

    fn last(&mut self, id: &str) -> Option<&mut Value> {
        let mut messages = self.messages.as_mut()?.iter_mut().rev();
        messages.find(|message| message["id"] == id)
    }

    /// Adds what the client was told.
    pub(super) fn hear(&mut self, told: &Told) {
        let of = |mut message: Value| {
            if let Some(run) = &told.subagent_run_id {
                message["subagentRunId"] = run.as_str().into();
            }
            message
        };
        match &told.event {
            Event::TextMessageStart {
                message_id, name, ..
            } => {
                let mut message = json!({ "id": message_id, "role": "assistant", "content": "" });
                if let Some(name) = name {
                    message["name"] = name.as_str().into();
                }
                self.push(of(message));
            }
            Event::TextMessageContent { message_id, delta } => {
                self.bytes += delta.len();
                if let Some(message) = self.last(message_id) {
                    let before = message["content"].as_str().unwrap_or_default();
                    message["content"] = format!("{before}{delta}").into();
                }
            }
            Event::ToolCallStart {
                tool_call_id,
                tool_call_name,
                parent_message_id,
            } => {
                let function = json!({ "name": tool_call_name, "arguments": "" });
                let call = json!({ "id": tool_call_id, "type": "function", "function": function });
                let parent = parent_message_id.as_ref().unwrap_or(tool_call_id);
                self.bytes += size(&call);
                match self.last(parent) {
                    Some(message) => match message["toolCalls"].as_array_mut() {
                        Some(calls) => calls.push(call),
                        None => message["toolCalls"] = json!([call]),
                    },
                    None => self.push(of(
                        json!({ "id": parent, "role": "assistant", "toolCalls": [call] }),
                    )),
                }
            }
            Event::ToolCallArgs {
                tool_call_id,
                delta,
            } => {
                self.bytes += delta.len();
                let messages = self.messages.iter_mut().flatten().rev();
                let mut calls = messages.filter_map(|message| message["toolCalls"].as_array_mut());
                let call = calls.find_map(|calls| {
                    let mut calls = calls.iter_mut();
                    calls.find(|call| call["id"] == tool_call_id.as_str())
                });
                if let Some(call) = call {
                    call["function"]["arguments"] = delta.as_str().into();
                }
            }
            Event::ToolCallResult {
                message_id,
                tool_call_id,
                content,
                ..
            } => self.push(of(
                json!({ "id": message_id, "role": "tool", "toolCallId": tool_call_id, "content": content }),
            )),
            _ => {}
        }
    }

    /// Removes a message that does not count.
    pub(super) fn forget(&mut self, id: &str) {
        if let Some(messages) = &mut self.messages {
            messages.retain(|message| message["id"] != id);
        }
    }

    /// All messages; `None` where they are too long to be sent again.
    pub(super) fn snapshot(&self) -> Option<Event> {
        let messages = self.messages.clone().filter(|_| self.bytes <= MOST)?;
        Some(Event::MessagesSnapshot { messages })
    }
}

/// An estimate of the size of a message in bytes.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 8,
        Value::Array(values) => values.iter().map(size).sum::<usize>() + 8,
        Value::Object(fields) => {
            let sizes = fields.iter().map(|(name, value)| name.len() + size(value));
            sizes.sum::<usize>() + 8
        }
        _ => 8,
    }
}

/// The messages of a session, and the turn that its open run carries.
pub(super) fn of_session(
    messages: impl IntoIterator<Item = impl AsRef<Message>>,
    open: Option<&LoggedTurn>,
) -> Vec<Value> {
    let mut all = Vec::new();
    for (number, message) in messages.into_iter().enumerate() {
        let message = message.as_ref();
        let id = format!("kept-{number}");
        let text = message.content();
        match message.role {
            Role::System => {}
            Role::User if message.synthetic => {}
            Role::User => all.push(json!({ "id": id, "role": "user", "content": text })),
            Role::Assistant => {
                let calls = message.tool_calls().map(|call| {
                    let arguments = call.arguments.text();
                    let function = json!({ "name": call.name, "arguments": arguments });
                    json!({ "id": call.id, "type": "function", "function": function })
                });
                let calls: Vec<Value> = calls.collect();
                let mut said = json!({ "id": id, "role": "assistant" });
                if !text.is_empty() {
                    said["content"] = text.into();
                }
                if !calls.is_empty() {
                    said["toolCalls"] = calls.into();
                }
                all.push(said);
            }
            Role::Tool => {
                for (place, part) in message.parts.iter().enumerate() {
                    if let Part::ToolResult(result) = part {
                        let (call, text) = (&result.call_id, &result.text);
                        all.push(json!({ "id": format!("{id}-{place}"), "role": "tool", "toolCallId": call, "content": text }));
                    }
                }
            }
        }
    }
    if let Some(turn) = open {
        all.push(json!({ "id": turn.turn, "role": "user", "content": turn.said }));
    }
    all
}
