//! Work for a System, with all input from outside.

use std::{fmt, sync::Arc};

use serde_json::Value;

use super::EffectLog;
use crate::{
    actor::SystemBuilder,
    contract::ItemBody,
    run::operations::AgentMessage,
    vocabulary::{Question, QuestionKind},
};

type Build = Arc<dyn Fn(SystemBuilder, EffectLog) -> SystemBuilder + Send + Sync>;
type Policy = Arc<dyn Fn(&Question) -> Value + Send + Sync>;

/// Work for a System, with all input from outside.
#[derive(Clone)]
pub struct Scenario {
    pub(super) name: String,
    pub(super) build: Build,
    pub(super) team: String,
    pub(super) turns: Vec<String>,
    /// Messages to the root run of every turn, in this order.
    pub(super) messages: Vec<ItemBody>,
    pub(super) policy: Policy,
}

impl Scenario {
    /// Work for this team. `build` adds the team, its models and tools to the builder of each process's System; tools
    /// that log their calls come from the [`EffectLog`]. A model's answer must depend on its request and not on the
    /// number of calls, since a call that a crash interrupted is made again (see
    /// [`ScriptedModel::turns`](super::ScriptedModel::turns)).
    pub fn new<F>(team: impl Into<String>, build: F) -> Self
    where
        F: Fn(SystemBuilder, EffectLog) -> SystemBuilder + Send + Sync + 'static,
    {
        let team = team.into();
        Self {
            name: team.clone(),
            build: Arc::new(build),
            team,
            turns: Vec::new(),
            messages: Vec::new(),
            policy: Arc::new(usual_answer),
        }
    }

    /// Sets the name for reports; the team's name by default.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a turn. Each turn begins when the one before has ended.
    #[must_use]
    pub fn turn(mut self, text: impl Into<String>) -> Self {
        self.turns.push(text.into());
        self
    }

    /// Adds a message to the root run of every turn. A message that has no form as JSON is sent as null.
    #[must_use]
    pub fn message<M: AgentMessage>(mut self, message: &M) -> Self {
        let (name, value) = (M::NAME.to_owned(), serde_json::to_value(message));
        let value = value.unwrap_or_default();
        self.messages.push(ItemBody::Message { name, value });
        self
    }

    /// Sets how questions are answered. By default, approvals and confirmations are given, the first option is
    /// chosen, a form is left empty, and a text is `yes`.
    #[must_use]
    pub fn answers<F>(mut self, policy: F) -> Self
    where
        F: Fn(&Question) -> Value + Send + Sync + 'static,
    {
        self.policy = Arc::new(policy);
        self
    }
}

fn usual_answer(question: &Question) -> Value {
    match question.kind {
        QuestionKind::Approval | QuestionKind::Confirmation => Value::Bool(true),
        QuestionKind::InDoubt => Value::Bool(false),
        QuestionKind::Choice => question.options.first().cloned().into(),
        QuestionKind::Form => Value::Object(serde_json::Map::new()),
        QuestionKind::Text | QuestionKind::Authentication | QuestionKind::ToolResult => {
            "yes".into()
        }
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scenario({})", self.name)
    }
}
