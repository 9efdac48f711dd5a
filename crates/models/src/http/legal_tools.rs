//! The tools of a request as every provider accepts them.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use ghostlight_actors::vocabulary::{ToolDefinition, ToolSet, legal_parameters};
use serde_json::Value;

use super::legal::is_name;

/// The tools with their schemas mended, this many at most. A tool that no provider accepts is left out with a warning, since
/// the provider would refuse the request with all other tools; so are those beyond the bound.
pub(crate) fn offered(tools: &ToolSet, max_tools: usize) -> Vec<Arc<ToolDefinition>> {
    let mut offered = Vec::with_capacity(tools.len());
    for (tool, judged) in judged(tools, max_tools) {
        match judged {
            Ok(legal) => offered.push(legal),
            Err(fault) => tracing::warn!(
                tool = tool.name,
                "the tool is not offered to the model: {fault}"
            ),
        }
    }
    offered
}

/// Whether the tool of this name is one that is [offered].
pub(crate) fn is_offered(tools: &ToolSet, name: &str, max_tools: usize) -> bool {
    let is_offered =
        judged(tools, max_tools).any(|(tool, judged)| tool.name == name && judged.is_ok());
    if !is_offered {
        tracing::warn!(
            tool = name,
            "the model must call a tool that is not offered to it: it is left free to choose"
        );
    }
    is_offered
}

/// Each tool, as it is offered or with the fault for which it is left out.
fn judged(
    tools: &ToolSet,
    max_tools: usize,
) -> impl Iterator<Item = (&Arc<ToolDefinition>, Result<Arc<ToolDefinition>, String>)> {
    let (mut names, mut offered) = (HashSet::new(), 0);
    tools.iter().map(move |tool| {
        let judged = if !is_name(&tool.name) {
            Err("its name is not 1 to 64 letters, digits, _ or -".to_owned())
        } else if !names.insert(tool.name.as_str()) {
            Err("another tool has its name".to_owned())
        } else if offered == max_tools {
            Err(format!(
                "the model takes {max_tools} tools at most (`profile: {{ max_tools }}`)"
            ))
        } else {
            match legal_parameters(&tool.parameters) {
                Ok(Cow::Borrowed(_)) => Ok(tool.clone()),
                Ok(Cow::Owned(schema)) => {
                    Ok(Arc::new(ToolDefinition::clone(tool).parameters(schema)))
                }
                Err(error) => Err(error.to_string()),
            }
        };
        offered += usize::from(judged.is_ok());
        (tool, judged)
    })
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
