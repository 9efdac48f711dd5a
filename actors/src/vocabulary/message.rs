//! Messages of a conversation.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::{
    Deserialize, Serialize, Serializer,
    de::{DeserializeOwned, Error as _},
    ser::SerializeStruct as _,
};
use serde_json::Value;

use super::{Cause, Digest, ProviderPart, ProviderPartKind, UnknownPart, canonical, typed::typed};

/// The role of a message's author.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions.
    System,
    /// A person, or a substitute for one.
    User,
    /// The model.
    Assistant,
    /// The results of tool calls.
    Tool,
}

/// One message. Its parts keep the order in which they were said.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Message {
    /// The role of its author.
    pub role: Role,
    /// The agent that said it, if an agent did.
    pub author: Option<String>,
    /// The words that were said.
    pub parts: Vec<Part>,
    /// Whether the agent's loop made the message in a user's role: results in words, a nudge, a behavior's prompt. No
    /// turn begins with such a message. Journals keep the mark; providers do not see it, and no digest covers it.
    #[serde(default)]
    pub synthetic: bool,
}

/// JSON has the mark only where it is set; `bincode` needs every field.
impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_told = self.synthetic || !serializer.is_human_readable();
        let mut message = serializer.serialize_struct("Message", 3 + usize::from(is_told))?;
        message.serialize_field("role", &self.role)?;
        message.serialize_field("author", &self.author)?;
        message.serialize_field("parts", &self.parts)?;
        if is_told {
            message.serialize_field("synthetic", &self.synthetic)?;
        }
        message.end()
    }
}

impl Message {
    /// Gives each call whose id is empty or in use a new id, since results are matched by it, and lists the calls.
    /// The number of the step makes the ids differ between messages.
    pub fn name_calls(&mut self, step: u32) -> Vec<ToolCall> {
        if self.has_named_calls() {
            let mut calls = Vec::with_capacity(self.tool_calls().count());
            calls.extend(self.tool_calls().cloned());
            return calls;
        }
        let given: BTreeSet<String> = self.tool_calls().map(|call| call.id.clone()).collect();
        let mut taken = BTreeSet::new();
        let mut calls = Vec::new();
        for part in &mut self.parts {
            let Part::ToolCall(call) = part else { continue };
            if call.id.trim().is_empty() || taken.contains(&call.id) {
                let own = (calls.len()..)
                    .map(|place| format!("call_{step}_{place}"))
                    .find(|id| !given.contains(id) && !taken.contains(id));
                call.id = own.unwrap_or_default();
            }
            taken.insert(call.id.clone());
            calls.push(call.clone());
        }
        calls
    }

    /// Whether each call has an id of its own. Most messages have few calls; of many, names are looked up in a table.
    fn has_named_calls(&self) -> bool {
        const FEW: usize = 16;
        let earlier = |place| self.tool_calls().take(place);
        self.tool_calls().enumerate().all(|(place, call)| {
            let is_new = || earlier(place).all(|other| other.id != call.id);
            place < FEW && !call.id.trim().is_empty() && is_new()
        })
    }

    /// Leaves out each call that repeats an earlier one: its id, its tool and the value of its arguments, however it is
    /// written. Some servers send a call twice, and a tool that must run once would run twice. A call without an id
    /// repeats nothing.
    pub fn drop_repeated_calls(&mut self) {
        let mut seen: BTreeSet<(String, Digest)> = BTreeSet::new();
        self.retain_parts(|part| match part {
            Part::ToolCall(call) if !call.id.trim().is_empty() => {
                seen.insert((call.id.clone(), call.meaning()))
            }
            _ => true,
        });
    }

    /// Keeps the parts that fit, each with the fields that a provider wants back with it.
    pub fn retain_parts(&mut self, mut fits: impl FnMut(&Part) -> bool) {
        let mut is_kept = true;
        self.parts.retain(|part| {
            let goes_with_last =
                matches!(part, Part::Provider(own) if own.kind == ProviderPartKind::Fields);
            if !goes_with_last {
                is_kept = fits(part);
            }
            is_kept
        });
    }

    /// A message of one text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            author: None,
            parts: vec![Part::Text(text.into())],
            synthetic: false,
        }
    }

    /// A user's message.
    pub fn user(text: impl Into<String>) -> Self {
        Self::text(Role::User, text)
    }

    /// A message of an agent's loop in a user's role; see [`synthetic`](Self::synthetic).
    pub fn synthetic(text: impl Into<String>) -> Self {
        Self {
            synthetic: true,
            ..Self::user(text)
        }
    }

    /// A model's message.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::text(Role::Assistant, text)
    }

    /// The results of tool calls, in the order of the calls.
    pub fn results(results: impl IntoIterator<Item = ToolResult>) -> Self {
        let parts = results.into_iter().map(Part::ToolResult).collect();
        Self {
            role: Role::Tool,
            author: None,
            parts,
            synthetic: false,
        }
    }

    /// Whether it comes from outside of the agent: the beginning of a turn, or a steering message.
    pub fn is_from_user(&self) -> bool {
        self.role == Role::User && !self.synthetic
    }

    /// The same message, said by this agent.
    #[must_use]
    pub fn by(mut self, author: impl Into<String>) -> Self {
        self.author = Some(author.into());
        self
    }

    /// The text parts. Two that stand next to each other are joined by a line break. Between those of a model that
    /// another part separates (a citation, the use of a tool, reasoning) there is nothing: a provider ends a part in the
    /// middle of a sentence, and so this is the text as it was streamed.
    pub fn content(&self) -> String {
        let mut content = String::new();
        let mut follows = false;
        for part in &self.parts {
            match part {
                Part::Text(text) => {
                    if follows {
                        content.push('\n');
                    }
                    content.push_str(text);
                    follows = true;
                }
                _ => follows &= self.role != Role::Assistant,
            }
        }
        content
    }

    /// The tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The tool results, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolResult(result) => Some(result),
            _ => None,
        })
    }
}

/// One part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// Text for the reader.
    Text(String),
    /// A call of a tool that the model asks for.
    ToolCall(ToolCall),
    /// The answer of a tool.
    ToolResult(ToolResult),
    /// The model's reasoning, separate from its text.
    Reasoning(Reasoning),
    /// A file or other data.
    Data(Data),
    /// A part of a later version, kept as it came. Models do not see it.
    Unknown(UnknownPart),
    /// The part that only the provider that said it can read.
    Provider(ProviderPart),
}

impl Part {
    /// The text, when this is a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Reasoning that a model wrote before its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reasoning {
    /// The text, possibly empty where the provider hides it.
    pub text: String,
    /// The provider's proof of the reasoning, to be sent back unchanged.
    pub signature: Option<String>,
}

/// A model's request to call a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id, unique in its message; the result carries it too.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, as the model wrote them.
    pub arguments: Arguments,
    #[serde(skip)]
    pub(crate) cause: Cause,
}

impl ToolCall {
    /// A call with these arguments.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<Arguments>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            cause: Cause::default(),
        }
    }

    /// Where it comes from: which answer of a model, if the engine delivered it in one.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// The mark that distinguishes this call from others: a hash of the tool's name and the exact bytes of the arguments,
    /// without the id that the model gave. A decision about a call is bound to it. Arguments with few possible values
    /// can be guessed from it.
    pub fn digest(&self) -> Digest {
        Digest::of_parts(&[self.name.as_bytes(), self.arguments.text().as_bytes()])
    }

    /// The same for calls of one tool whose arguments have one value. Arguments without a value count as they are written.
    fn meaning(&self) -> Digest {
        match self.arguments.value() {
            Ok(value) => Digest::of_parts(&[self.name.as_bytes(), &canonical::to_vec(value)]),
            Err(_) => self.digest(),
        }
    }
}

/// Tool arguments: the JSON text that the model sent, parsed once and only when asked.
#[derive(Clone)]
pub struct Arguments(Arc<Text>);

struct Text {
    text: String,
    parsed: OnceLock<Result<Value, String>>,
}

impl Arguments {
    /// Keeps any text. An empty one stands for no arguments.
    pub fn from_text(text: impl Into<String>) -> Self {
        let (text, parsed) = (text.into(), OnceLock::new());
        Self(Arc::new(Text { text, parsed }))
    }

    /// The text as the model sent it.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The parsed value; blank text is an empty object. A text that names something twice in one object has no value, so
    /// that no reader acts on another value than the one that was checked, shown or approved.
    ///
    /// # Errors
    /// The fault of the text, and its place.
    pub fn value(&self) -> Result<&Value, &str> {
        let parsed = self.0.parsed.get_or_init(|| {
            let text = self.text();
            if text.trim().is_empty() {
                return Ok(Value::Object(serde_json::Map::new()));
            }
            ghostlight_safety::unambiguous_json(text.as_bytes()).map_err(|error| error.to_string())
        });
        parsed.as_ref().map_err(String::as_str)
    }

    /// The arguments as a type. A whole number counts as an integer however it is written (`2.0`), as JSON Schema has it, and
    /// `null` as left out where the type does not take it.
    ///
    /// # Errors
    /// The fault of the text, or the field that does not fit.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        let value = self.value().map_err(serde_json::Error::custom)?;
        typed(value)
    }
}

impl From<Value> for Arguments {
    fn from(value: Value) -> Self {
        // The text is in canonical form, since it distinguishes this call from others.
        let text = String::from_utf8(canonical::to_vec(&value)).unwrap_or_default();
        let parsed = OnceLock::from(Ok(value));
        Self(Arc::new(Text { text, parsed }))
    }
}

impl From<&str> for Arguments {
    fn from(text: &str) -> Self {
        Self::from_text(text)
    }
}

impl From<String> for Arguments {
    fn from(text: String) -> Self {
        Self::from_text(text)
    }
}

impl Eq for Arguments {}

impl PartialEq for Arguments {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl std::fmt::Debug for Arguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for Arguments {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// How a tool call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolStatus {
    /// It did what was asked.
    Success,
    /// It failed, and its text says why.
    Error,
    /// A person refused it.
    Denied,
    /// A policy held it back.
    Blocked,
    /// It was cancelled before it ended.
    Interrupted,
    /// It may or may not have happened: its end is unknown.
    Unknown,
}

/// The result of a tool call. Every call in a conversation has exactly one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// How it ended.
    pub status: ToolStatus,
    /// The text that the model reads.
    pub text: String,
    /// How many characters were cut off the text to keep the tool's output limit.
    pub truncated: u64,
    /// Files and other data beside the text.
    pub attachments: Vec<Data>,
    /// Whether the step ends here, without another model call.
    pub ends_step: bool,
}

impl ToolResult {
    /// A result of this call with this status and text.
    pub fn new(call: &ToolCall, status: ToolStatus, text: impl Into<String>) -> Self {
        Self {
            call_id: call.id.clone(),
            name: call.name.clone(),
            status,
            text: text.into(),
            truncated: 0,
            attachments: Vec::new(),
            ends_step: false,
        }
    }
}

/// A file or other data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    /// Its media type, such as `image/png`.
    pub media_type: String,
    /// Its name, for people.
    pub name: Option<String>,
    /// Where its bytes are.
    pub source: DataSource,
}

impl Data {
    /// The bytes, where the source has them; `None` where it is an address.
    ///
    /// # Errors
    /// The fault of the encoding.
    pub fn bytes(&self) -> Option<Result<Vec<u8>, String>> {
        match &self.source {
            DataSource::Base64(text) => {
                let bytes = BASE64.decode(text.trim());
                Some(bytes.map_err(|error| format!("no base64: {error}")))
            }
            DataSource::Url(_) => None,
        }
    }
}

/// Where the bytes of some data are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DataSource {
    /// The bytes themselves, in base64.
    Base64(String),
    /// At an address that the model's server can reach.
    Url(String),
}
