//! Values of Java and JavaScript, which models write as texts, read as BFCL's checker reads them: by patterns, and as a
//! text where none fits.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::python::{float, int};

/// The language of a category's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Python,
    Java,
    JavaScript,
}

impl Language {
    pub(super) fn of(category: &str) -> Self {
        match category {
            category if category.contains("javascript") => Self::JavaScript,
            category if category.contains("java") => Self::Java,
            _ => Self::Python,
        }
    }
}

/// The patterns. `None` cannot happen: each is a constant.
macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => {
        $(static $name: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($pattern).ok());)*
    };
}

patterns! {
    WHOLE = r"^-?\d+$";
    FLOAT = r"^-?\d+(\.\d+)?([eE][+-]?\d+)?[fF]$";
    DOUBLE = r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$";
    DECIMAL = r"^-?\d+(\.\d+)?$";
    LONG = r"^-?\d+[lL]$";
    BIGINT = r"^-?\d+n$";
    AS_LIST = r"new\s+ArrayList<\w*>\(Arrays\.asList\((.+?)\)\)";
    ADDED = r"(?s)new\s+ArrayList<\w*>\(\)\s*\{\{\s*(.+?)\s*\}\}";
    ADD = r"add\((.+?)\)";
    NO_LIST = r"new\s+ArrayList<\w*>\(\)";
    ARRAY = r"new\s+\w+\[\]\s*\{(.*?)\}";
    MAP = r"(?s)new\s+HashMap<.*?>\s*\(\)\s*\{\s*\{?\s*(.*?)\s*\}?\s*\}";
    NO_MAP = r"new\s+HashMap<.*?>\s*\(\)";
    PUT = r#"put\("(.*?)",\s*(.*?)\)"#;
    LISTS = r"^(?:\[\s*\[.*?\]\s*(?:,\s*\[.*?\]\s*)*\]|\bnew\s+Array\(\s*\[.*?\]\s*(?:,\s*\[.*?\]\s*)*\))";
    INNER = r"\[(.*?)\]";
    LIST = r"^(?:\[(.*?)\]|\bnew\s+Array\((.*?)\))";
    OBJECT = r"^\{(.*?)\}";
}

fn fits(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern
        .as_ref()
        .is_some_and(|pattern| pattern.is_match(text))
}

/// The text of a group of a pattern's first match.
fn group<'t>(pattern: &LazyLock<Option<Regex>>, text: &'t str, number: usize) -> Option<&'t str> {
    let found = pattern.as_ref()?.captures(text)?;
    found.get(number).map(|found| found.as_str())
}

fn groups<'t>(pattern: &LazyLock<Option<Regex>>, text: &'t str) -> Vec<Vec<&'t str>> {
    let Some(pattern) = pattern.as_ref() else {
        return Vec::new();
    };
    let all = pattern.captures_iter(text).map(|found| {
        let groups = found.iter().skip(1).flatten();
        groups.map(|group| group.as_str()).collect()
    });
    all.collect()
}

/// A number as the language before wrote it, without its suffix.
fn number(text: &str) -> Value {
    int(text)
        .or_else(|| float(text).map(Value::from))
        .unwrap_or_else(|| text.into())
}

fn decimal(text: &str) -> Value {
    float(text).map_or_else(|| text.into(), Value::from)
}

/// The text without its first and last character, which are quotation marks where it was written well.
fn unquoted(text: &str) -> Value {
    let mut characters = text.chars();
    characters.next();
    characters.next_back();
    characters.as_str().into()
}

fn is_quoted(text: &str, by: char) -> bool {
    text.starts_with(by) && text.ends_with(by)
}

/// A value of Java. `None` where the checker fails on the type.
pub(super) fn java(text: &str, of: &str, items: Option<&str>) -> Option<Value> {
    Some(match of {
        "byte" | "short" | "integer" if fits(&WHOLE, text) => number(text),
        "float" if fits(&FLOAT, text) => decimal(&text[..text.len() - 1]),
        "double" if fits(&DOUBLE, text) => decimal(text),
        "long" if fits(&LONG, text) => number(&text[..text.len() - 1]),
        "boolean" if matches!(text, "true" | "false") => (text == "true").into(),
        "ArrayList" => java_list(text, items)?,
        "Array" => java_array(text, items)?,
        "HashMap" => java_map(text),
        "byte" | "short" | "integer" | "float" | "double" | "long" | "boolean" | "char"
        | "String" | "any" => text.into(),
        _ => return None,
    })
}

fn java_item(text: &str, items: Option<&str>) -> Option<Value> {
    match items {
        Some("char" | "String") => Some(unquoted(text)),
        Some(items) => java(text, items, None),
        None => Some(java_value(text)),
    }
}

fn java_list(text: &str, items: Option<&str>) -> Option<Value> {
    if let Some(listed) = group(&AS_LIST, text, 1) {
        let listed = listed.split(',').map(|item| java_item(item.trim(), items));
        return listed.collect();
    }
    if let Some(added) = group(&ADDED, text, 1) {
        let added = groups(&ADD, added).into_iter().flatten();
        return added.map(|item| java_item(item.trim(), items)).collect();
    }
    Some(match fits(&NO_LIST, text) {
        true => Value::Array(Vec::new()),
        false => text.into(),
    })
}

fn java_array(text: &str, items: Option<&str>) -> Option<Value> {
    let Some(listed) = group(&ARRAY, text, 1) else {
        return Some(text.into());
    };
    let listed = listed
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty());
    let values = listed.map(|item| match items {
        Some(items) => java(item, items, None),
        None => Some(java_value(item)),
    });
    values.collect()
}

fn java_map(text: &str) -> Value {
    let Some(puts) = group(&MAP, text, 1) else {
        return match fits(&NO_MAP, text) {
            true => Value::Object(Map::new()),
            false => text.into(),
        };
    };
    let puts = groups(&PUT, puts).into_iter();
    let fields: Map<String, Value> = puts
        .filter_map(|put| match put.as_slice() {
            [name, value] => Some(((*name).to_owned(), java_value(value.trim()))),
            _ => None,
        })
        .collect();
    Value::Object(fields)
}

/// A value of Java whose type is not known.
fn java_value(text: &str) -> Value {
    match text {
        "true" => true.into(),
        "false" => false.into(),
        text if is_quoted(text, '"') => unquoted(text),
        text if fits(&LONG, text) => number(&text[..text.len() - 1]),
        text if fits(&FLOAT, text) => decimal(&text[..text.len() - 1]),
        text => number(text),
    }
}

/// A value of JavaScript. `None` where the checker fails on the type.
pub(super) fn javascript(text: &str, of: &str, items: Option<&str>) -> Option<Value> {
    Some(match of {
        "String" if is_quoted(text, '"') || is_quoted(text, '\'') => unquoted(text),
        "integer" if fits(&WHOLE, text) => number(text),
        "float" if fits(&DECIMAL, text) => decimal(text),
        "Bigint" if fits(&BIGINT, text) => number(&text[..text.len() - 1]),
        "Boolean" if matches!(text, "true" | "false") => (text == "true").into(),
        "dict" => js_object(text.trim()),
        "array" => js_list(text.trim(), items),
        "String" | "integer" | "float" | "Bigint" | "Boolean" | "any" => text.into(),
        _ => return None,
    })
}

fn js_list(code: &str, items: Option<&str>) -> Value {
    if let Some(lists) = group(&LISTS, code, 0) {
        let inner = groups(&INNER, lists).into_iter().flatten().enumerate();
        let lists = inner.map(|(place, inner)| -> Value {
            let mut inner = inner.trim();
            if place == 0 {
                inner = inner.strip_prefix('[').unwrap_or(inner);
            }
            inner.split(',').map(|item| js_value(item.trim())).collect()
        });
        return lists.collect();
    }
    let listed = group(&LIST, code, 1).or_else(|| group(&LIST, code, 2));
    let Some(listed) = listed.map(str::trim) else {
        return code.into();
    };
    if listed.is_empty() {
        return Value::Array(Vec::new());
    }
    let values = listed.split(',').map(|item| match items {
        Some(items) => javascript(item.trim(), items, None),
        None => Some(js_value(item.trim())),
    });
    // What cannot be read as this type is a text.
    values
        .collect::<Option<Value>>()
        .unwrap_or_else(|| code.into())
}

fn js_object(code: &str) -> Value {
    if code == "{}" {
        return Value::Object(Map::new());
    }
    let Some(content) = group(&OBJECT, code, 1) else {
        return code.into();
    };
    let mut fields = Map::new();
    for (name, value) in js_fields(content) {
        let (name, value) = (name.trim(), value.trim());
        let quotes = ['\'', '"'];
        let value = match value {
            value if value.starts_with('[') && value.ends_with(']') => js_list(value, None),
            value if value.starts_with('{') && value.ends_with('}') => js_object(value),
            value => js_value(value.trim_matches(quotes)),
        };
        fields.insert(name.trim_matches(quotes).to_owned(), value);
    }
    Value::Object(fields)
}

/// The names and values of an object's text: a value ends at a comma behind which a name follows, or at the end.
fn js_fields(content: &str) -> Vec<(&str, &str)> {
    let (mut fields, mut rest) = (Vec::new(), content);
    loop {
        rest = rest.trim_start_matches(':');
        let Some((name, after)) = rest.split_once(':') else {
            return fields;
        };
        let after = after.trim_start();
        let names_follow = |place: &usize| {
            let behind = &after[place + 1..];
            let next = behind.split(',').next().unwrap_or_default();
            next.find(':').is_some_and(|place| place > 0)
        };
        let mut commas = after.match_indices(',').map(|(place, _)| place);
        match commas.find(names_follow) {
            Some(end) => {
                fields.push((name, &after[..end]));
                rest = after[end + 1..].trim_start();
            }
            None => {
                fields.push((name, after));
                return fields;
            }
        }
    }
}

/// A value of JavaScript whose type is not known.
fn js_value(text: &str) -> Value {
    match text.trim() {
        "true" => true.into(),
        "false" => false.into(),
        text if is_quoted(text, '"') || is_quoted(text, '\'') => unquoted(text),
        text => number(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_java_are_read_as_the_official_checker_reads_them() {
        for (text, of, items, expected) in [
            ("-5", "integer", None, json!(-5)),
            ("5L", "integer", None, json!("5L")),
            ("5L", "long", None, json!(5)),
            ("5", "long", None, json!("5")),
            ("3.5f", "float", None, json!(3.5)),
            ("3.5", "float", None, json!("3.5")),
            ("3.5", "double", None, json!(3.5)),
            ("true", "boolean", None, json!(true)),
            ("'a'", "char", None, json!("'a'")),
            (
                "new int[] { 1, 2 }",
                "Array",
                Some("integer"),
                json!([1, 2]),
            ),
            (
                "new ArrayList<>(Arrays.asList(\"a\", \"b\"))",
                "ArrayList",
                Some("String"),
                json!(["a", "b"]),
            ),
            (
                "new ArrayList<String>() {{ add(\"a\"); add(\"b\"); }}",
                "ArrayList",
                Some("String"),
                json!(["a", "b"]),
            ),
            ("new ArrayList<>()", "ArrayList", Some("String"), json!([])),
            (
                "new HashMap<String, Object>() {{ put(\"k\", 1); put(\"b\", true); }}",
                "HashMap",
                None,
                json!({ "k": 1, "b": true }),
            ),
            ("new HashMap<>() {{ }}", "HashMap", None, json!({})),
            ("aMap", "HashMap", None, json!("aMap")),
        ] {
            assert_eq!(java(text, of, items), Some(expected), "{text}");
        }
        assert_eq!(java("x", "Set", None), None);
    }

    #[test]
    fn values_of_javascript_are_read_as_the_official_checker_reads_them() {
        for (text, of, items, expected) in [
            ("'a b'", "String", None, json!("a b")),
            ("a b", "String", None, json!("a b")),
            ("5n", "Bigint", None, json!(5)),
            ("5", "Bigint", None, json!("5")),
            ("[1, 'two', true]", "array", None, json!([1, "two", true])),
            (
                "[[1, 2], [3, 4]]",
                "array",
                Some("array"),
                json!([[1, 2], [3, 4]]),
            ),
            ("new Array(4, 5)", "array", Some("integer"), json!([4, 5])),
            ("[]", "array", Some("String"), json!([])),
            ("[1, 2]", "array", Some("object"), json!("[1, 2]")),
            (
                "{\"a\": b, \"c\": [\"d\", \"e\"], 'f': 1.5}",
                "dict",
                None,
                json!({ "a": "b", "c": ["d", "e"], "f": 1.5 }),
            ),
            ("{}", "dict", None, json!({})),
            ("anObject", "dict", None, json!("anObject")),
        ] {
            assert_eq!(javascript(text, of, items), Some(expected), "{text}");
        }
        assert_eq!(javascript("x", "Set", None), None);
    }
}
