//! JSON that models write, as types. To JSON Schema `2.0` is an integer, and to serde it is none; and models write `null`
//! for what they leave out.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A value as a type. Where it does not fit as it is written, a whole number counts as an integer, and a member that is
/// `null` as left out. Members of members are left as they are: a map may say something by them.
pub(crate) fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    T::deserialize(value).or_else(|fault| written_otherwise(value).ok_or(fault))
}

/// The same for a text.
pub(crate) fn typed_text<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text).or_else(|fault| {
        let value: Option<Value> = serde_json::from_str(text).ok();
        value
            .and_then(|value| written_otherwise(&value))
            .ok_or(fault)
    })
}

fn written_otherwise<T: DeserializeOwned>(value: &Value) -> Option<T> {
    let (mut whole, mut left_out) = (value.clone(), value.clone());
    let (has_whole, has_null) = (as_integers(&mut whole), leave_out(&mut left_out));
    if has_whole && let Ok(read) = T::deserialize(&whole) {
        return Some(read);
    }
    if !has_null {
        return None;
    }
    T::deserialize(left_out).ok().or_else(|| {
        leave_out(&mut whole);
        T::deserialize(whole).ok()
    })
}

/// Takes out the members that are `null`. `true` if there were any.
fn leave_out(value: &mut Value) -> bool {
    let Value::Object(members) = value else {
        return false;
    };
    let before = members.len();
    members.retain(|_, member| !member.is_null());
    members.len() < before
}

/// Writes whole numbers as integers, as far as they are exact. `true` if there were any that are written otherwise.
fn as_integers(value: &mut Value) -> bool {
    /// Up to here every whole number has a form of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|_| number.is_f64());
            let whole = whole.filter(|whole| whole.fract() == 0.0 && whole.abs() <= EXACT);
            let integer = whole.and_then(|whole| format!("{whole:.0}").parse::<i64>().ok());
            if let Some(integer) = integer {
                *value = integer.into();
            }
            integer.is_some()
        }
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |any, item| as_integers(item) | any),
        Value::Object(members) => {
            let mut members = members.values_mut();
            members
                .by_ref()
                .fold(false, |any, member| as_integers(member) | any)
        }
        _ => false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_an_integer_where_one_is_wanted_and_nowhere_else() {
        assert_eq!(
            typed_text::<Vec<i8>>("[1.0, 2, -3e0, -0.0]").unwrap(),
            [1, 2, -3, 0]
        );
        assert_eq!(typed_text::<(u8, f64)>("[2.0, 2.0]").unwrap(), (2, 2.0));
        let kept: Value = typed_text(r#"{"a": 2.0}"#).unwrap();
        assert_eq!(kept.to_string(), r#"{"a":2.0}"#);
        for text in ["null", "2.5", "1e300", "-1.0", "256.0", "2.0x"] {
            let fault = typed_text::<u8>(text).unwrap_err().to_string();
            assert_eq!(
                fault,
                serde_json::from_str::<u8>(text).unwrap_err().to_string()
            );
        }
    }

    #[test]
    fn a_null_for_what_has_a_default_counts_as_left_out_and_others_are_kept() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        #[serde(default)]
        struct Wanted {
            limit: u32,
            scope: Option<String>,
            changes: Value,
        }
        impl Default for Wanted {
            fn default() -> Self {
                let (limit, changes) = (7, Value::Bool(true));
                Self {
                    limit,
                    scope: None,
                    changes,
                }
            }
        }
        let read = |text: &str| {
            let wanted: Wanted = typed_text(text).unwrap();
            (wanted.limit, wanted.changes.to_string())
        };
        for (text, limit, changes) in [
            (r#"{"limit": null, "scope": null}"#, 7, "true"),
            (
                r#"{"limit": 2.0, "changes": {"a": null}}"#,
                2,
                r#"{"a":null}"#,
            ),
            (
                r#"{"limit": null, "changes": {"a": null, "b": 2.0}}"#,
                7,
                r#"{"a":null,"b":2.0}"#,
            ),
            (r#"{"limit": 3, "changes": null}"#, 3, "null"),
        ] {
            assert_eq!(read(text), (limit, changes.to_owned()), "{text}");
        }
    }
}
