//! How a loop is set up.

use std::sync::Arc;

use ghostlight_actors::{
    run::RunContext,
    vocabulary::{AgentError, ToolSet, Transcript},
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{AgentLoop, AnswerSchema, FinishMode, LoopLimits};
use crate::behaviors::turn_format::{NativeCalls, TurnFormat};

impl<'a> AgentLoop<'a> {
    /// How many answers policies may reject where an agent sets no bound.
    pub const DEFAULT_REJECTIONS: u32 = 8;

    /// How many calls of one answer are run where an agent sets no bound.
    pub const DEFAULT_CALLS: u32 = 1_000;

    /// A loop over the agent's conversation with its instructions, tools, settings and output
    /// schema.
    ///
    /// # Errors
    /// When the agent's output schema is none.
    pub fn new(cx: &'a RunContext) -> Result<Self, AgentError> {
        let conversation = cx.conversation();
        Ok(Self {
            cx,
            format: Arc::new(NativeCalls),
            instructions: None,
            tools: cx.tools_offered(),
            completion: FinishMode::Text,
            output: AnswerSchema::of(cx.agent())?.map(Arc::new),
            offered: None,
            offered_now: cx.tools_offered(),
            limits: LoopLimits::of(cx, None),
            max_rejections: cx.spec().max_rejections.unwrap_or(Self::DEFAULT_REJECTIONS),
            max_calls: cx.spec().max_calls.unwrap_or(Self::DEFAULT_CALLS).max(1),
            is_gated: true,
            is_inner: false,
            begin: conversation.len(),
            conversation,
            open: Vec::new(),
            cut: None,
            steering: Vec::new(),
            steered: Vec::new(),
            last_text: String::new(),
            steps: 0,
            empty_turns: 0,
            unreadable_turns: 0,
            repairs: 0,
            rejections: 0,
            best: None,
        })
    }

    /// Sets how requests are built and responses are read.
    #[must_use]
    pub fn format(mut self, format: impl TurnFormat) -> Self {
        self.format = Arc::new(format);
        self
    }

    /// Sets the system prompt, instead of the agent's instructions.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<Arc<str>>) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// Sets the tools that the model may call: some of those that the agent has.
    #[must_use]
    pub fn tools(mut self, tools: ToolSet) -> Self {
        self.offered_now = tools.clone();
        (self.tools, self.offered) = (tools, None);
        self
    }

    /// Sets how the model says that it is done.
    #[must_use]
    pub fn completion(mut self, completion: FinishMode) -> Self {
        (self.completion, self.offered) = (completion, None);
        self
    }

    /// Sets the bounds.
    #[must_use]
    pub fn limits(mut self, limits: LoopLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the conversation that the loop goes on with.
    #[must_use]
    pub fn conversation(mut self, conversation: Transcript) -> Self {
        self.begin = conversation.len();
        self.conversation = conversation;
        self
    }

    /// Sets from which message on the conversation belongs to outcomes, where the loop goes on
    /// with one that an earlier loop began.
    #[must_use]
    pub fn begun_at(mut self, begin: usize) -> Self {
        self.begin = begin;
        self
    }

    /// Makes the answer a part of the work, after which the run goes on: policies do not judge
    /// it, and having gone over a budget is noticed by what comes next.
    #[must_use]
    pub fn inner(mut self) -> Self {
        (self.is_inner, self.is_gated) = (true, false);
        self
    }

    /// Has policies judge the answer although it is a part of the work: a draft.
    #[must_use]
    pub fn gated(mut self) -> Self {
        self.is_gated = true;
        self
    }

    /// Lets the answer be any text, whatever the agent's output schema.
    #[must_use]
    pub fn free_text(mut self) -> Self {
        (self.output, self.offered) = (None, None);
        self
    }

    /// Lets the answer be JSON of this schema.
    ///
    /// # Errors
    /// When it is no JSON Schema.
    pub fn schema(mut self, name: &str, schema: Value) -> Result<Self, AgentError> {
        let schema = AnswerSchema::new(name, schema).map_err(AgentError::failed)?;
        (self.output, self.offered) = (Some(Arc::new(schema)), None);
        Ok(self)
    }

    /// Lets the answer be a value of this type, which [`run_as`](Self::run_as) returns.
    ///
    /// # Errors
    /// When what the type says of itself is no JSON Schema.
    pub fn typed<T: JsonSchema + DeserializeOwned>(mut self) -> Result<Self, AgentError> {
        let schema = AnswerSchema::of_type::<T>().map_err(AgentError::failed)?;
        (self.output, self.offered) = (Some(Arc::new(schema)), None);
        Ok(self)
    }
}
