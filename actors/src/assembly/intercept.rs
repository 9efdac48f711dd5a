//! An interceptor, and the models and tools around which it stands.

use super::members::Members;
use crate::contract::{Interceptor, InterceptorHandle};

/// An interceptor and what it stands around: everything, or the models and tools that are named.
///
/// Where only models are named it wraps no tool, and the other way round.
#[derive(Clone, Debug)]
#[must_use = "an interceptor stands around the calls of the team or the System that is given it"]
pub struct Intercept {
    pub(super) interceptor: InterceptorHandle,
    pub(super) models: Option<Vec<String>>,
    pub(super) tools: Option<Vec<String>>,
}

impl Intercept {
    /// This interceptor, around everything.
    pub fn new(interceptor: impl Interceptor) -> Self {
        Self::handle(InterceptorHandle::new(interceptor))
    }

    pub(super) fn handle(interceptor: InterceptorHandle) -> Self {
        Self {
            interceptor,
            models: None,
            tools: None,
        }
    }

    /// Around calls to these models.
    pub fn models<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.models = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Around calls of these tools.
    pub fn tools<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.tools = Some(names.into_iter().map(Into::into).collect());
        self
    }

    pub(super) fn wraps_model(&self, name: &str) -> bool {
        wraps(&self.models, self.tools.is_none(), name)
    }

    pub(super) fn wraps_tool(&self, name: &str, members: &Members) -> bool {
        let of_toolset = |named: &String| members.holds(named, name);
        wraps(&self.tools, self.models.is_none(), name)
            || self.tools.iter().flatten().any(of_toolset)
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
