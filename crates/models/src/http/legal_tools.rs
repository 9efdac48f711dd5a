//! The tools of a request as every provider accepts them.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use ghostlight_actors::vocabulary::{ToolDefinition, ToolSet, legal_parameters};
use serde_json::Value;

use super::legal::is_name;

/// The tools with their schemas mended. A tool that no provider accepts is left out with a warning, since the provider
/// would refuse the request with all other tools.
pub(crate) fn offered(tools: &ToolSet) -> Vec<Arc<ToolDefinition>> {
    let mut names = HashSet::new();
    let mut offered = Vec::with_capacity(tools.len());
    for tool in tools.iter() {
        let fault = if !is_name(&tool.name) {
            "its name is not 1 to 64 letters, digits, _ or -".to_owned()
        } else if !names.insert(tool.name.as_str()) {
            "another tool has its name".to_owned()
        } else {
            match legal_parameters(&tool.parameters) {
                Ok(Cow::Borrowed(_)) => {
                    offered.push(tool.clone());
                    continue;
                }
                Ok(Cow::Owned(schema)) => {
                    offered.push(Arc::new(ToolDefinition::clone(tool).parameters(schema)));
                    continue;
                }
                Err(error) => error.to_string(),
            }
        };
        tracing::warn!(
            tool = tool.name,
            "the tool is not offered to the model: {fault}"
        );
    }
    offered
}

/// Whether the tool of this name is one that is [offered].
pub(crate) fn is_offered(tools: &ToolSet, name: &str) -> bool {
    let found = tools.get(name);
    let is_offered =
        found.is_some_and(|tool| is_name(name) && legal_parameters(&tool.parameters).is_ok());
    if !is_offered {
        tracing::warn!(
            tool = name,
            "the model must call a tool that is not offered to it: it is left free to choose"
        );
    }
    is_offered
}

/// The tools of a request with further ones from its settings, such as tools of the provider's own. A further tool
/// takes the place of one with its name.
pub(crate) fn with_further(mut tools: Vec<Value>, further: &Value) -> Vec<Value> {
    let name = |tool: &Value| {
        let name = tool["function"]["name"].as_str().or(tool["name"].as_str());
        name.map(str::to_owned)
    };
    for tool in further.as_array().into_iter().flatten() {
        let known = name(tool);
        let same = tools
            .iter()
            .position(|own| known.is_some() && name(own) == known);
        match same {
            Some(place) => tool.clone_into(&mut tools[place]),
            None => tools.push(tool.clone()),
        }
    }
    tools
}
