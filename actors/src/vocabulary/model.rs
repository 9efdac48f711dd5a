//! Requests to models and their answers.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Digest, Message, ToolCall, ToolDefinition, Transcript, Usage, canonical};

/// A request to a model. Cloning it shares its parts.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ModelRequest {
    /// The registered name of the model; empty for the agent's own model.
    pub model: Arc<str>,
    /// The system prompt.
    pub instructions: Arc<str>,
    /// The conversation.
    pub conversation: Transcript,
    /// The tools that the model may call.
    pub tools: ToolSet,
    /// Sampling and limits.
    pub settings: Arc<ModelSettings>,
    /// The schema that the answer must fit.
    pub output: Option<Arc<OutputSchema>>,
    /// Whether deltas are wanted while the answer is made.
    pub stream: bool,
    /// The texts that only retell what was said before. Neither a server nor the digest sees this.
    pub retold: Retold,
}

/// The texts of a request that only retell what was said before, so that they are not judged as new ones. The code that
/// makes them says so: nothing that a text says about itself makes it one of them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Retold {
    /// None of them.
    #[default]
    Nothing,
    /// This many parts at the beginning of the first message: they stand for messages that are left out.
    Head(usize),
    /// All of them: the request asks to sum these messages up. It is one message, whose parts behind the first tell one of
    /// them each.
    Messages(Arc<[Arc<Message>]>),
}

impl Retold {
    /// Whether a part of a message is such a text, by their places.
    pub fn covers(&self, message: usize, part: usize) -> bool {
        match self {
            Self::Nothing => false,
            Self::Head(parts) => message == 0 && part < *parts,
            Self::Messages(_) => true,
        }
    }
}

impl ModelRequest {
    /// A request with this conversation and nothing else.
    pub fn new(conversation: Transcript) -> Self {
        static NO_SETTINGS: LazyLock<Arc<ModelSettings>> = LazyLock::new(Arc::default);
        Self {
            model: Arc::default(),
            instructions: Arc::default(),
            conversation,
            tools: ToolSet::default(),
            settings: NO_SETTINGS.clone(),
            output: None,
            stream: false,
            retold: Retold::Nothing,
        }
    }

    /// Sets the registered name of the model.
    #[must_use]
    pub fn model(mut self, name: impl Into<Arc<str>>) -> Self {
        self.model = name.into();
        self
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<Arc<str>>) -> Self {
        self.instructions = text.into();
        self
    }

    /// Sets the tools that the model may call.
    #[must_use]
    pub fn tools(mut self, tools: ToolSet) -> Self {
        self.tools = tools;
        self
    }

    /// Sets sampling and limits.
    #[must_use]
    pub fn settings(mut self, settings: impl Into<Arc<ModelSettings>>) -> Self {
        self.settings = settings.into();
        self
    }

    /// Sets the schema that the answer must fit.
    #[must_use]
    pub fn output(mut self, schema: impl Into<Arc<OutputSchema>>) -> Self {
        self.output = Some(schema.into());
        self
    }

    /// Asks for deltas while the answer is made; they reach event streams as previews.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.stream = true;
        self
    }

    /// The digest of this request: of the model, the prompt, the conversation's rolling digest, the tools, the
    /// settings and the answer's schema. Whether the answer is streamed does not matter.
    pub fn digest(&self) -> Digest {
        // Most requests have no settings; the default settings count as no bytes.
        let settings = if *self.settings == ModelSettings::default() {
            Vec::new()
        } else {
            canonical::to_vec(&*self.settings)
        };
        let output = match &self.output {
            Some(output) => canonical::to_vec(&**output),
            None => Vec::new(),
        };
        Digest::of_parts(&[
            self.model.as_bytes(),
            self.instructions.as_bytes(),
            &self.conversation.digest().0,
            &self.tools.digest().0,
            &settings,
            &output,
        ])
    }
}

/// Sampling and limits. What is `None` is left to the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelSettings {
    /// Randomness of the answer, from 0.
    pub temperature: Option<f32>,
    /// Nucleus sampling: the share of probability that is kept, from 0 to 1.
    pub top_p: Option<f32>,
    /// The most tokens of an answer.
    pub max_tokens: Option<u32>,
    /// Texts at which the answer stops.
    pub stop: Vec<String>,
    /// Seed of the sampling, where the server has one.
    pub seed: Option<i64>,
    /// How hard a reasoning model thinks, in the server's words (`low`, `medium`, `high`).
    pub reasoning_effort: Option<String>,
    /// Whether and which tool must be called.
    pub tool_choice: Option<ToolChoice>,
    /// Whether the model may ask for several tools in one answer.
    pub parallel_tool_calls: Option<bool>,
    /// Further fields of the request body, for servers that know more.
    pub extra: BTreeMap<String, Value>,
}

/// Whether a model must call a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// No tool may be called.
    None,
    /// Some tool must be called.
    Required,
    /// This tool must be called.
    Tool(String),
}

/// The tools of a request, hashed once. Cloning shares them.
#[derive(Clone, Debug)]
pub struct ToolSet {
    tools: Arc<[Arc<ToolDefinition>]>,
    digest: Digest,
}

impl ToolSet {
    /// The tools, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<ToolDefinition>> {
        self.tools.iter()
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<ToolDefinition>> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The hash of all definitions.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

impl Default for ToolSet {
    fn default() -> Self {
        static NO_TOOLS: LazyLock<Arc<[Arc<ToolDefinition>]>> = LazyLock::new(Arc::default);
        let (tools, digest) = (NO_TOOLS.clone(), Digest([0; 32]));
        Self { tools, digest }
    }
}

impl<T: Into<Arc<ToolDefinition>>> FromIterator<T> for ToolSet {
    fn from_iter<I: IntoIterator<Item = T>>(tools: I) -> Self {
        let tools: Arc<[Arc<ToolDefinition>]> = tools.into_iter().map(Into::into).collect();
        let digest = if tools.is_empty() {
            Digest([0; 32])
        } else {
            let json = |tool: &Arc<ToolDefinition>| canonical::to_vec(&**tool);
            let parts: Vec<Vec<u8>> = tools.iter().map(json).collect();
            Digest::of_parts(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        Self { tools, digest }
    }
}

/// A JSON Schema that a model's answer must fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputSchema {
    /// A name for the server.
    pub name: String,
    /// The schema.
    pub schema: Value,
    /// Whether the server is asked to enforce the schema.
    pub strict: bool,
}

/// Why a model stopped. Servers disagree about it, so nothing depends on it alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// It said all it had to say.
    Stop,
    /// It reached the bound on tokens.
    Length,
    /// It asks for tools.
    ToolCalls,
    /// The server held its answer back.
    ContentFilter,
    /// A word of the server's own, or none.
    #[default]
    Unknown,
    /// A word of the server's own.
    Other(String),
}

/// A model's answer, whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelResponse {
    /// What the model said: text, reasoning and tool calls.
    pub message: Arc<Message>,
    /// Why it stopped.
    pub finish: FinishReason,
    /// What it consumed, over all attempts of this call that reported it.
    pub usage: Usage,
    /// The server's name of the model that answered.
    pub model: String,
    /// How many attempts were made.
    pub attempts: u32,
    /// How long the call took, retries included, in milliseconds.
    pub latency_ms: u64,
    /// What people said to the run (`Run::steer`) while the model answered, or before, if the function did not
    /// [take it](crate::run::RunContext::hear) for its request. It belongs after the results of this answer's tool
    /// calls.
    pub steering: Vec<Message>,
}

impl ModelResponse {
    /// An answer with this message.
    pub fn new(message: impl Into<Arc<Message>>) -> Self {
        Self {
            message: message.into(),
            finish: FinishReason::Unknown,
            usage: Usage::default(),
            model: String::new(),
            attempts: 1,
            latency_ms: 0,
            steering: Vec::new(),
        }
    }

    /// An answer of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            finish: FinishReason::Stop,
            ..Self::new(Message::assistant(text))
        }
    }

    /// An answer that asks for tools.
    pub fn tool_calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        let parts = calls.into_iter().map(super::Part::ToolCall).collect();
        let message = Message {
            role: super::Role::Assistant,
            author: None,
            parts,
            synthetic: false,
        };
        Self {
            finish: FinishReason::ToolCalls,
            ..Self::new(message)
        }
    }

    /// Sets what it consumed.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// The text of the answer.
    pub fn content(&self) -> String {
        self.message.content()
    }

    /// The tool calls of the answer, in order.
    pub fn calls(&self) -> Vec<ToolCall> {
        self.message.tool_calls().cloned().collect()
    }
}

/// A piece of an answer while it is made. Deltas are previews: they are not recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Delta {
    /// More text.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// More of a tool call's arguments.
    ToolCall {
        /// The call's place in the answer.
        index: u32,
        /// The tool's name, once it is known.
        name: Option<String>,
        /// The next piece of the arguments' text.
        arguments: String,
    },
}
