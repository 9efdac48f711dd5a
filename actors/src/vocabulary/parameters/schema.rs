//! The schemas below the root.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::keywords::{Holds, KEYWORDS};

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

/// A schema below the root. A value that is no schema becomes one that accepts everything.
fn legal(schema: Value) -> Value {
    match schema {
        Value::Object(fields) => Value::Object(legal_fields(fields)),
        Value::Bool(false) => schema,
        _ => json!({}),
    }
}

pub(super) fn legal_fields(mut fields: Map<String, Value>) -> Map<String, Value> {
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
pub(super) fn legal_type(fields: &mut Map<String, Value>) {
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
pub(super) fn names(list: Value) -> Option<Vec<String>> {
    let Value::Array(list) = list else {
        return None;
    };
    let name = |name: Value| match name {
        Value::String(name) => Some(name),
        _ => None,
    };
    Some(list.into_iter().filter_map(name).collect())
}

impl Holds {
    /// The value as it may stand under such a word; `None` if it may not.
    fn legal(self, value: Value) -> Option<Value> {
        match (self, value) {
            (Self::Schema, value @ Value::Bool(_)) => Some(value),
            (Self::Schema, value @ Value::Object(_)) => Some(legal(value)),
            (Self::Schemas, Value::Array(schemas)) if !schemas.is_empty() => {
                Some(schemas.into_iter().map(branch).collect())
            }
            (Self::Named, Value::Object(schemas)) => {
                let schemas = schemas
                    .into_iter()
                    .map(|(name, schema)| (name, legal(schema)));
                Some(Value::Object(schemas.collect::<Map<_, _>>()))
            }
            (Self::Names, list @ Value::Array(_)) => Some(names(list)?.into()),
            (Self::NamesByName, Value::Object(lists)) => {
                let lists = lists.into_iter();
                let lists = lists.filter_map(|(name, list)| Some((name, names(list)?.into())));
                Some(Value::Object(lists.collect::<Map<_, _>>()))
            }
            (Self::Positive, Value::Number(number)) if number.as_f64().is_some_and(|n| n > 0.0) => {
                Some(Value::Number(number))
            }
            (Self::Values, Value::Array(values)) if values.is_empty() => None,
            (Self::Values | Self::Examples, value @ Value::Array(_))
            | (Self::Text, value @ Value::String(_))
            | (Self::YesOrNo, value @ Value::Bool(_))
            | (Self::Number, value @ Value::Number(_)) => Some(value),
            (Self::Count, value) if value.is_u64() => Some(value),
            _ => None,
        }
    }
}

/// One of several schemas. Where its type is `null`, it means the type of that name: elsewhere nobody would write it.
fn branch(schema: Value) -> Value {
    match schema {
        Value::Object(mut fields) if fields.get("type") == Some(&Value::Null) => {
            fields.insert("type".to_owned(), Value::from("null"));
            legal(Value::Object(fields))
        }
        schema => legal(schema),
    }
}
