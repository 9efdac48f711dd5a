//! An answer that is kept under a key for others.

use ghostlight_actors::{
    run::{Policy, PolicyContext, RunContext},
    vocabulary::{AgentError, Outcome, Scope},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::template::is_key;

/// Keeps the agent's answer in state under a key, for later agents and turns: their
/// [`Template`](super::Template)s read it as `{key}`. An answer with a schema is kept as JSON, any
/// other as text. An outcome other than an answer changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OutputKey {
    /// The key: a letter or underscore, followed by letters, digits and underscores, as in a
    /// template. `todos` is reserved for the policy of that name.
    pub key: String,
    /// The scope of the state.
    #[serde(default)]
    pub scope: OutputScope,
}

/// The scope of the state in which an answer is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutputScope {
    /// The session's state. For a delegated task, the working memory of the tree of runs.
    #[default]
    Session,
    /// The state of the session's owner, or of the session if it has no owner.
    User,
    /// The team's state.
    App,
}

impl OutputScope {
    /// The scope in terms of this run.
    pub(crate) fn of(self, cx: &RunContext) -> Scope {
        match (self, &cx.start().owner) {
            (Self::App, _) => Scope::App,
            (Self::User, Some(owner)) => Scope::User(owner.clone()),
            _ => Scope::Session,
        }
    }
}

impl OutputKey {
    /// Keeps the answer in the session's state.
    pub fn new(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            scope: OutputScope::default(),
        }
    }

    /// Sets the scope of the state.
    #[must_use]
    pub fn scope(mut self, scope: OutputScope) -> Self {
        self.scope = scope;
        self
    }
}

impl OutputKey {
    /// Checks that templates can read the key.
    ///
    /// # Errors
    /// The fault of the key.
    pub(crate) fn check(&self) -> Result<(), String> {
        let key = &self.key;
        match is_key(key) {
            true => Ok(()),
            false => Err(format!(
                "key {key:?} cannot be read by a template: it must be a letter or underscore and \
                 then letters, digits and underscores"
            )),
        }
    }
}

impl Policy for OutputKey {
    fn is_inherited(&self) -> bool {
        false
    }

    async fn after_run(
        &mut self,
        cx: &PolicyContext<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Outcome>, AgentError> {
        let Outcome::Answer(answer) = outcome else {
            return Ok(None);
        };
        let text = || Value::String(answer.text.clone());
        let value = match cx.agent().output {
            Some(_) => serde_json::from_str(&answer.text).unwrap_or_else(|_| text()),
            None => text(),
        };
        let scope = self.scope.of(cx);
        cx.state(scope).set(self.key.as_str(), &value).await?;
        Ok(None)
    }
}
