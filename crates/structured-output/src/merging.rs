//! Merges schemas that must all hold into one.

use serde_json::{Map, Value, json};

use super::strict_form::NotStrict;

/// Keywords that do not restrict values, beside a combination of schemas.
pub(super) const ANNOTATIONS: [&str; 9] = [
    "$schema",
    "$id",
    "$defs",
    "definitions",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
];

/// Adds the requirements of `part` to `whole`.
pub(super) fn merge(
    whole: &mut Map<String, Value>,
    part: &Value,
    at: &str,
) -> Result<(), NotStrict> {
    let Some(part) = part.as_object() else {
        return if *part == json!(true) {
            Ok(())
        } else {
            Err(NotStrict::AnyType { at: at.to_owned() })
        };
    };
    for (key, value) in part {
        let Some(present) = whole.get_mut(key) else {
            whole.insert(key.clone(), value.clone());
            continue;
        };
        match (key.as_str(), present, value) {
            // The outer description is about this use, and the others do not restrict values.
            (key, _, _) if ANNOTATIONS.contains(&key) => {}
            ("properties", Value::Object(present), Value::Object(more)) => {
                for (name, member) in more {
                    let same = present
                        .entry(name.clone())
                        .or_insert_with(|| member.clone());
                    if same != member {
                        let at = format!("{at}/properties/{name}");
                        return Err(NotStrict::Conflict {
                            at,
                            keyword: "properties".to_owned(),
                        });
                    }
                }
            }
            ("required", Value::Array(present), Value::Array(more)) => {
                let new: Vec<Value> = more
                    .iter()
                    .filter(|name| !present.contains(name))
                    .cloned()
                    .collect();
                present.extend(new);
            }
            // Each part is closed over its own members; the whole is closed in any case.
            ("additionalProperties" | "unevaluatedProperties", present, value)
                if *present == json!(false) || *value == json!(false) =>
            {
                *present = json!(false);
            }
            (_, present, value) if present == value => {}
            (key, _, _) => {
                let at = at.to_owned();
                return Err(NotStrict::Conflict {
                    at,
                    keyword: key.to_owned(),
                });
            }
        }
    }
    Ok(())
}

/// `schema` without the keywords `keys`.
pub(super) fn without(schema: &Map<String, Value>, keys: &[&str]) -> Map<String, Value> {
    let is_kept = |(key, _): &(&String, &Value)| !keys.contains(&key.as_str());
    schema
        .iter()
        .filter(is_kept)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}
