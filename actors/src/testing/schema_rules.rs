//! The demands of model servers on the schemas of tools.

use serde_json::{Map, Value};

/// The words that no provider takes at the root.
const NOT_AT_ROOT: [&str; 6] = ["anyOf", "oneOf", "allOf", "enum", "not", "$ref"];
const TYPES: [&str; 7] = [
    "object", "array", "string", "number", "integer", "boolean", "null",
];
const BOUNDS: [&str; 5] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];
const SIZES: [&str; 6] = [
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
];

/// Checks that a schema is one of an object, and valid down to its last property.
pub(super) fn check_schema(schema: &Value) -> Result<(), String> {
    if schema["type"] != "object" {
        return Err("its schema is not that of an object".to_owned());
    }
    if let Some(word) = NOT_AT_ROOT
        .into_iter()
        .find(|word| schema.get(word).is_some())
    {
        return Err(format!("its schema has {word} at its root"));
    }
    if !schema["properties"].is_object() {
        return Err("its schema has no properties".to_owned());
    }
    check(schema, schema).map_err(|fault| format!("{fault}: {schema}"))
}

fn check(schema: &Value, root: &Value) -> Result<(), String> {
    let fields = match schema {
        Value::Object(fields) => fields,
        Value::Bool(_) => return Ok(()),
        other => return Err(format!("{other} is no schema")),
    };
    check_type(fields)?;
    check_required(fields)?;
    let text = |word: &str| fields.get(word).is_none_or(Value::is_string);
    if let Some(word) = ["title", "description", "pattern", "format"]
        .into_iter()
        .find(|word| !text(word))
    {
        return Err(format!("{word} is no text"));
    }
    let no_number = |word: &str| fields.get(word).is_some_and(|bound| !bound.is_number());
    if let Some(word) = BOUNDS.into_iter().find(|word| no_number(word)) {
        return Err(format!("{word} is no number"));
    }
    let no_count = |word: &str| fields.get(word).is_some_and(|size| !size.is_u64());
    if let Some(word) = SIZES.into_iter().find(|word| no_count(word)) {
        return Err(format!("{word} is no count"));
    }
    let is_list = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
    if fields.get("enum").is_some_and(|values| !is_list(values)) {
        return Err("enum has no values".to_owned());
    }
    match fields.get("$ref") {
        None => {}
        Some(Value::String(place)) => {
            let found = place
                .strip_prefix('#')
                .and_then(|place| root.pointer(place));
            found.ok_or_else(|| format!("{place} means nothing"))?;
        }
        Some(_) => return Err("$ref is no text".to_owned()),
    }
    for (word, value) in fields {
        let below: Vec<&Value> = match word.as_str() {
            "items"
            | "contains"
            | "additionalProperties"
            | "propertyNames"
            | "not"
            | "if"
            | "then"
            | "else" => vec![value],
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => match value {
                Value::Array(list) if !list.is_empty() => list.iter().collect(),
                _ => return Err(format!("{word} has no schemas")),
            },
            "properties" | "$defs" | "definitions" | "patternProperties" => match value {
                Value::Object(named) => named.values().collect(),
                _ => return Err(format!("{word} is no map of schemas")),
            },
            _ => continue,
        };
        for schema in below {
            check(schema, root).map_err(|fault| format!("below {word}: {fault}"))?;
        }
    }
    Ok(())
}

fn check_type(fields: &Map<String, Value>) -> Result<(), String> {
    let is_word = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
    let kinds: Vec<&Value> = match fields.get("type") {
        None => return Ok(()),
        Some(Value::Array(kinds)) if !kinds.is_empty() => kinds.iter().collect(),
        Some(kind) => vec![kind],
    };
    if let Some(kind) = kinds.iter().find(|kind| !is_word(kind)) {
        return Err(format!("{kind} is no type"));
    }
    match kinds.iter().any(|kind| *kind == "array") && !fields.contains_key("items") {
        true => Err("an array has no items".to_owned()),
        false => Ok(()),
    }
}

/// The requirements are names of properties, each once.
fn check_required(fields: &Map<String, Value>) -> Result<(), String> {
    let names = match fields.get("required") {
        None => return Ok(()),
        Some(Value::Array(names)) => names,
        Some(_) => return Err("required is no list of names".to_owned()),
    };
    let properties = fields.get("properties").and_then(Value::as_object);
    for (place, name) in names.iter().enumerate() {
        let Some(text) = name.as_str() else {
            return Err(format!("required has {name}"));
        };
        if names[..place].contains(name) {
            return Err(format!("required has {text} twice"));
        }
        if properties.is_some_and(|properties| !properties.contains_key(text)) {
            return Err(format!("required has {text}, which is no property"));
        }
    }
    Ok(())
}
