//! State that agents below wrote, kept beyond their tree.

use ghostlight_actors::{
    run::{Begin, Gate, Policy, PolicyContext, operations::PlainOperation},
    vocabulary::{AgentError, Digest, Outcome, Scope, ToolFilter},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Checked;
use crate::instructions::OutputScope;

/// Keeps values of the tree's working memory in the session when the agent has answered, or hands
/// the conversation on. State of the session that delegated tasks write goes into that memory,
/// which is deleted with its run: the values of these keys are copied to the session. Keys that
/// nobody wrote, and outcomes that are not an answer, change nothing. A key may be a rule, in which `*`
/// stands for any text; keys of the engine and of memories fit none.
///
/// ```yaml
/// policies: [{ name: keep_state, keys: [findings, "source:*"] }]
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct KeepState {
    /// The keys, and rules for keys such as `source:*`.
    pub keys: Vec<String>,
    /// The scope in which they are kept.
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

    /// Sets the scope in which they are kept.
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
        let (rules, mut keys): (Vec<String>, Vec<String>) =
            self.keys.iter().cloned().partition(|key| key.contains('*'));
        if !rules.is_empty() {
            let fitting = cx.perform(fitting_keys(rules)).await?;
            let named = keys.clone();
            keys.extend(fitting.into_iter().filter(|key| !named.contains(key)));
        }
        for key in &keys {
            if let Some(value) = cx.memory().get::<Value>(key.as_str()).await? {
                cx.state(scope.clone()).set(key.as_str(), &value).await?;
            }
        }
        Ok(None)
    }
}

/// The operation that lists the keys of the tree's working memory that fit a rule, in their order.
fn fitting_keys(rules: Vec<String>) -> PlainOperation<Vec<String>> {
    let parts: Vec<&[u8]> = rules.iter().map(String::as_bytes).collect();
    let digest = Digest::of_parts(&parts);
    PlainOperation::new("state_keys", "", digest, move |cx| {
        let state = match cx.state(&Scope::Run) {
            Ok(state) => state,
            Err(error) => return Begin::Ready(Err(error)),
        };
        let fits = ToolFilter::names(rules);
        Begin::act(Gate::After, async move {
            let mut keys = state.keys().await?;
            keys.retain(|key| fits.takes(key));
            keys.sort_unstable();
            Ok(keys)
        })
    })
}
