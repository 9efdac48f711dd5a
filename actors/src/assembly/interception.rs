//! The interceptors of a registry.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Intercept, Registry, makers::MakeInterceptor};
use crate::{
    contract::{InterceptorHandle, ModelHandle, ToolHandle},
    definition::{DefinitionError, InterceptorSpec, TeamSpec},
};

impl Registry {
    /// Registers a kind of interceptor: what makes one from the settings of a team file.
    #[must_use]
    pub fn interceptor_kind<F>(self, name: impl Into<String>, make: F) -> Self
    where
        F: Fn(&Map<String, Value>) -> Result<InterceptorHandle, String> + Send + Sync + 'static,
    {
        self.given::<MakeInterceptor>(name, Arc::new(make))
    }

    /// Puts an interceptor around calls, inside of those that are there.
    #[must_use]
    pub fn intercept(mut self, intercept: impl Into<Intercept>) -> Self {
        self.add_intercept(intercept.into());
        self
    }

    /// The names of all kinds of interceptors.
    pub fn interceptor_kind_names(&self) -> Vec<&str> {
        self.places.names_of::<MakeInterceptor>()
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
        let root = std::slice::from_ref(&team.agent.name);
        let wanted_by = || format!("team {:?}", team.name);
        let make: &MakeInterceptor = self.places.wanted(root, &spec.name, wanted_by)?;
        let unknown = |what, name: &String, known| DefinitionError::Unknown {
            wanted_by: format!("interceptor {:?}", spec.name),
            what,
            name: name.clone(),
            known,
        };
        let (models, tools) = (
            self.places.names_of::<ModelHandle>(),
            self.places.names_of::<ToolHandle>(),
        );
        for model in spec.models.iter().flatten() {
            if !models.contains(&model.as_str()) {
                return Err(unknown("model", model, self.places.known::<ModelHandle>()));
            }
        }
        for tool in spec.tools.iter().flatten() {
            if !tools.contains(&tool.as_str()) && !self.members.has_toolset(tool) {
                return Err(unknown("tool", tool, self.places.known::<ToolHandle>()));
            }
        }
        let refused = DefinitionError::refuses(wanted_by(), "interceptor", &spec.name);
        let interceptor = make(&spec.settings).map_err(refused)?;
        let mut intercept = Intercept::handle(interceptor);
        (intercept.models, intercept.tools) = (spec.models.clone(), spec.tools.clone());
        Ok(intercept)
    }

    /// The interceptors around a model's calls, from the outermost on.
    pub(super) fn model_chain(&self, name: &str) -> Arc<[InterceptorHandle]> {
        self.chain(|intercept| intercept.wraps_model(name))
    }

    pub(super) fn chain(&self, wraps: impl Fn(&Intercept) -> bool) -> Arc<[InterceptorHandle]> {
        let defined = self.defined_intercepts.values().flatten();
        let chain = self.intercepts.iter().chain(defined).filter(|i| wraps(i));
        let chain: Vec<_> = chain.map(|i| i.interceptor.clone()).collect();
        match chain.is_empty() {
            // Most calls have none. This one takes no room.
            true => Arc::default(),
            false => chain.into(),
        }
    }
}
