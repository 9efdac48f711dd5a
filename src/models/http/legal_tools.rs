//! The tools of a request as every provider accepts them.

use std::{collections::HashSet, sync::Arc};

use ghostlight_actors::vocabulary::{ToolDefinition, ToolSet};
use serde_json::{Map, Value, json};

use super::legal::is_name;

/// The words of JSON Schema that no provider takes at the root of a tool's arguments.
const NOT_AT_ROOT: [&str; 7] = ["anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref"];

/// The tools with their schemas mended. A tool that no provider accepts is left out with a warning, since the provider
/// would refuse the request with all other tools.
pub(in crate::models) fn offered(tools: &ToolSet) -> Vec<Arc<ToolDefinition>> {
    let mut names = HashSet::new();
    let mut offered = Vec::with_capacity(tools.len());
    for tool in tools.iter() {
        let fault = if !is_name(&tool.name) {
            "its name is not 1 to 64 letters, digits, _ or -"
        } else if !names.insert(tool.name.as_str()) {
            "another tool has its name"
        } else if !takes_an_object(&tool.parameters) {
            "its arguments are no object"
        } else {
            offered.push(match mended(&tool.parameters) {
                None => tool.clone(),
                Some(schema) => Arc::new(ToolDefinition::clone(tool).parameters(schema)),
            });
            continue;
        };
        tracing::warn!(
            tool = tool.name,
            "the tool is not offered to the model: {fault}"
        );
    }
    offered
}

/// Whether the tool of this name is one that is [offered].
pub(in crate::models) fn is_offered(tools: &ToolSet, name: &str) -> bool {
    let found = tools.get(name);
    let is_offered = found.is_some_and(|tool| is_name(name) && takes_an_object(&tool.parameters));
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
pub(in crate::models) fn with_further(mut tools: Vec<Value>, further: &Value) -> Vec<Value> {
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

fn takes_an_object(schema: &Value) -> bool {
    match &schema["type"] {
        Value::String(kind) => kind == "object",
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "object"),
        _ => true,
    }
}

/// The schema as providers take it; `None` if it needs no change.
fn mended(schema: &Value) -> Option<Value> {
    let is_legal = schema["type"] == "object"
        && schema.get("properties").is_none_or(Value::is_object)
        && schema.get("required").is_none_or(|names| {
            names
                .as_array()
                .is_some_and(|names| names.iter().all(Value::is_string))
        })
        && NOT_AT_ROOT.iter().all(|word| schema.get(word).is_none())
        && typed(schema);
    if is_legal {
        return None;
    }
    let mut root = schema.as_object().cloned().unwrap_or_default();
    if let Some(Value::String(place)) = root.get("$ref")
        && let Some(Value::Object(meant)) = schema.pointer(place.trim_start_matches('#'))
    {
        for (word, value) in meant {
            root.entry(word.clone()).or_insert_with(|| value.clone());
        }
    }
    fold(&mut root);
    root.insert("type".to_owned(), json!("object"));
    let mut properties = match root.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    // Some servers put the list among the properties.
    if let Some(names @ Value::Array(_)) = properties.get("required").cloned() {
        properties.remove("required");
        root.entry("required").or_insert(names);
    }
    root.insert("properties".to_owned(), Value::Object(properties));
    match root.get_mut("required") {
        Some(Value::Array(names)) => names.retain(Value::is_string),
        _ => drop(root.remove("required")),
    }
    let mut root = Value::Object(root);
    mend_types(&mut root);
    Some(root)
}

/// Puts the properties of alternatives at the root, where all of them are optional, since providers take alternatives
/// only below it. The arguments are checked against the tool's own schema.
fn fold(root: &mut Map<String, Value>) {
    for word in NOT_AT_ROOT {
        let Some(Value::Array(branches)) = root.remove(word) else {
            continue;
        };
        for branch in branches {
            let Value::Object(mut branch) = branch else {
                continue;
            };
            if let Some(Value::Object(of_branch)) = branch.remove("properties") {
                let properties = root.entry("properties").or_insert_with(|| json!({}));
                if !properties.is_object() {
                    *properties = json!({});
                }
                if let Value::Object(properties) = properties {
                    for (name, schema) in of_branch {
                        properties.entry(name).or_insert(schema);
                    }
                }
            }
            if word == "allOf"
                && let Some(Value::Array(names)) = branch.remove("required")
            {
                let required = root.entry("required").or_insert_with(|| json!([]));
                if let Value::Array(required) = required {
                    required.extend(names);
                }
            }
        }
    }
}

/// Whether each schema below is one: an object or a boolean, whose type is a word or a list of words.
fn typed(schema: &Value) -> bool {
    let Some(fields) = schema.as_object() else {
        return schema.is_boolean();
    };
    let is_word = |kind: &Value| kind.is_string() || kind.is_array();
    fields.get("type").is_none_or(is_word) && below(fields).all(typed)
}

fn below(fields: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let properties = fields.get("properties").and_then(Value::as_object);
    let items = fields.get("items").filter(|items| !items.is_array());
    properties.into_iter().flat_map(Map::values).chain(items)
}

fn mend_types(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        if !schema.is_boolean() {
            *schema = json!({});
        }
        return;
    };
    if fields
        .get("type")
        .is_some_and(|kind| !kind.is_string() && !kind.is_array())
    {
        fields.remove("type");
    }
    if let Some(properties) = fields.get_mut("properties") {
        match properties {
            Value::Object(properties) => properties.values_mut().for_each(mend_types),
            _ => *properties = json!({}),
        }
    }
    if let Some(items) = fields.get_mut("items").filter(|items| !items.is_array()) {
        mend_types(items);
    }
}
