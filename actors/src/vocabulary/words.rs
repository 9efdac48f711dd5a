//! Values and names in sentences.

use serde_json::Value;

/// A value as a text: a string as it is, everything else as JSON.
pub(crate) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Names in a row, or "none".
pub(crate) fn listed<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let mut listed = String::new();
    for name in names {
        if !listed.is_empty() {
            listed.push_str(", ");
        }
        listed.push_str(name.as_ref());
    }
    match listed.is_empty() {
        true => "none".to_owned(),
        false => listed,
    }
}
