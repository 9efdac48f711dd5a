//! The messages of a request.

use ghostlight_actors::vocabulary::{
    Data, DataSource, Message, ModelRequest, Part, Role, ToolCall,
};
use serde::{Serialize, Serializer, ser::SerializeSeq};
use serde_json::{Map, Value, json};

use super::{
    reasoning::{Field, Returned, Server},
    settings::ReturnReasoning,
};
use crate::http::{CallIds, GO_ON, in_words, legal};

/// The system prompt and the conversation.
pub(super) struct Messages<'a> {
    pub(super) request: &'a ModelRequest,
    pub(super) returned: ReturnReasoning,
    pub(super) server: &'a Server,
    /// The ids of calls that the server takes.
    pub(super) ids: CallIds,
    /// Whether the server wants something of the model between results and what a person says, and nothing of it at the end.
    pub(super) strict_turns: bool,
}

/// A word of the model's between results and what a person says, where a server wants one.
const TAKEN_NOTE: &str = "OK.";

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        if !self.request.instructions.is_empty() {
            list.serialize_element(&one_text("system", &self.request.instructions))?;
        }
        // Results must directly follow their calls and can hold only text, so their attachments
        // come after the last result.
        let mut attached = Vec::new();
        let mut last = Role::System;
        for message in legal(&self.request.conversation, self.ids, &self.server.name) {
            if message.role != Role::Tool {
                let speaks = message.role == Role::User;
                self.put_attached(&mut list, &mut attached, (last, speaks))?;
            }
            self.put(&mut list, &message, &mut attached)?;
            last = message.role;
        }
        self.put_attached(&mut list, &mut attached, (last, false))?;
        if self.strict_turns && last == Role::Assistant {
            list.serialize_element(&one_text("user", GO_ON))?;
        }
        list.end()
    }
}

impl Messages<'_> {
    /// Puts the files of results after the last of them. `speaks` says whether a person speaks next.
    fn put_attached<L: SerializeSeq>(
        &self,
        list: &mut L,
        parts: &mut Vec<Value>,
        (last, speaks): (Role, bool),
    ) -> Result<(), L::Error> {
        if self.strict_turns && last == Role::Tool && (speaks || !parts.is_empty()) {
            list.serialize_element(&one_text("assistant", TAKEN_NOTE))?;
        }
        if parts.is_empty() {
            return Ok(());
        }
        let content = Some(Content::Parts(std::mem::take(parts)));
        list.serialize_element(&Sent {
            content,
            ..Sent::new("user")
        })
    }

    fn put<L: SerializeSeq>(
        &self,
        list: &mut L,
        message: &Message,
        attached: &mut Vec<Value>,
    ) -> Result<(), L::Error> {
        for result in message.tool_results() {
            let content = Some(Content::Text(&result.text));
            let id = Some(result.call_id.as_str());
            list.serialize_element(&Sent {
                content,
                tool_call_id: id,
                ..Sent::new("tool")
            })?;
            if !result.attachments.is_empty() {
                let origin = format!("Attached to the result of {}:", result.name);
                attached.push(json!({"type": "text", "text": origin}));
                attached.extend(result.attachments.iter().map(attachment));
            }
        }
        match message.role {
            Role::Tool => Ok(()),
            Role::System => list.serialize_element(&said("system", message)),
            Role::User => list.serialize_element(&said("user", message)),
            Role::Assistant => self.put_answer(list, message),
        }
    }

    /// A message of the model: its text, reasoning and calls.
    fn put_answer<L: SerializeSeq>(&self, list: &mut L, message: &Message) -> Result<(), L::Error> {
        let always = self.returned == ReturnReasoning::Always;
        let mut returned = Returned::of(message, self.server, always);
        let thought = std::mem::take(&mut returned.text);
        let calls: Vec<Call<'_>> = message
            .tool_calls()
            .map(|call| Call::new(call, &returned, self.ids))
            .collect();
        let is_sent = match self.returned {
            ReturnReasoning::Never => false,
            ReturnReasoning::Always => true,
            _ => !calls.is_empty(),
        };
        let is_sent = is_sent && !thought.is_empty() && returned.fields.is_empty();
        let text = said_by_model(message);
        // A message with calls may have no content; a message without calls must have some.
        let content = (calls.is_empty() || !text.is_empty()).then_some(Content::Text(&text));
        let own = returned.field.filter(|_| is_sent);
        let under = |field: Field| (own == Some(field)).then_some(thought.as_str());
        let content = match under(Field::Content) {
            Some(thought) => Some(Content::Parts(thinking_parts(thought, &text))),
            None => content,
        };
        list.serialize_element(&Sent {
            content,
            tool_calls: calls,
            reasoning_content: under(Field::ReasoningContent),
            reasoning: under(Field::Reasoning),
            returned: returned.fields,
            ..Sent::new("assistant")
        })
    }
}

/// The text of an answer. No server takes files from its model, so they are told in words.
fn said_by_model(message: &Message) -> String {
    let mut text = message.content();
    for part in &message.parts {
        if let Part::Data(data) = part {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&in_words(data));
        }
    }
    text
}

/// The content of an answer among whose parts its reasoning came.
fn thinking_parts(thought: &str, text: &str) -> Vec<Value> {
    let mut parts =
        vec![json!({"type": "thinking", "thinking": [{"type": "text", "text": thought}]})];
    if !text.is_empty() {
        parts.push(json!({"type": "text", "text": text}));
    }
    parts
}

/// A message of one text.
fn one_text<'a>(role: &'static str, text: &'a str) -> Sent<'a> {
    Sent {
        content: Some(Content::Text(text)),
        ..Sent::new(role)
    }
}

/// A message that is not the model's: as a plain text, which every server reads, or with
/// attachments as a list of parts.
fn said<'a>(role: &'static str, message: &'a Message) -> Sent<'a> {
    let content = match &message.parts[..] {
        [Part::Text(text)] => Content::Text(text),
        parts => {
            let to_value = |part: &Part| match part {
                Part::Text(text) => Some(json!({"type": "text", "text": text})),
                Part::Data(data) => Some(attachment(data)),
                _ => None,
            };
            let has_data = parts.iter().any(|part| matches!(part, Part::Data(_)));
            match has_data {
                true => Content::Parts(parts.iter().filter_map(to_value).collect()),
                false => Content::Joined(message.content()),
            }
        }
    };
    Sent {
        content: Some(content),
        ..Sent::new(role)
    }
}

/// A part for a file: embedded data in its own form, a link to an image as an image, and any other
/// link as text, because no server accepts it otherwise.
fn attachment(data: &Data) -> Value {
    let kind = data.media_type.as_str();
    let name = data.name.as_deref().unwrap_or("attachment");
    match &data.source {
        DataSource::Url(url) if kind.starts_with("image/") => {
            json!({"type": "image_url", "image_url": {"url": url}})
        }
        DataSource::Url(url) => {
            json!({"type": "text", "text": format!("[{name} ({kind}): {url}]")})
        }
        DataSource::Base64(bytes) if kind.starts_with("image/") => {
            json!({"type": "image_url", "image_url": {"url": format!("data:{kind};base64,{bytes}")}})
        }
        DataSource::Base64(bytes) if kind.starts_with("audio/") => {
            let format = match kind.trim_start_matches("audio/") {
                "mpeg" => "mp3",
                "x-wav" | "wave" => "wav",
                other => other,
            };
            json!({"type": "input_audio", "input_audio": {"data": bytes, "format": format}})
        }
        DataSource::Base64(bytes) => {
            let data = format!("data:{kind};base64,{bytes}");
            json!({"type": "file", "file": {"filename": name, "file_data": data}})
        }
        _ => json!({"type": "text", "text": format!("[{name} ({kind}) cannot be shown]")}),
    }
}

/// A message in the form in which it is sent.
#[derive(Serialize)]
struct Sent<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a str>,
    #[serde(flatten)]
    returned: Map<String, Value>,
}

impl Sent<'_> {
    fn new(role: &'static str) -> Self {
        Self {
            role,
            content: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            reasoning_content: None,
            reasoning: None,
            returned: Map::new(),
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Joined(String),
    Parts(Vec<Value>),
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: CallFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<Value>,
}

#[derive(Serialize)]
struct CallFunction<'a> {
    name: &'a str,
    arguments: std::borrow::Cow<'a, str>,
}

impl<'a> Call<'a> {
    fn new(call: &'a ToolCall, returned: &Returned, ids: CallIds) -> Self {
        // Several servers parse the arguments of past calls. If a model once wrote anything but an
        // object, they would refuse the conversation for ever.
        let text = call.arguments.text();
        let arguments = match call.arguments.value() {
            Ok(Value::Object(_)) if !text.trim().is_empty() => text.into(),
            Ok(Value::Object(_)) => "{}".into(),
            _ => json!({"unreadable_arguments": text}).to_string().into(),
        };
        Self {
            id: &call.id,
            r#type: "function",
            function: CallFunction {
                name: &call.name,
                arguments,
            },
            extra_content: returned.of_call(&call.id, ids).cloned(),
        }
    }
}
