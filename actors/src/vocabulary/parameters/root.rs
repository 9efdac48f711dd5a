//! The root of a schema of arguments: one object.

use serde_json::{Map, Value, json};

use super::schema::{legal_fields, legal_type, names};

/// The words that providers refuse at the root of a schema, of which the first three are folded into it.
const NOT_AT_ROOT: [&str; 7] = ["allOf", "anyOf", "oneOf", "not", "enum", "const", "$ref"];
/// How many schemas may stand in each other at the root.
const DEEPEST: usize = 16;

/// A schema of arguments that nothing could call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the arguments are no object but {found}: no model can call the tool")]
pub struct ParametersError {
    found: String,
}

/// The root, in which all but references is legal.
pub(super) fn legal(schema: &Value) -> Result<Value, ParametersError> {
    let refused = |found: &Value| ParametersError {
        found: found.to_string(),
    };
    let fields = match schema {
        Value::Object(fields) => fields.clone(),
        Value::Null | Value::Bool(true) => Map::new(),
        _ => return Err(refused(schema)),
    };
    let mut root = folded(fields, schema, DEEPEST);
    legal_type(&mut root);
    let is_object = match root.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
    };
    if !is_object {
        return Err(refused(&root["type"]));
    }
    root.insert("type".to_owned(), json!("object"));
    root.entry("properties").or_insert_with(|| json!({}));
    Ok(Value::Object(legal_fields(root)))
}

/// The place that a reference means.
pub(super) fn found<'s>(schema: &'s Value, place: &str) -> Option<&'s Value> {
    let place = place.strip_prefix('#')?;
    schema.pointer(place)
}

/// The fields with those of the schema that they refer to, and with the properties of their alternatives. What only one
/// of several alternatives requires is not required, and a property that they describe differently is one of these.
fn folded(mut fields: Map<String, Value>, root: &Value, depth: usize) -> Map<String, Value> {
    let Some(depth) = depth.checked_sub(1) else {
        return Map::new();
    };
    if let Some(Value::String(place)) = fields.get("$ref")
        && let Some(Value::Object(meant)) = found(root, place)
    {
        let meant = meant.clone();
        fields.remove("$ref");
        for (word, value) in meant {
            fields.entry(word).or_insert(value);
        }
        return folded(fields, root, depth);
    }
    let has_alternatives = NOT_AT_ROOT.iter().any(|word| fields.contains_key(*word));
    if !has_alternatives {
        return fields;
    }
    let mut properties = match fields.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    let mut required = fields
        .remove("required")
        .and_then(names)
        .unwrap_or_default();
    for word in NOT_AT_ROOT {
        let Some(Value::Array(parts)) = fields.remove(word) else {
            continue;
        };
        if !matches!(word, "allOf" | "anyOf" | "oneOf") {
            continue;
        }
        let parts = parts.into_iter().filter_map(|part| match part {
            Value::Object(part) => Some(folded(part, root, depth)),
            _ => None,
        });
        fold(parts, word == "allOf", &mut properties, &mut required);
    }
    fields.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        fields.insert("required".to_owned(), json!(required));
    }
    fields
}

fn fold(
    parts: impl Iterator<Item = Map<String, Value>>,
    all_hold: bool,
    properties: &mut Map<String, Value>,
    required: &mut Vec<String>,
) {
    let mut of_parts: Map<String, Value> = Map::new();
    let mut wanted_by_each: Option<Vec<String>> = None;
    for mut part in parts {
        let wanted = part.remove("required").and_then(names).unwrap_or_default();
        if let Some(Value::Object(of_part)) = part.remove("properties") {
            for (name, schema) in of_part {
                match of_parts.get_mut(&name) {
                    None => drop(of_parts.insert(name, json!([schema]))),
                    Some(Value::Array(known)) if !known.contains(&schema) => known.push(schema),
                    Some(_) => {}
                }
            }
        }
        wanted_by_each = Some(match wanted_by_each {
            None => wanted,
            Some(before) if all_hold => before.into_iter().chain(wanted).collect(),
            Some(before) => before
                .into_iter()
                .filter(|name| wanted.contains(name))
                .collect(),
        });
    }
    let combined = if all_hold { "allOf" } else { "anyOf" };
    for (name, schemas) in of_parts {
        let schema = match schemas {
            Value::Array(mut schemas) if schemas.len() == 1 => schemas.remove(0),
            schemas => json!({ combined: schemas }),
        };
        properties.entry(name).or_insert(schema);
    }
    required.extend(wanted_by_each.unwrap_or_default());
}
