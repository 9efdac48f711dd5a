//! The definitions of tools.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What repeating a call would do to the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// No effect: it may be repeated at will.
    Read,
    /// Safe to repeat with the same idempotency key, which the tool is handed.
    Idempotent,
    /// Never to be repeated: its start is recorded before it runs.
    #[default]
    Once,
}

/// What happens when the end of a `once` call is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InDoubt {
    /// The model reads a result that says that the outcome is unknown.
    #[default]
    TellModel,
    /// A person is asked whether it happened.
    AskPerson,
    /// The run fails.
    Fail,
}

/// Whether a person is asked before a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Approval {
    /// Nobody is asked.
    #[default]
    NotNeeded,
    /// A person approves each call. The text may name arguments as `{path}`; without one the
    /// question names the tool.
    Required {
        /// The question.
        prompt: Option<String>,
    },
}

/// A tool as a model and the engine see it. It is pinned when a run starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolDefinition {
    /// The name that the model calls; unique among the tools of an agent.
    pub name: String,
    /// What it is for, in words for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// What repeating a call would do.
    pub effect: Effect,
    /// What happens when the end of a `once` call is not known.
    pub in_doubt: InDoubt,
    /// Whether a person is asked first.
    pub approval: Approval,
    /// The question to the person who gives the password, code or key that the call needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<String>,
    /// The toolset from which an agent has it. People are told, and their remembered decisions hold for this one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How many calls of it may run at once in this process.
    pub concurrency: Option<u32>,
    /// How long a call may take, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// How many characters of its output reach the model.
    pub output_limit: u32,
    /// Whether a successful call ends the step without another model call.
    pub ends_step: bool,
    /// Whether the provider is asked to hold the model to the schema of the arguments, where it can. Most providers then
    /// accept fewer schemas.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
}

impl ToolDefinition {
    /// The bound on output where a tool sets none, in characters.
    pub const DEFAULT_OUTPUT_LIMIT: u32 = 32_000;

    /// A `once` tool without arguments. The setters below change that.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters: serde_json::json!({"type": "object", "properties": {}}),
            effect: Effect::Once,
            in_doubt: InDoubt::TellModel,
            approval: Approval::NotNeeded,
            authentication: None,
            source: None,
            concurrency: None,
            timeout_ms: None,
            output_limit: Self::DEFAULT_OUTPUT_LIMIT,
            ends_step: false,
            strict: false,
        }
    }

    /// Sets the JSON Schema of the arguments.
    #[must_use]
    pub fn parameters(mut self, schema: Value) -> Self {
        self.parameters = schema;
        self
    }

    /// Sets the schema from a type.
    #[must_use]
    pub fn parameters_of<T: JsonSchema>(self) -> Self {
        self.parameters(schema_of::<T>())
    }

    /// Sets the effect class.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Sets what happens when the end of a `once` call is not known.
    #[must_use]
    pub fn in_doubt(mut self, in_doubt: InDoubt) -> Self {
        self.in_doubt = in_doubt;
        self
    }

    /// Requires a person's approval, asked with this prompt.
    #[must_use]
    pub fn approval(mut self, prompt: impl Into<String>) -> Self {
        self.approval = Approval::Required {
            prompt: Some(prompt.into()),
        };
        self
    }

    /// Requires a password, code or key that a person gives for each call, asked for with this prompt. Only the tool
    /// gets it, as `ToolContext::credential`.
    #[must_use]
    pub fn authentication(mut self, prompt: impl Into<String>) -> Self {
        self.authentication = Some(prompt.into());
        self
    }

    /// Sets how many calls may run at once in this process.
    #[must_use]
    pub fn concurrency(mut self, calls: u32) -> Self {
        self.concurrency = Some(calls.max(1));
        self
    }

    /// Sets how long a call may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Sets how many characters of output reach the model.
    #[must_use]
    pub fn output_limit(mut self, characters: u32) -> Self {
        self.output_limit = characters;
        self
    }

    /// Makes a successful call the end of its step.
    #[must_use]
    pub fn ends_step(mut self) -> Self {
        self.ends_step = true;
        self
    }

    /// Asks the provider to hold the model to the schema of the arguments; see the field.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }
}

/// The schema of a type without what means nothing to a model: the draft and Rust's name of the type.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = schemars::schema_for!(T).to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
        object.remove("title");
    }
    schema
}
