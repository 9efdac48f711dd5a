//! How Python reads numbers and compares values, as far as the official checkers depend on it.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// The digits of all scripts. `None` cannot happen: the pattern is a constant.
static DIGIT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Nd}$").ok());

/// The characters that `\w` finds. `None` cannot happen here either.
static WORD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{L}\p{N}_]$").ok());

/// Whether `\w` finds this character.
pub(super) fn is_word(c: char) -> bool {
    is_in(&WORD, c)
}

fn is_in(class: &Option<Regex>, c: char) -> bool {
    let class = class.as_ref();
    class.is_some_and(|class| class.is_match(c.encode_utf8(&mut [0; 4])))
}

/// Whether `str.isspace` holds.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The value of a decimal digit of any script. The digits of a script stand one behind the other from its zero on, and
/// some blocks hold several scripts.
fn digit(c: char) -> Option<char> {
    if c.is_ascii() {
        return c.is_ascii_digit().then_some(c);
    }
    let is_digit = |c: char| is_in(&DIGIT, c);
    if !is_digit(c) {
        return None;
    }
    let before = (0..u32::from(c)).rev().map_while(char::from_u32);
    let before = before.take_while(|before| is_digit(*before)).count();
    char::from_digit((before % 10) as u32, 10)
}

/// `float(text)`; `None` where it raises.
pub(super) fn float(text: &str) -> Option<f64> {
    plain(text)?.parse().ok()
}

/// A number's text with the digits of ASCII, and without underscores between digits; `None` where one stands elsewhere.
fn plain(text: &str) -> Option<String> {
    let characters: Vec<char> = text
        .trim_matches(is_space)
        .chars()
        .map(|c| digit(c).unwrap_or(c))
        .collect();
    let is_digit = |place: Option<usize>| {
        let c = place.and_then(|place| characters.get(place));
        c.is_some_and(char::is_ascii_digit)
    };
    let mut number = String::with_capacity(characters.len());
    for (place, c) in characters.iter().enumerate() {
        match c {
            '_' if is_digit(place.checked_sub(1)) && is_digit(Some(place + 1)) => {}
            '_' => return None,
            c => number.push(*c),
        }
    }
    Some(number)
}

/// `int(text)`; `None` where it raises. A number beyond 64 bits is one with a point.
pub(super) fn int(text: &str) -> Option<Value> {
    let plain = plain(text)?;
    let digits = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    match plain.parse::<i64>() {
        Ok(number) => Some(number.into()),
        Err(_) => plain.parse::<f64>().ok().map(Value::from),
    }
}

/// The type of a value, as `type` gives it after JSON was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Bool,
    Int,
    Float,
    Str,
    List,
    Dict,
}

pub(super) fn type_of(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Number(number) if number.is_f64() => Type::Float,
        Value::Number(_) => Type::Int,
        Value::String(_) => Type::Str,
        Value::Array(_) => Type::List,
        Value::Object(_) => Type::Dict,
    }
}

/// `a == b`: numbers by value, and truth values as the numbers 0 and 1.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let same = |(name, a): (&String, &Value)| b.get(name).is_some_and(|b| equal(a, b));
            a.len() == b.len() && a.iter().all(same)
        }
        (a, b) if a == b => true,
        (a, b) => match (number(a), number(b)) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        },
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(value) => Some(f64::from(u8::from(*value))),
        Value::Number(number) => number.as_f64(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_read_as_python_reads_them() {
        for (text, expected) in [
            (" 1_000.5\u{a0}", Some(1000.5)),
            ("\u{1c}7\u{1f}", Some(7.0)),
            ("1__0", None),
            ("_1", None),
            ("1_", None),
            ("1e1_0", Some(1e10)),
            ("1_.5", None),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("+5", Some(5.0)),
            ("", None),
            ("0x10", None),
            ("1 2", None),
            ("\u{661}\u{662}", Some(12.0)),
            ("\u{1d7d8}\u{1d7e3}", Some(1.0)),
            ("Infinity", Some(f64::INFINITY)),
            ("1e999", Some(f64::INFINITY)),
        ] {
            assert_eq!(float(text), expected, "{text:?}");
        }
        assert!(float("NaN").is_some_and(f64::is_nan));
    }

    #[test]
    fn values_are_compared_as_python_compares_them() {
        assert!(equal(&json!([1, true]), &json!([1.0, 1])));
        assert!(!equal(&json!("1"), &json!(1)));
        assert!(!equal(&json!(null), &json!(0)));
    }
}
