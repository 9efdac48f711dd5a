//! What agents below wrote into the memory of their tree, kept beyond it.

use ghostlight_actors::{
    run::{Policy, PolicyContext},
    vocabulary::{AgentError, Outcome},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Checked;
use crate::instructions::OutputScope;

/// Keeps values of the tree's working memory in the session when the agent has answered, or hands
/// the conversation on. Delegated tasks write into that memory whatever they write as state of the
/// session, and it goes with its run: these keys are what comes back of it. Keys that nobody wrote,
/// and outcomes that are no answer, change nothing.
///
/// ```yaml
/// policies: [{ name: keep_state, keys: [findings, sources] }]
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct KeepState {
    /// The keys.
    pub keys: Vec<String>,
    /// Whose state they are kept in.
    #[serde(default)]
    pub scope: OutputScope,
}

impl KeepState {
    /// Keeps these keys in the session.
    pub fn new<K: Into<String>>(keys: impl IntoIterator<Item = K>) -> Self {
        Self {
            keys: keys.into_iter().map(Into::into).collect(),
            scope: OutputScope::default(),
        }
    }

    /// Sets whose state they are kept in.
    #[must_use]
    pub fn scope(mut self, scope: OutputScope) -> Self {
        self.scope = scope;
        self
    }
}

impl Checked for KeepState {
    fn check(&self) -> Result<(), String> {
        match self.keys.iter().any(|key| !key.trim().is_empty()) {
            true => Ok(()),
            false => Err("keys must name at least one".to_owned()),
        }
    }
}

impl Policy for KeepState {
    fn is_inherited(&self) -> bool {
        false
    }

    async fn after_run(
        &mut self,
        cx: &PolicyContext<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Outcome>, AgentError> {
        if !matches!(outcome, Outcome::Answer(_) | Outcome::Transfer(_)) {
            return Ok(None);
        }
        let scope = self.scope.of(cx);
        for key in &self.keys {
            if let Some(value) = cx.memory().get::<Value>(key.as_str()).await? {
                cx.state(scope.clone()).set(key.as_str(), &value).await?;
            }
        }
        Ok(None)
    }
}
