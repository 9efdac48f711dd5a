//! Which interceptor stands around what.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Map, Value};

use super::registry::{Registry, list, tools_of};
use crate::{
    contract::{Interceptor, InterceptorHandle},
    definition::{DefinitionError, InterceptorSpec, TeamSpec},
};

/// Makes an interceptor from its settings; the error says what is wrong with them.
pub(super) type MakeInterceptor =
    Arc<dyn Fn(&Map<String, Value>) -> Result<InterceptorHandle, String> + Send + Sync>;

/// An interceptor and what it stands around: everything, or the models and tools that are named.
///
/// Where only models are named it wraps no tool, and the other way round.
#[derive(Clone, Debug)]
pub struct Intercept {
    pub(super) interceptor: InterceptorHandle,
    models: Option<Vec<String>>,
    tools: Option<Vec<String>>,
}

impl Intercept {
    /// This interceptor, around everything.
    pub fn new(interceptor: impl Interceptor) -> Self {
        Self::handle(InterceptorHandle::new(interceptor))
    }

    fn handle(interceptor: InterceptorHandle) -> Self {
        Self {
            interceptor,
            models: None,
            tools: None,
        }
    }

    /// Around calls to these models.
    #[must_use]
    pub fn models<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.models = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Around calls of these tools.
    #[must_use]
    pub fn tools<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.tools = Some(names.into_iter().map(Into::into).collect());
        self
    }

    fn wraps_model(&self, name: &str) -> bool {
        wraps(&self.models, self.tools.is_none(), name)
    }

    fn wraps_tool(&self, name: &str) -> bool {
        wraps(&self.tools, self.models.is_none(), name)
    }
}

impl<I: Interceptor> From<I> for Intercept {
    fn from(interceptor: I) -> Self {
        Self::new(interceptor)
    }
}

fn wraps(named: &Option<Vec<String>>, otherwise: bool, name: &str) -> bool {
    match named {
        Some(named) => named.iter().any(|named| named == name),
        None => otherwise,
    }
}

impl Registry {
    /// Registers a kind of interceptor: what makes one from the settings of a team file.
    #[must_use]
    pub fn interceptor_kind<F>(mut self, name: impl Into<String>, make: F) -> Self
    where
        F: Fn(&Map<String, Value>) -> Result<InterceptorHandle, String> + Send + Sync + 'static,
    {
        self.interceptor_kinds.insert(name.into(), Arc::new(make));
        self
    }

    /// Puts an interceptor around calls, inside of those that are there.
    #[must_use]
    pub fn intercept(mut self, intercept: impl Into<Intercept>) -> Self {
        self.add_intercept(intercept.into());
        self
    }

    /// The names of all kinds of interceptors.
    pub fn interceptor_kind_names(&self) -> Vec<&str> {
        self.interceptor_kinds.keys().map(String::as_str).collect()
    }

    pub(super) fn add_intercept(&mut self, intercept: Intercept) {
        let same = |other: &Intercept| other.interceptor.is(&intercept.interceptor);
        if !self.intercepts.iter().any(same) {
            self.intercepts.push(intercept);
        }
    }

    /// Makes the interceptors that a team defines.
    pub(super) fn define_interceptors(&mut self, team: &TeamSpec) -> Result<(), DefinitionError> {
        let made = team.interceptors.iter().map(|spec| self.make(spec, team));
        let made: Vec<Intercept> = made.collect::<Result<_, _>>()?;
        if !made.is_empty() {
            self.defined_intercepts.insert(team.name.clone(), made);
        }
        Ok(())
    }

    fn make(&self, spec: &InterceptorSpec, team: &TeamSpec) -> Result<Intercept, DefinitionError> {
        let unknown = |wanted_by: String, what, name: &String, known| DefinitionError::Unknown {
            wanted_by,
            what,
            name: name.clone(),
            known,
        };
        let wanted_by = format!("team {:?}", team.name);
        let Some(make) = self.interceptor_kinds.get(&spec.name) else {
            let known = list(self.interceptor_kinds.keys());
            return Err(unknown(wanted_by, "interceptor", &spec.name, known));
        };
        let wanted_by = format!("interceptor {:?}", spec.name);
        for model in spec.models.iter().flatten() {
            if !self.models.contains_key(model) {
                let known = list(self.models.keys());
                return Err(unknown(wanted_by, "model", model, known));
            }
        }
        for tool in spec.tools.iter().flatten() {
            if !self.tools.contains_key(tool) {
                return Err(unknown(wanted_by, "tool", tool, list(self.tools.keys())));
            }
        }
        let interceptor = make(&spec.settings).map_err(|reason| DefinitionError::Settings {
            wanted_by: format!("team {:?}", team.name),
            what: "interceptor",
            name: spec.name.clone(),
            reason,
        })?;
        let mut intercept = Intercept::handle(interceptor);
        (intercept.models, intercept.tools) = (spec.models.clone(), spec.tools.clone());
        if spec.models.is_none() && spec.tools.is_none() {
            // Everything that the team uses; other teams of the System are none of its business.
            let agents: Vec<_> = team.agent.walk().into_iter().map(|(_, a)| a).collect();
            let named = agents.iter().filter_map(|agent| agent.model.clone());
            let of_contexts = agents.iter().flat_map(|agent| &agent.context);
            let of_contexts = of_contexts.flat_map(|context| context.models().map(str::to_owned));
            let models = named.chain(of_contexts).chain(team.models.keys().cloned());
            intercept.models = Some(models.chain(["default".to_owned()]).collect());
            let tools = agents.iter().copied().flat_map(tools_of).cloned();
            intercept.tools = Some(tools.collect());
        }
        Ok(intercept)
    }

    fn all_intercepts(&self) -> impl Iterator<Item = &Intercept> {
        let defined = self.defined_intercepts.values().flatten();
        self.intercepts.iter().chain(defined)
    }

    /// What stands around a model's calls, from the outermost on.
    pub(crate) fn model_chain(&self, name: &str) -> Arc<[InterceptorHandle]> {
        let chain = self.all_intercepts().filter(|i| i.wraps_model(name));
        chain.map(|i| i.interceptor.clone()).collect()
    }

    /// What stands around the calls of each tool that has anything around it.
    pub(crate) fn tool_chains(&self) -> HashMap<String, Arc<[InterceptorHandle]>> {
        let chain = |name: &str| -> Arc<[InterceptorHandle]> {
            let chain = self.all_intercepts().filter(|i| i.wraps_tool(name));
            chain.map(|i| i.interceptor.clone()).collect()
        };
        let chains = self.tools.keys().map(|name| (name.clone(), chain(name)));
        chains.filter(|(_, chain)| !chain.is_empty()).collect()
    }
}
