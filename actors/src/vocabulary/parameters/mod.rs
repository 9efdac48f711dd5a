//! The schemas of arguments as providers accept them.

mod keywords;
mod root;

use std::{borrow::Cow, collections::HashSet};

use serde_json::{Map, Value, json};

use self::keywords::KEYWORDS;

/// The types of JSON.
const TYPES: [&str; 7] = [
    "object", "array", "string", "number", "integer", "boolean", "null",
];
/// Other names of types, as they are in use.
const OTHER_NAMES: [(&str, &str); 8] = [
    ("bool", "boolean"),
    ("dict", "object"),
    ("double", "number"),
    ("float", "number"),
    ("int", "integer"),
    ("list", "array"),
    ("none", "null"),
    ("str", "string"),
];

/// A schema of arguments that nothing could call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the arguments are no object but {found}: no model can call the tool")]
pub struct ParametersError {
    found: String,
}

/// A schema of a tool's arguments as every provider accepts it: at its root an object without alternatives, and below it
/// JSON Schema of draft 2020-12 alone. Words of other drafts and other names of types are repaired, words that mean nothing
/// are left out, and alternatives at the root are folded into one object. It accepts what the given schema accepts, and may accept
/// more, so that a tool still checks its arguments itself.
///
/// # Errors
/// It describes something else than an object, so nothing could call the tool.
pub fn legal_parameters(schema: &Value) -> Result<Cow<'_, Value>, ParametersError> {
    let mut legal = root::legal(schema)?;
    leave_out_dangling(&mut legal);
    Ok(match legal == *schema {
        true => Cow::Borrowed(schema),
        false => Cow::Owned(legal),
    })
}

/// A schema below the root. A value that is no schema becomes one that accepts everything.
fn legal(schema: Value) -> Value {
    match schema {
        Value::Object(fields) => Value::Object(legal_fields(fields)),
        Value::Bool(false) => schema,
        _ => json!({}),
    }
}

fn legal_fields(mut fields: Map<String, Value>) -> Map<String, Value> {
    legal_type(&mut fields);
    legal_bound(&mut fields, "exclusiveMinimum", "minimum");
    legal_bound(&mut fields, "exclusiveMaximum", "maximum");
    legal_items(&mut fields);
    legal_properties(&mut fields);
    for (word, holds) in KEYWORDS {
        let Some(value) = fields.get_mut(word) else {
            continue;
        };
        match holds.legal(std::mem::take(value)) {
            Some(legal) => *value = legal,
            None => drop(fields.remove(word)),
        }
    }
    fields
}

/// The type as a word of JSON Schema, or a list of some. An unknown type is left out.
fn legal_type(fields: &mut Map<String, Value>) {
    let word = |name: &Value| -> Option<Value> {
        let name = match name {
            Value::Null => "null".to_owned(),
            name => name.as_str()?.to_ascii_lowercase(),
        };
        let other = OTHER_NAMES.iter().find(|(other, _)| *other == name);
        let name = other.map_or(name.as_str(), |(_, known)| known);
        TYPES.contains(&name).then(|| json!(name))
    };
    let legal = match fields.get("type") {
        None => return,
        Some(Value::Array(names)) => {
            let mut words: Vec<Value> = Vec::new();
            for name in names {
                match word(name) {
                    Some(word) if words.contains(&word) => {}
                    Some(word) => words.push(word),
                    // One of them is anything.
                    None => words.clear(),
                }
                if words.is_empty() {
                    break;
                }
            }
            (!words.is_empty()).then_some(Value::Array(words))
        }
        Some(Value::Null) => None,
        Some(name) => word(name),
    };
    match legal {
        Some(legal) => drop(fields.insert("type".to_owned(), legal)),
        None => drop(fields.remove("type")),
    }
}

/// Draft 4 says `exclusiveMinimum: true` beside the minimum.
fn legal_bound(fields: &mut Map<String, Value>, exclusive: &str, inclusive: &str) {
    if fields.get(exclusive) == Some(&Value::Bool(true)) {
        match fields.remove(inclusive) {
            Some(bound) => drop(fields.insert(exclusive.to_owned(), bound)),
            None => drop(fields.remove(exclusive)),
        }
    }
}

/// Each array says what its items are, by one schema.
fn legal_items(fields: &mut Map<String, Value>) {
    if fields.get("items").is_some_and(Value::is_array)
        && let Some(items) = fields.remove("items")
    {
        // Draft 7 says so what each of them is.
        let rest = fields.remove("additionalItems");
        fields.insert("prefixItems".to_owned(), items);
        fields.insert("items".to_owned(), rest.unwrap_or_else(|| json!({})));
    }
    let is_array = |kind: &Value| match kind {
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "array"),
        kind => kind == "array",
    };
    let is_schema = |items: &Value| items.is_object() || items.is_boolean();
    if fields.get("type").is_some_and(is_array) && !fields.get("items").is_some_and(is_schema) {
        fields.insert("items".to_owned(), json!({}));
    }
}

/// Properties are schemas, and requirements are names of them. Some servers write the list of requirements in among the
/// properties, or `required: true` into a property.
fn legal_properties(fields: &mut Map<String, Value>) {
    let Some(properties) = fields.get_mut("properties") else {
        return;
    };
    let mut further = Vec::new();
    if let Value::Object(properties) = properties {
        if let Some(Value::Array(_)) = properties.get("required") {
            further.extend(properties.remove("required").and_then(names));
        }
        for (name, property) in &mut *properties {
            if property.get("required") == Some(&Value::Bool(true)) {
                further.push(vec![name.clone()]);
            }
        }
    } else {
        *properties = json!({});
    }
    let mut required = fields.remove("required").and_then(names);
    if !further.is_empty() {
        required.get_or_insert_default().extend(further.concat());
    }
    let (Some(mut required), Some(Value::Object(properties))) =
        (required, fields.get("properties"))
    else {
        return;
    };
    let was_empty = required.is_empty();
    let mut seen = HashSet::new();
    required.retain(|name| properties.contains_key(name) && seen.insert(name.clone()));
    if was_empty || !required.is_empty() {
        fields.insert("required".to_owned(), json!(required));
    }
}

/// The names of a list; `None` if it is none.
fn names(list: Value) -> Option<Vec<String>> {
    let Value::Array(list) = list else {
        return None;
    };
    let name = |name: Value| match name {
        Value::String(name) => Some(name),
        _ => None,
    };
    Some(list.into_iter().filter_map(name).collect())
}

/// Leaves out each reference to nothing.
fn leave_out_dangling(schema: &mut Value) {
    fn places(schema: &Value, found: &mut Vec<String>) {
        if let Some(place) = schema.get("$ref").and_then(Value::as_str) {
            found.push(place.to_owned());
        }
        keywords::below(schema).for_each(|below| places(below, found));
    }
    fn leave_out(schema: &mut Value, dangling: &[String]) {
        if let Value::Object(fields) = schema
            && let Some(Value::String(place)) = fields.get("$ref")
            && dangling.contains(place)
        {
            fields.remove("$ref");
        }
        keywords::below_mut(schema).for_each(|below| leave_out(below, dangling));
    }
    let mut dangling = Vec::new();
    places(schema, &mut dangling);
    dangling.retain(|place| root::found(schema, place).is_none());
    if !dangling.is_empty() {
        leave_out(schema, &dangling);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
