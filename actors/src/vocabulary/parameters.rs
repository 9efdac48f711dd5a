//! The schemas of arguments as providers accept them.

use serde_json::{Map, Value, json};

/// The combinators that providers refuse at the root of a schema.
const COMBINATORS: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// A schema of arguments, repaired where others write it in a way that providers refuse: an object at its root, with
/// properties that are schemas, and requirements that are names of them. What stands in alternatives at the root is
/// folded into one object. The tool's own check of its arguments stays the stricter one.
///
/// # Errors
/// It describes something else than an object, so nothing could call the tool.
pub(crate) fn legal(schema: &Value) -> Result<Value, String> {
    let mut root = match schema {
        Value::Object(root) => root.clone(),
        Value::Null | Value::Bool(true) => Map::new(),
        _ => return Err("the schema of its arguments is no object".to_owned()),
    };
    let is_object = match root.get("type") {
        None | Some(Value::Null) => true,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
    };
    if !is_object {
        return Err(format!("its arguments are no object but {}", root["type"]));
    }
    root.insert("type".to_owned(), json!("object"));
    let mut properties = properties(&mut root);
    let mut required = names(root.remove("required"));
    // Some servers write the list of requirements in among the properties.
    if properties.get("required").is_some_and(Value::is_array) {
        required.extend(names(properties.remove("required")));
    }
    for combinator in COMBINATORS {
        let Some(Value::Array(parts)) = root.remove(combinator) else {
            continue;
        };
        fold(parts, combinator == "allOf", &mut properties, &mut required);
    }
    required.retain(|name| properties.contains_key(name));
    required.sort();
    required.dedup();
    if !required.is_empty() {
        root.insert("required".to_owned(), json!(required));
    }
    let mut properties = Value::Object(properties);
    mend(&mut properties);
    root.insert("properties".to_owned(), properties);
    Ok(Value::Object(root))
}

/// Folds the parts of a combinator into the properties of the root. What only one of several alternatives requires is
/// not required.
fn fold(
    parts: Vec<Value>,
    all_hold: bool,
    properties_of_all: &mut Map<String, Value>,
    required: &mut Vec<String>,
) {
    let mut of_each: Option<Vec<String>> = None;
    for part in parts {
        let Value::Object(mut part) = part else {
            continue;
        };
        let wanted = names(part.remove("required"));
        for (name, schema) in properties(&mut part) {
            properties_of_all.entry(name).or_insert(schema);
        }
        of_each = Some(match of_each {
            None => wanted,
            Some(before) if all_hold => before.into_iter().chain(wanted).collect(),
            Some(before) => before
                .into_iter()
                .filter(|name| wanted.contains(name))
                .collect(),
        });
    }
    required.extend(of_each.unwrap_or_default());
}

fn properties(root: &mut Map<String, Value>) -> Map<String, Value> {
    match root.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    }
}

fn names(list: Option<Value>) -> Vec<String> {
    let list = list.as_ref().and_then(Value::as_array);
    let names = list.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

/// Mends each schema of a map of properties: what is no schema, or has no type where it names one, says nothing.
fn mend(properties: &mut Value) {
    let properties = properties.as_object_mut().into_iter().flatten();
    for (_, schema) in properties {
        let Value::Object(fields) = schema else {
            *schema = json!({});
            continue;
        };
        if fields.get("type").is_some_and(Value::is_null) {
            fields.remove("type");
        }
        if fields
            .get("required")
            .is_some_and(|required| !required.is_array())
        {
            fields.remove("required");
        }
        match fields.get_mut("properties") {
            Some(inner @ Value::Object(_)) => mend(inner),
            Some(inner) => *inner = json!({}),
            None => {}
        }
        if let Some(items) = fields.get_mut("items")
            && items.is_object()
        {
            let mut one = json!({ "items": items.take() });
            mend(&mut one);
            *items = one["items"].take();
        }
    }
}
