//! The functions that change a value in a webhook's or a notification's text.

/// A function of a place such as `{body.name | trim | or nobody}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function<'t> {
    Upper,
    Lower,
    Trim,
    /// The value as a text of JSON, with its quotation marks.
    Json,
    /// Percent-encoded, for a part of an address.
    Url,
    /// The first characters.
    Cut(usize),
    /// Another text where the value is missing or blank.
    Or(&'t str),
}

const KNOWN: &str = "there are upper, lower, trim, json, url, cut NUMBER and or TEXT";

fn read(function: &str) -> Result<Function<'_>, String> {
    let function = function.trim();
    let (name, rest) = function.split_once(' ').unwrap_or((function, ""));
    let rest = rest.trim();
    let plain = |found: Function<'static>| match rest.is_empty() {
        true => Ok(found),
        false => Err(format!(
            "gives the function `{name}` the argument `{rest}`, and it takes none"
        )),
    };
    match name {
        "upper" => plain(Function::Upper),
        "lower" => plain(Function::Lower),
        "trim" => plain(Function::Trim),
        "json" => plain(Function::Json),
        "url" => plain(Function::Url),
        "cut" => match rest.parse() {
            Ok(most) => Ok(Function::Cut(most)),
            Err(_) => Err("has `cut` without a whole number of characters".to_owned()),
        },
        "or" => Ok(Function::Or(rest)),
        _ => Err(format!("has the unknown function `{name}`; {KNOWN}")),
    }
}

/// Checks functions, separated by `|`.
pub(super) fn check(functions: &str) -> Result<(), String> {
    functions
        .split('|')
        .try_for_each(|function| read(function).map(drop))
}

/// The value after these functions, which were checked. `None` for a value that is missing.
pub(super) fn apply(functions: &str, value: Option<String>) -> Option<String> {
    let functions = functions
        .split('|')
        .filter_map(|function| read(function).ok());
    functions.fold(value, |value, function| match (function, value) {
        (Function::Or(other), None) => Some(other.to_owned()),
        (Function::Or(other), Some(value)) if value.trim().is_empty() => Some(other.to_owned()),
        (_, None) => None,
        (function, Some(value)) => Some(match function {
            Function::Upper => value.to_uppercase(),
            Function::Lower => value.to_lowercase(),
            Function::Trim => value.trim().to_owned(),
            Function::Json => serde_json::Value::String(value).to_string(),
            Function::Url => encoded(&value),
            Function::Cut(most) => value.chars().take(most).collect(),
            Function::Or(_) => value,
        }),
    })
}

/// Percent-encoded but for letters, digits, `-`, `.`, `_` and `~`.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_change_a_value_one_after_the_other() {
        for (functions, value, expected) in [
            ("upper", Some("straße"), Some("STRASSE")),
            (" trim | lower ", Some("  ABC "), Some("abc")),
            ("cut 2", Some("漢字漢"), Some("漢字")),
            ("json", Some("a\"b"), Some("\"a\\\"b\"")),
            ("url", Some("a b/ü"), Some("a%20b%2F%C3%BC")),
            ("or nobody at all", None, Some("nobody at all")),
            ("or x", Some(" "), Some("x")),
            ("upper | or x", Some("y"), Some("Y")),
            ("upper", None, None),
            ("or", None, Some("")),
        ] {
            assert_eq!(check(functions), Ok(()), "{functions}");
            let value = value.map(str::to_owned);
            let expected = expected.map(str::to_owned);
            assert_eq!(apply(functions, value), expected, "{functions}");
        }
        for wrong in ["shout", "cut", "cut many", "upper x", "", "upper |"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
