//! JSON that models write, as types: to JSON Schema `2.0` is an integer, and to serde it is none.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A value as a type. A whole number counts as an integer however it is written.
pub(crate) fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    T::deserialize(value).or_else(|fault| as_written_otherwise(value.clone()).ok_or(fault))
}

/// The same for a text.
pub(crate) fn typed_text<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text).or_else(|fault| {
        let value = serde_json::from_str(text).ok();
        value.and_then(as_written_otherwise).ok_or(fault)
    })
}

fn as_written_otherwise<T: DeserializeOwned>(mut value: Value) -> Option<T> {
    as_integers(&mut value).then(|| T::deserialize(value).ok())?
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
        for text in ["2.5", "1e300", "-1.0", "256.0", "2.0x"] {
            let fault = typed_text::<u8>(text).unwrap_err().to_string();
            assert_eq!(
                fault,
                serde_json::from_str::<u8>(text).unwrap_err().to_string()
            );
        }
    }
}
