//! Removes secrets and paths from what is shown.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{
    cut,
    keys::{is_path_key, is_secret, is_secret_key},
    secrets::{is_reference, places},
    showing::printable_line,
};

/// The replacement for a secret.
pub const REDACTED: &str = "[redacted]";
/// The replacement for a path that leads out of the working directory.
const REDACTED_PATH: &str = "[redacted-path]";
/// The replacement for arguments that are not JSON.
const INVALID_ARGUMENTS: &str = "[redacted-invalid-arguments]";

/// How deep values are followed, JSON inside of strings included.
const MAX_DEPTH: usize = 64;
/// How many characters beyond the shown ones are searched for secrets.
const MOST_LOOKED_AT: usize = 4096;
/// The shortest secret that is taken out of a text literally.
const SHORTEST_SECRET: usize = 6;
/// How often a text is searched again after something was removed.
const MAX_PASSES: usize = 4;

/// How values are redacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redaction {
    /// How many characters of a text are shown.
    pub text: usize,
    /// How many characters of a path are shown.
    pub path: usize,
    /// Whether paths are hidden that are absolute or lead upwards.
    pub hide_paths: bool,
    /// Whether each text becomes one line without terminal control characters.
    pub one_line: bool,
    /// Whether the value is a definition: under a secret's name stand references (`${NAME}`), which are shown, or
    /// schemas, which are searched.
    pub definition: bool,
}

impl Default for Redaction {
    fn default() -> Self {
        Self {
            text: 160,
            path: 120,
            hide_paths: true,
            one_line: true,
            definition: false,
        }
    }
}

/// A value that is safe to show, with texts of at most 160 characters.
///
/// A value under a secret's name is removed whatever its type. Elsewhere texts that look like keys and absolute paths
/// under the names of paths are removed, and the same inside of strings that hold JSON.
pub fn redact(value: &Value) -> Value {
    Redaction::default().value(value)
}

/// A value without secrets and otherwise unchanged: texts keep their length and lines, and paths stay. Programs on
/// the same machine read it in this form, as `ghostlight --json` prints it.
pub fn redact_json(value: &Value) -> Value {
    Redaction::whole().value(value)
}

/// A definition of a team without secrets and otherwise unchanged, as [`redact_json`] does it: references to secrets
/// and the schemas of arguments stay.
pub fn redact_definition(value: &Value) -> Value {
    let mut redaction = Redaction::whole();
    redaction.definition = true;
    redaction.value(value)
}

/// A text in which none of these secrets is written literally. What is shorter than 6 bytes could be a word of any
/// text, and stays.
pub fn without_secrets<'s>(text: String, secrets: impl IntoIterator<Item = &'s str>) -> String {
    let secrets = secrets.into_iter().map(str::trim);
    let secrets = secrets.filter(|secret| secret.len() >= SHORTEST_SECRET);
    let mut secrets: Vec<&str> = secrets.collect();
    // One secret may be a part of another, whose rest would stay.
    secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
    let without = |text: String, secret| match text.contains(secret) {
        true => text.replace(secret, REDACTED),
        false => text,
    };
    secrets.into_iter().fold(text, without)
}

/// The arguments of a call, safe to show. Arguments that are not JSON are not shown at all.
pub fn redact_arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(value) => redact(&value),
        Err(_) => Value::String(INVALID_ARGUMENTS.to_owned()),
    }
}

/// A text as one line of a log with at most this many characters, without secrets or terminal control characters.
/// Every description of a run in words goes through it.
pub fn log_line(text: &str, characters: usize) -> String {
    // Text beyond the cut is not searched, except so much that the beginning of a secret at the cut is recognised.
    let looked_at = characters.saturating_mul(4).saturating_add(MOST_LOOKED_AT);
    let text = match text.char_indices().nth(looked_at) {
        Some((end, _)) => &text[..end],
        None => text,
    };
    printable_line(&redact_text(text), characters)
}

/// A text that is safe to show: without what looks like a key, without passwords in addresses, and without the values
/// of `password=…` and the like. Its length is not bounded.
pub fn redact_text(text: &str) -> Cow<'_, str> {
    let mut shown = redact_once(text);
    // The text that was removed may have hidden the beginning of a key.
    for _ in 0..MAX_PASSES {
        let again = match redact_once(&shown) {
            Cow::Owned(again) if again != *shown => again,
            _ => break,
        };
        shown = Cow::Owned(again);
    }
    shown
}

fn redact_once(text: &str) -> Cow<'_, str> {
    let places = places(text);
    if places.is_empty() {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = 0;
    for place in places {
        shown.push_str(&text[rest..place.start]);
        shown.push_str(REDACTED);
        rest = place.end;
    }
    shown.push_str(&text[rest..]);
    shown.into()
}

impl Redaction {
    fn whole() -> Self {
        Self {
            text: usize::MAX,
            path: usize::MAX,
            hide_paths: false,
            one_line: false,
            definition: false,
        }
    }

    /// A value that is safe to show. See [`redact`].
    pub fn value(&self, value: &Value) -> Value {
        self.at(value, None, 0)
    }

    /// The same, with at most this many characters of each text.
    #[must_use]
    pub fn texts(mut self, characters: usize) -> Self {
        self.text = characters;
        self
    }

    /// The same, with paths shown as they are.
    #[must_use]
    pub fn show_paths(mut self) -> Self {
        self.hide_paths = false;
        self
    }

    /// The value, with the paths in the arguments of these names shown unchanged.
    pub fn revealing(&self, arguments: &Value, names: &[String]) -> Value {
        let mut shown = self.value(arguments);
        let open = self.show_paths();
        for name in names {
            if let (Some(shown), Some(value)) = (shown.get_mut(name), arguments.get(name))
                && !is_secret_key(name)
            {
                *shown = open.at(value, Some(name), 1);
            }
        }
        shown
    }

    fn at(&self, value: &Value, name: Option<&str>, depth: usize) -> Value {
        if depth > MAX_DEPTH {
            return Value::String(REDACTED.to_owned());
        }
        match value {
            Value::Object(fields) => {
                let within = name;
                let shown = fields.iter().map(|(name, value)| {
                    let is_secret = is_secret(within, fields, name, value);
                    let shown = self.field(value, (name, is_secret), depth + 1);
                    (self.name(name), shown)
                });
                Value::Object(shown.collect())
            }
            Value::Array(items) if is_pairs(items) => {
                let pair = |item: &Value| match item.as_array().map(Vec::as_slice) {
                    Some([Value::String(name), value]) => {
                        let is_secret = is_secret(None, &Map::new(), name, value);
                        let shown = self.field(value, (name, is_secret), depth + 1);
                        json!([self.at(&item[0], None, depth + 1), shown])
                    }
                    _ => self.at(item, name, depth + 1),
                };
                items.iter().map(pair).collect()
            }
            Value::Array(items) => {
                let items = items.iter().map(|item| self.at(item, name, depth + 1));
                Value::Array(items.collect())
            }
            Value::String(text) if name.is_some_and(is_path_key) && !looks_like_json(text) => {
                Value::String(self.path(text))
            }
            Value::String(text) => Value::String(self.string(text, depth)),
            other => other.clone(),
        }
    }

    /// The value of a field, of which this is the name and whether that is a secret's.
    fn field(&self, value: &Value, (name, is_secret): (&str, bool), depth: usize) -> Value {
        match value {
            Value::String(text) if self.definition && stays(name, text) => value.clone(),
            Value::Array(items) if is_secret && self.definition => {
                let items = items.iter();
                let items = items.map(|item| self.field(item, (name, true), depth + 1));
                items.collect()
            }
            Value::Object(_) | Value::Bool(_) if self.definition => {
                self.at(value, Some(name), depth)
            }
            value if is_secret && !value.is_null() => Value::String(REDACTED.to_owned()),
            value => self.at(value, Some(name), depth),
        }
    }

    /// A name may itself contain a secret, or be too long.
    fn name(&self, name: &str) -> String {
        cut(&redact_text(name), self.text).into_owned()
    }

    fn string(&self, text: &str, depth: usize) -> String {
        if [REDACTED, REDACTED_PATH, INVALID_ARGUMENTS].contains(&text) {
            return text.to_owned();
        }
        if looks_like_json(text)
            && let Ok(inside) = serde_json::from_str::<Value>(text)
        {
            let shown = self.at(&inside, None, depth + 1);
            if shown == inside && !self.one_line {
                return text.to_owned();
            }
            let shown = shown.to_string();
            return cut(&redact_text(&shown), self.text).into_owned();
        }
        match self.one_line {
            true => printable_line(&redact_text(text), self.text),
            false => redact_text(text).into_owned(),
        }
    }

    fn path(&self, text: &str) -> String {
        if text == REDACTED_PATH || text == REDACTED {
            return text.to_owned();
        }
        if self.hide_paths && leads_out(text) {
            return REDACTED_PATH.to_owned();
        }
        if !self.one_line {
            return redact_text(text).into_owned();
        }
        let shown = printable_line(&redact_text(text), self.path);
        let mut shown = shown.as_str();
        while let Some(rest) = shown.strip_prefix("./") {
            shown = rest.trim_start_matches('/');
        }
        shown.to_owned()
    }
}

/// Whether a text of a definition is only the place of a secret: a reference, or under `tokens` a file.
fn stays(name: &str, text: &str) -> bool {
    let is_file = || text.contains(['/', '\\']) || text.ends_with(".json");
    is_reference(text) || (!is_secret_key(name) && is_file() && redact_text(text) == text)
}

/// Whether a list consists of names with their values: `[["password", …], …]`.
fn is_pairs(items: &[Value]) -> bool {
    let is_pair = |item: &Value| {
        matches!(
            item.as_array().map(Vec::as_slice),
            Some([Value::String(_), _])
        )
    };
    !items.is_empty() && items.iter().all(is_pair)
}

fn looks_like_json(text: &str) -> bool {
    let text = text.trim();
    (text.starts_with('{') && text.ends_with('}')) || (text.starts_with('[') && text.ends_with(']'))
}

/// Whether a path is absolute, or leads upwards.
fn leads_out(path: &str) -> bool {
    let path = path.trim();
    let mut bytes = path.bytes();
    let drive = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && bytes.next() == Some(b':')
        && matches!(bytes.next(), Some(b'/' | b'\\'));
    let file = path
        .get(..5)
        .is_some_and(|start| start.eq_ignore_ascii_case("file:"));
    let upwards = path.split(['/', '\\']).any(|part| part.trim() == "..");
    drive || file || upwards || path.starts_with(['/', '\\', '~'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_secret_that_begins_with_another_one_is_taken_out_whole() {
        let text = "a hunter2-and-more b hunter2".to_owned();
        let shown = without_secrets(text, ["hunter2", "hunter2-and-more"]);
        assert_eq!(shown, "a [redacted] b [redacted]");
    }

    #[test]
    fn secrets_are_redacted_at_every_type_and_depth() {
        let shown = redact(&json!({
            "password": "hunter2", "pin_token": 1234, "secret": true, "apiKey": { "a": 1 },
            "credentials": ["a", "b"], "client-secret": 1.5, "cookie": null,
            "list": [{ "authorization": "x" }],
        }));
        let expected = json!({
            "password": "[redacted]", "pin_token": "[redacted]", "secret": "[redacted]",
            "apiKey": "[redacted]", "credentials": "[redacted]", "client-secret": "[redacted]",
            "cookie": null, "list": [{ "authorization": "[redacted]" }],
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn json_inside_of_a_string_is_redacted_too_however_deep() {
        let inner = json!({ "token": "abc", "ok": 1 }).to_string();
        let outer = json!({ "payload": inner, "n": 1 }).to_string();
        let shown = redact(&json!({ "body": outer })).to_string();
        assert!(!shown.contains("abc"), "{shown}");
        assert!(
            shown.contains("[redacted]") && shown.contains("ok"),
            "{shown}"
        );
    }

    #[test]
    fn what_looks_like_a_key_is_redacted_wherever_it_stands() {
        for secret in [
            "sk-proj-abcdefghijklmnop1234",
            "sk_live_abcdefghijklmnop1234",
            "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
            "AKIAIOSFODNN7EXAMPLE",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc123",
            "xoxb-1234567890-abcdef",
            "Ab3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY",
        ] {
            let shown = redact(&json!({ "note": format!("use {secret} for it") }));
            assert_eq!(
                shown,
                json!({ "note": "use [redacted] for it" }),
                "{secret}"
            );
        }
        for begins in [
            "sk-ant-",
            "pk_test_",
            "rk_live_",
            "gho_",
            "ghu_",
            "ghs_",
            "ghr_",
            "github_pat_",
            "glpat-",
            "xoxp-",
            "AIza",
            "ya29.",
            "hf_",
            "gsk_",
            "xai-",
            "npm_",
            "pypi-",
            "whsec_",
            "shpat_",
            "dop_v1_",
        ] {
            let secret = format!("{begins}{}", "ab1".repeat(12));
            assert_eq!(redact_text(&secret), REDACTED, "{begins}");
        }
        let two = format!("ASIA{0} SG.{0}.{0}", "AB12".repeat(4));
        assert_eq!(redact_text(&two), "[redacted] [redacted]");
        for (text, expected) in [
            ("basic dXNlcjpwYXNz1", "basic [redacted]"),
            ("password='a b' next", "password='[redacted]' next"),
            (
                "Authorization: Bearer abcd1234efgh",
                "Authorization: Bearer [redacted]",
            ),
            (
                "postgres://me:pass@host/db",
                "postgres://[redacted]@host/db",
            ),
            ("password=hunter2 next", "password=[redacted] next"),
            (
                "curl -d '{\"api_key\":\"x y\"}'",
                "curl -d '{\"api_key\":\"[redacted]\"}'",
            ),
            (
                r#"{\"token\":\"x\",\"a\":1}"#,
                r#"{\"token\":\"[redacted]\",\"a\":1}"#,
            ),
            ("-----BEGIN RSA PRIVATE KEY-----\nabc", "[redacted]"),
        ] {
            assert_eq!(redact_text(text), expected);
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "The next token: the word after it",
            "a basic understanding of sk-learn and hf_hub",
            "AbstractSingletonProxyFactoryBeanDefinitionReader",
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "123e4567-e89b-12d3-a456-426614174000",
            "https://example.com/a?b=c",
            "let tokens = lexer.tokens();",
            "max_tokens=100",
        ] {
            assert_eq!(redact_text(text), text);
        }
        let plain = json!({
            "name": "/not/a/path/key", "max_tokens": 100, "username": "ada", "n": [1, true, null],
        });
        assert_eq!(redact(&plain), plain);
    }

    #[test]
    fn paths_that_lead_out_are_hidden_and_others_are_shown() {
        for path in [
            "/etc/passwd",
            "~/x",
            "a/../../b",
            "C:\\x",
            "\\\\host\\x",
            "file:///x",
        ] {
            assert_eq!(
                redact(&json!({ "path": path })),
                json!({ "path": REDACTED_PATH })
            );
        }
        let shown = redact(&json!({ "file": "./src/main.rs", "files": ["a.txt", "/b"] }));
        let expected = json!({ "file": "src/main.rs", "files": ["a.txt", REDACTED_PATH] });
        assert_eq!(shown, expected);
        let open = Redaction::default().show_paths();
        let path = json!({ "path": "/tmp/x" });
        assert_eq!(open.value(&path), path);
    }

    #[test]
    fn arguments_that_are_no_json_are_not_shown() {
        assert_eq!(
            redact_arguments("{\"password\": \"x"),
            json!(INVALID_ARGUMENTS)
        );
        assert_eq!(redact_arguments(" "), json!({}));
    }

    #[test]
    fn what_logs_in_is_redacted_also_where_it_looks_like_words() {
        for text in ["redis://:hunter2@host", "Authorization: Basic dXNlcjpwYXNz"] {
            let shown = redact_text(text);
            assert!(shown.contains(REDACTED), "{shown}");
            assert!(
                !shown.contains("hunter2") && !shown.contains("dXNl"),
                "{shown}"
            );
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            any::<String>(),
            "[ -~]{0,40}",
            r#"(password|token|x)[:=] ?["']?[a-z0-9"'\\ ]{0,12}"#,
            "[A-Za-z0-9]{30,40}",
            "[{\\[][\"a-z:,0-9 ]{0,20}[}\\]]",
            Just(r#"{"password":"x","b":"{\"token\":\"y\"}"}"#.to_owned()),
        ];
        let key = prop_oneof![
            Just("password".to_owned()),
            Just("path".to_owned()),
            Just("a".to_owned()),
            "[a-z]{1,4}",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key.clone(), inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    fn longest(value: &Value) -> usize {
        match value {
            Value::String(text) => text.chars().count(),
            Value::Array(items) => items.iter().map(longest).max().unwrap_or(0),
            Value::Object(fields) => fields.values().map(longest).max().unwrap_or(0),
            _ => 0,
        }
    }

    proptest! {
        #[test]
        fn redacting_twice_is_redacting_once_and_no_text_exceeds_its_bound(value in values()) {
            let once = redact(&value);
            prop_assert!(longest(&once) <= 160);
            prop_assert_eq!(redact(&once), once);
        }

        #[test]
        fn redacting_text_twice_is_redacting_it_once(text in prop_oneof![any::<String>(),
            r#"((password|Token|api_key|x)(=|: ?|":")["'\\]{0,2}[ -~]{0,9}[,;] ?){0,4}"#])
        {
            let once = redact_text(&text).into_owned();
            prop_assert_eq!(redact_text(&once), &*once);
        }

        #[test]
        fn no_secret_is_shown(secret in "[a-z0-9]{12}", depth in 0..5_usize, kind in 0..3_usize) {
            let mut value = match kind {
                0 => json!({ "userPassword": secret }),
                1 => json!({ "api-key": [{ "x": secret }] }),
                _ => json!({ "text": json!({ "secret": { "y": secret } }).to_string() }),
            };
            for level in 0..depth {
                value = if level % 2 == 0 { json!({ "in": value }) } else { json!([value.to_string()]) };
            }
            let shown = redact(&value).to_string();
            prop_assert!(!shown.contains(&secret), "{}", shown);
        }
    }
}
