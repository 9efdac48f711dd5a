//! The setup of a loop.

use std::sync::Arc;

use ghostlight_actors::{
    run::RunContext,
    vocabulary::{AgentError, ToolSet, Transcript},
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{AgentLoop, AnswerSchema, Counts, FinishMode, LoopOptions, Rules, Turn};
use crate::behaviors::turn_format::{NativeCalls, TurnFormat};

impl<'a> AgentLoop<'a> {
    /// The default limit on answers that policies may reject.
    pub const DEFAULT_REJECTIONS: u32 = 8;

    /// The default limit on the calls of one answer that are run.
    pub const DEFAULT_CALLS: u32 = 1_000;

    /// A loop over the agent's conversation with its instructions, tools, settings and output
    /// schema.
    ///
    /// # Errors
    /// When the agent's output schema is invalid.
    pub fn new(cx: &'a RunContext) -> Result<Self, AgentError> {
        let conversation = cx.conversation();
        let rules = Rules {
            format: Arc::new(NativeCalls),
            instructions: None,
            tools: cx.tools_offered(),
            completion: FinishMode::Text,
            output: AnswerSchema::of(cx.agent())?,
            limits: LoopOptions::of(cx, None),
            max_rejections: cx.spec().max_rejections.unwrap_or(Self::DEFAULT_REJECTIONS),
            max_calls: cx.spec().max_calls.unwrap_or(Self::DEFAULT_CALLS).max(1),
            is_gated: true,
            is_inner: false,
        };
        let turn = Turn {
            offered: rules.tools.clone(),
            ..Turn::default()
        };
        Ok(Self {
            cx,
            rules,
            offered: None,
            begin: conversation.len(),
            conversation,
            turn,
            steered: Vec::new(),
            last_text: String::new(),
            counts: Counts::default(),
            best: None,
        })
    }

    /// Sets the format of requests and responses.
    #[must_use]
    pub fn format(mut self, format: impl TurnFormat) -> Self {
        self.rules.format = Arc::new(format);
        self
    }

    /// Sets the system prompt, instead of the agent's instructions.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<Arc<str>>) -> Self {
        self.rules.instructions = Some(text.into());
        self
    }

    /// Sets the tools that the model may call, from the agent's tools.
    #[must_use]
    pub fn tools(mut self, tools: ToolSet) -> Self {
        self.turn.offered = tools.clone();
        (self.rules.tools, self.offered) = (tools, None);
        self
    }

    /// Sets how the model signals that it is done.
    #[must_use]
    pub fn completion(mut self, completion: FinishMode) -> Self {
        (self.rules.completion, self.offered) = (completion, None);
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn options(mut self, limits: LoopOptions) -> Self {
        self.rules.limits = limits;
        self
    }

    /// Sets the conversation that the loop continues.
    #[must_use]
    pub fn conversation(mut self, conversation: Transcript) -> Self {
        self.begin = conversation.len();
        self.conversation = conversation;
        self
    }

    /// Sets the first message that belongs to outcomes, for a loop that continues the conversation
    /// of an earlier loop.
    #[must_use]
    pub fn begun_at(mut self, begin: usize) -> Self {
        self.begin = begin;
        self
    }

    /// Makes the answer a part of the work, after which the run continues: policies do not judge
    /// it, and an exceeded budget is noticed by the next operation.
    #[must_use]
    pub fn inner(mut self) -> Self {
        (self.rules.is_inner, self.rules.is_gated) = (true, false);
        self
    }

    /// Lets policies judge the answer even though it is a part of the work: a draft.
    #[must_use]
    pub fn gated(mut self) -> Self {
        self.rules.is_gated = true;
        self
    }

    /// Accepts any text as the answer, whatever the agent's output schema.
    #[must_use]
    pub fn free_text(mut self) -> Self {
        (self.rules.output, self.offered) = (None, None);
        self
    }

    /// Requires an answer in JSON that fits this schema.
    ///
    /// # Errors
    /// When the schema is invalid.
    pub fn schema(mut self, name: &str, schema: Value) -> Result<Self, AgentError> {
        let schema = AnswerSchema::new(name, schema).map_err(AgentError::failed)?;
        (self.rules.output, self.offered) = (Some(Arc::new(schema)), None);
        Ok(self)
    }

    /// Requires an answer of this type, which [`run_as`](Self::run_as) returns.
    ///
    /// # Errors
    /// When the schema of the type is invalid.
    pub fn typed<T: JsonSchema + DeserializeOwned>(mut self) -> Result<Self, AgentError> {
        let schema = AnswerSchema::of_type::<T>().map_err(AgentError::failed)?;
        (self.rules.output, self.offered) = (Some(Arc::new(schema)), None);
        Ok(self)
    }
}
