//! Forms that ask for a secret, and the links in what a form says.

use ghostlight_actors::safety;
use reqwest::Url;
use serde_json::{Map, Value};

/// The longest name or text of a form that is told, and the most characters of a text that are read.
const NAME: usize = 300;
const TEXT: usize = 8_000;

/// The words by which a field asks for a secret, as its name or in a text, beside those of [`safety::is_secret_key`].
const SECRETS: [&str; 16] = [
    "passphrase",
    "passcode",
    "secret",
    "secrets",
    "token",
    "apikey",
    "credential",
    "credentials",
    "cvv",
    "cvc",
    "otp",
    "passwort",
    "kennwort",
    "contraseña",
    "пароль",
    "密码",
];
/// Pairs of words by which a text asks for a secret.
const PAIRS: [&str; 12] = [
    "pass word",
    "pass phrase",
    "api key",
    "access key",
    "private key",
    "signing key",
    "seed phrase",
    "recovery code",
    "card number",
    "pin code",
    "your pin",
    "the pin",
];
/// Words of names of secrets that texts use for other things.
const USUAL: [&str; 4] = ["authorization", "cookie", "cookies", "bearer"];
/// Schemes of addresses that a browser must not open.
const SCHEMES: [&str; 6] = ["javascript", "vbscript", "data", "file", "blob", "about"];

/// The part of a form that asks for a secret: a field by its name, title, description or format, or the form's own text.
/// A field that only takes a yes or no, or one of its options, asks for none by a text.
pub(crate) fn secret_of(message: &str, schema: &Value) -> Option<String> {
    let fields = schema.get("properties").and_then(Value::as_object);
    let fields = fields.into_iter().flatten();
    let fields = fields.filter(|(_, field)| field.get("type").is_none_or(|kind| kind != "boolean"));
    let said = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut takes_text = false;
    for (name, field) in fields {
        let is_free = !["enum", "oneOf", "anyOf", "items"]
            .iter()
            .any(|key| field.get(key).is_some());
        let format = said(field, "format").unwrap_or_default();
        let title = said(field, "title").unwrap_or_default();
        let description = said(field, "description").unwrap_or_default();
        let is_named = names_secret(name) || names_secret(&format);
        let is_told = is_free && (mentions_secret(&title) || mentions_secret(&description));
        if is_named || is_told || field.get("writeOnly") == Some(&Value::Bool(true)) {
            return Some(format!("the field {}", safety::sanitize_line(name, NAME)));
        }
        takes_text |= is_free;
    }
    let title = said(schema, "title").unwrap_or_default();
    let description = said(schema, "description").unwrap_or_default();
    let mut own = [message, &title, &description].into_iter();
    (takes_text && own.any(mentions_secret)).then(|| "its text".to_owned())
}

/// Marks the fields of the forms in a message, where only a part of their schema that the SDK does not read says that
/// they take a secret.
pub(crate) fn mark(message: &mut Value) {
    let asked = message.pointer_mut("/params/requestedSchema/properties");
    if let Some(Value::Object(fields)) = asked {
        mark_fields(fields);
    }
    if let Some(Value::Object(requests)) = message.pointer_mut("/result/inputRequests") {
        for request in requests.values_mut() {
            if let Some(Value::Object(fields)) =
                request.pointer_mut("/params/requestedSchema/properties")
            {
                mark_fields(fields);
            }
        }
    }
}

fn mark_fields(fields: &mut Map<String, Value>) {
    for field in fields.values_mut().filter_map(Value::as_object_mut) {
        let is_password = field
            .get("format")
            .is_some_and(|format| format == "password");
        if is_password || field.get("writeOnly") == Some(&Value::Bool(true)) {
            field.remove("format");
            field.insert("title".to_owned(), "a secret".into());
        }
    }
}

/// The first address in a text that a browser must not open: of a scheme that runs code or reads files, or neither of
/// https nor on this machine.
pub(crate) fn unsafe_address(text: &str) -> Option<String> {
    let text = safety::sanitize_line(text, TEXT);
    let lower = text.to_ascii_lowercase();
    let mut rest = 0;
    while let Some(colon) = lower[rest..].find(':').map(|at| rest + at) {
        rest = colon + 1;
        let is_in_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let start = lower[..colon].rfind(|c| !is_in_scheme(c));
        let start = start.map_or(0, |at| {
            at + lower[at..].chars().next().map_or(1, char::len_utf8)
        });
        let (scheme, after) = (&lower[start..colon], &lower[colon + 1..]);
        let is_forbidden =
            SCHEMES.contains(&scheme) && after.starts_with(|c: char| !c.is_whitespace());
        let ends = |c: char| c.is_whitespace() || "<>\"'`)]}|".contains(c);
        let end = after.find(ends).map_or(text.len(), |at| colon + 1 + at);
        let address = &text[start..end];
        let is_address = !scheme.is_empty() && after.starts_with("//");
        if is_forbidden || (is_address && !is_web_address(address)) {
            return Some(safety::sanitize_line(address, NAME));
        }
    }
    None
}

/// Whether an address is of https, or of http on this machine, and hides no other host behind a name.
pub(crate) fn is_web_address(address: &str) -> bool {
    let Ok(url) = Url::parse(address) else {
        return false;
    };
    let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let has_user = !url.username().is_empty() || url.password().is_some();
    !has_user && (url.scheme() == "https" || (url.scheme() == "http" && is_local))
}

/// Whether the name of a field has a word for secrets, however its words are joined.
fn names_secret(name: &str) -> bool {
    let mut spaced = String::new();
    let mut was_lower = false;
    for one in name.chars() {
        if one.is_uppercase() && was_lower {
            spaced.push(' ');
        }
        was_lower = one.is_lowercase();
        spaced.extend(one.to_lowercase());
    }
    let mut words = spaced.split(|one: char| !one.is_alphanumeric());
    safety::is_secret_key(name) || words.any(|word| word == "pin" || SECRETS.contains(&word))
}

/// Whether a text speaks of a secret.
fn mentions_secret(text: &str) -> bool {
    let text = safety::sanitize_line(text, TEXT);
    let words: Vec<&str> = text
        .split(|one: char| !one.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let is_secret = |word: &&str| {
        let lower = word.to_lowercase();
        let is_name = safety::is_secret_key(word) && !USUAL.contains(&lower.as_str());
        is_name || *word == "PIN" || SECRETS.contains(&lower.as_str())
    };
    let is_pair = |pair: &[&str]| PAIRS.contains(&pair.join(" ").to_lowercase().as_str());
    words.iter().any(is_secret) || words.windows(2).any(is_pair)
}

#[cfg(test)]
mod tests {
    use rmcp::model::ElicitRequestParams;
    use serde_json::json;

    use super::*;

    fn asks_for_secret(message: &str, field: Value) -> bool {
        let schema = json!({ "type": "object", "properties": field });
        secret_of(message, &schema).is_some()
    }

    #[test]
    fn a_form_asks_for_a_secret_by_any_part_of_it() {
        for (message, field) in [
            ("Sign in", json!({ "password": { "type": "string" } })),
            ("Sign in", json!({ "userPassword": { "type": "string" } })),
            ("Sign in", json!({ "api_key": { "type": "string" } })),
            ("Sign in", json!({ "pin": { "type": "integer" } })),
            (
                "Sign in",
                json!({ "x": { "type": "string" }, "accessToken": { "type": "string" } }),
            ),
            (
                "Sign in",
                json!({ "x": { "type": "string", "title": "Your password" } }),
            ),
            (
                "Sign in",
                json!({ "x": { "type": "string", "description": "The pass\u{200b}word of ada" } }),
            ),
            (
                "Sign in",
                json!({ "x": { "type": "string", "description": "Ihr Passwort" } }),
            ),
            (
                "Sign in",
                json!({ "x": { "type": "string", "description": "the ｐａｓｓｗｏｒｄ" } }),
            ),
            (
                "Sign in",
                json!({ "x": { "type": "integer", "description": "Your PIN" } }),
            ),
            (
                "Sign in",
                json!({ "x": { "type": "string", "format": "password" } }),
            ),
            (
                "Sign in",
                json!({ "x": { "type": "string", "writeOnly": true } }),
            ),
            ("Enter your password", json!({ "x": { "type": "string" } })),
            (
                "Which API key shall I use?",
                json!({ "x": { "type": "string" } }),
            ),
        ] {
            assert!(asks_for_secret(message, field.clone()), "{message} {field}");
        }
        let titled = json!({ "title": "Your token", "properties": { "x": { "type": "string" } } });
        assert!(secret_of("Sign in", &titled).is_some());
    }

    #[test]
    fn a_form_that_only_speaks_of_secrets_is_shown() {
        for (message, field) in [
            ("Who are you?", json!({ "name": { "type": "string" } })),
            ("Where?", json!({ "pinned": { "type": "string" } })),
            (
                "Reset it?",
                json!({ "reset_password": { "type": "boolean" } }),
            ),
            (
                "Delete the password of ada?",
                json!({ "ok": { "type": "boolean" } }),
            ),
            (
                "Which secret is to be rotated?",
                json!({ "x": { "type": "string", "enum": ["db", "mail"] } }),
            ),
            (
                "How many tokens at the most?",
                json!({ "max_tokens": { "type": "integer" } }),
            ),
            (
                "Your pinned notes, and what you pass on",
                json!({ "note": { "type": "string" } }),
            ),
        ] {
            assert!(
                !asks_for_secret(message, field.clone()),
                "{message} {field}"
            );
        }
    }

    #[test]
    fn a_mark_makes_a_field_ask_for_a_secret_wherever_the_form_stands() {
        for field in [
            json!({ "type": "string", "writeOnly": true }),
            json!({ "type": "string", "format": "password" }),
        ] {
            let form = json!({ "message": "Sign in", "requestedSchema": { "type": "object", "properties": { "x": field } } });
            let mut asked = json!({ "method": "elicitation/create", "params": form });
            let request = json!({ "method": "elicitation/create", "params": form });
            let mut wanted = json!({ "result": { "inputRequests": { "a": request } } });
            for message in [&mut asked, &mut wanted] {
                mark(message);
            }
            for form in [
                &asked["params"],
                &wanted["result"]["inputRequests"]["a"]["params"],
            ] {
                let field = &form["requestedSchema"]["properties"]["x"];
                assert_eq!(field["title"], "a secret");
                assert_eq!(field.get("format"), None);
                let read: ElicitRequestParams = serde_json::from_value(form.clone()).unwrap();
                let ElicitRequestParams::FormElicitationParams {
                    requested_schema, ..
                } = read
                else {
                    panic!("{form}");
                };
                let read = serde_json::to_value(requested_schema).unwrap();
                assert!(secret_of("Sign in", &read).is_some(), "{read}");
            }
        }
    }

    #[test]
    fn only_addresses_of_the_web_are_opened() {
        for address in [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "http://example.com/",
            "https://bank.example@evil.example/",
            "data:text/html,x",
            "x",
        ] {
            assert!(!is_web_address(address), "{address}");
        }
        for address in [
            "https://example.com/",
            "http://localhost:3000/",
            "http://127.0.0.1/",
        ] {
            assert!(is_web_address(address), "{address}");
        }
    }

    #[test]
    fn a_link_in_a_text_that_must_not_be_opened_is_found() {
        for text in [
            "Click [here](javascript:alert(1)) to go on",
            "see FILE:///etc/passwd",
            "open http://192.168.0.1/admin.",
            "ö<http://example.com/>",
            "go to ftp://example.com/x",
            "data:text/html,x",
        ] {
            assert!(unsafe_address(text).is_some(), "{text}");
        }
        for text in [
            "See https://example.com/a?b=c, or http://localhost:3000/",
            "A file: the newest. Data: none. At 12:30, a::b",
            "",
        ] {
            assert_eq!(unsafe_address(text), None, "{text}");
        }
    }
}
