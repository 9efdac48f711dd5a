//! The names that a team defines, as opposed to names that a model made up.

use std::{collections::HashMap, sync::Arc};

use ghostlight_actors::{
    contract::{StoreError, StoreHandle},
    definition::Pinned,
    vocabulary::{Digest, Effect, ModelSettings},
};

use crate::conventions::{self, OTHER};

/// How many definitions are kept. A System has few of them at a time.
const KEPT: usize = 64;

/// The definitions with which runs began.
#[derive(Debug)]
pub(crate) struct Definitions {
    store: StoreHandle,
    kept: HashMap<Digest, Option<Arc<Pinned>>>,
}

impl Definitions {
    pub(crate) fn of(store: StoreHandle) -> Self {
        let kept = HashMap::new();
        Self { store, kept }
    }

    /// A definition; one that is not there or does not read defines nothing.
    pub(crate) async fn get(&mut self, digest: Digest) -> Result<Definition, StoreError> {
        if let Some(kept) = self.kept.get(&digest) {
            return Ok(Definition(kept.clone()));
        }
        let bytes = self.store.blob(digest).await?;
        let pinned = bytes.and_then(|bytes| Pinned::decode(&bytes).ok());
        let pinned = pinned.map(Arc::new);
        if self.kept.len() >= KEPT {
            self.kept.clear();
        }
        self.kept.insert(digest, pinned.clone());
        Ok(Definition(pinned))
    }
}

/// A team as its run keeps it, or nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Definition(Option<Arc<Pinned>>);

/// A model by the names of the conventions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelName {
    pub(crate) provider: String,
    pub(crate) model: String,
}

impl Definition {
    /// The provider and the name of a model that is registered by this name.
    pub(crate) fn model(&self, registered: &str) -> ModelName {
        let named = |registered: &str| ModelName {
            provider: OTHER.to_owned(),
            model: registered.to_owned(),
        };
        let Some(pinned) = &self.0 else {
            return named(registered);
        };
        let Some(spec) = pinned.team.models.get(registered) else {
            return named(registered);
        };
        let model = spec.settings.get("model").and_then(|model| model.as_str());
        ModelName {
            provider: conventions::provider_name(&spec.provider).to_owned(),
            model: model.unwrap_or(registered).to_owned(),
        }
    }

    /// The effect of a tool of this agent; `None` for a name that the agent is not offered.
    pub(crate) fn tool(&self, agent: &str, name: &str) -> Option<Effect> {
        let pinned = self.0.as_ref()?;
        if let Some(tool) = pinned.tool(agent, name) {
            return Some(tool.effect);
        }
        let known = pinned.agent(agent, None)?;
        known.offered.get(name).map(|tool| tool.effect)
    }

    /// The settings of an agent's model calls.
    pub(crate) fn settings(&self, agent: &str) -> Option<&ModelSettings> {
        let agent = self.0.as_ref()?.team.find(agent)?;
        Some(&agent.settings)
    }

    /// Whether an agent works as a workflow.
    pub(crate) fn is_workflow(&self, agent: &str) -> bool {
        let found = self.0.as_ref().and_then(|pinned| pinned.team.find(agent));
        found.is_some_and(|agent| conventions::is_workflow(&agent.behavior.name))
    }

    /// Whether a model made the agent, and its name with it.
    pub(crate) fn is_made(&self) -> bool {
        let pinned = self.0.as_ref();
        pinned.is_some_and(|pinned| pinned.made_by.is_some())
    }
}
