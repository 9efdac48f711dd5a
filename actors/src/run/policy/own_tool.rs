//! A tool that a policy brings itself.

use std::sync::Arc;

use crate::vocabulary::{Digest, ModelRequest, ToolDefinition, ToolSet};

/// A tool that a policy offers in [`Policy::before_model`](super::Policy::before_model) and
/// answers in [`Policy::before_tool`](super::Policy::before_tool). The set of tools with it is
/// made once for each set without it.
#[derive(Clone, Debug)]
pub struct OwnTool {
    definition: Arc<ToolDefinition>,
    offered: Option<(Digest, ToolSet)>,
}

impl OwnTool {
    /// A tool with this definition.
    pub fn new(definition: ToolDefinition) -> Self {
        Self {
            definition: Arc::new(definition),
            offered: None,
        }
    }

    /// The name of the tool.
    pub fn name(&self) -> String {
        self.definition.name.clone()
    }

    /// Adds the tool to a request, instead of a caller's tool of this name.
    pub fn offer(&mut self, request: &mut ModelRequest) {
        let without = request.tools.digest();
        if let Some((digest, offered)) = &self.offered
            && *digest == without
        {
            request.tools = offered.clone();
            return;
        }
        let others = request
            .tools
            .iter()
            .filter(|tool| tool.name != self.definition.name);
        request.tools = others.cloned().chain([self.definition.clone()]).collect();
        self.offered = Some((without, request.tools.clone()));
    }
}
