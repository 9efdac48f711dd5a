//! Forms that ask for a secret, the options of their fields, and the links in what a form says.

use reqwest::Url;
use serde_json::{Map, Value};

/// The longest name, option or text of a form that is told, in characters.
const NAME: usize = 300;
/// The most options of a field.
const OPTIONS: usize = 50;

/// The words by which a field asks for a secret, as its name or in a text, beside those of [`ghostlight_safety::is_secret_key`].
const SECRETS: [&str; 5] = ["passwort", "kennwort", "contraseña", "пароль", "密码"];
/// Words for secrets of a few digits, so that a number can be one. In a text only `PIN` stands for the first.
const CODES: [&str; 5] = ["pin", "passcode", "otp", "cvv", "cvc"];
/// Pairs of words by which a text asks for a secret.
const PAIRS: [&str; 9] = [
    "pass word",
    "pass phrase",
    "api key",
    "access key",
    "private key",
    "signing key",
    "seed phrase",
    "recovery code",
    "card number",
];
/// Pairs of words by which a text asks for a secret of a few digits.
const CODE_PAIRS: [&str; 3] = ["pin code", "your pin", "the pin"];
/// The title of a field that is [marked](mark): it says of a text and of a number that it is a secret.
const MARK: &str = "a secret PIN";
/// Words of names of secrets that texts use for other things.
const USUAL: [&str; 4] = ["authorization", "cookie", "cookies", "bearer"];
/// Schemes of addresses that a browser must not open.
const SCHEMES: [&str; 6] = ["javascript", "vbscript", "data", "file", "blob", "about"];

/// The values that a field takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    YesOrNo,
    Number,
    Option,
    Text,
}

impl Takes {
    fn of(field: &Value) -> Self {
        let kind = field.get("type").and_then(Value::as_str);
        let choice = match kind {
            Some("boolean") => return Self::YesOrNo,
            Some("number" | "integer") => return Self::Number,
            Some("array") => field.get("items"),
            _ => Some(field),
        };
        // A choice of which nothing can be chosen is shown as a text.
        match choice.is_some_and(|choice| !options(choice).is_empty()) {
            true => Self::Option,
            false => Self::Text,
        }
    }

    /// Whether a text beside a field that takes this asks for a secret.
    fn is_asked_by(self, text: &str) -> bool {
        match self {
            Self::YesOrNo | Self::Option => false,
            Self::Number => mentions_code(text),
            Self::Text => mentions_secret(text) || mentions_code(text),
        }
    }
}

/// The part of a form that asks for a secret: a field by its name, title, description or format, or the form's own text.
/// A field that only takes a yes or no, or one of its options, asks for none by a text; one that takes a number only asks
/// for a code such as a PIN.
pub(crate) fn secret_of(message: &str, schema: &Value) -> Option<String> {
    let fields = schema.get("properties").and_then(Value::as_object);
    let said = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut taken = Vec::new();
    for (name, field) in fields.into_iter().flatten() {
        let takes = Takes::of(field);
        let title = said(field, "title").unwrap_or_default();
        let description = said(field, "description").unwrap_or_default();
        let format = said(field, "format").unwrap_or_default();
        let is_marked = names_secret(&format) || field.get("writeOnly") == Some(&Value::Bool(true));
        let is_named = match takes {
            Takes::YesOrNo => continue,
            Takes::Number => names_code(name),
            Takes::Option | Takes::Text => names_secret(name),
        };
        if is_marked || is_named || takes.is_asked_by(&title) || takes.is_asked_by(&description) {
            return Some(format!(
                "the field {}",
                ghostlight_safety::sanitize_line(name, NAME)
            ));
        }
        if !taken.contains(&takes) {
            taken.push(takes);
        }
    }
    let title = said(schema, "title").unwrap_or_default();
    let description = said(schema, "description").unwrap_or_default();
    let mut own = [message, &title, &description].into_iter();
    let is_asked = own.any(|text| taken.iter().any(|takes| takes.is_asked_by(text)));
    is_asked.then(|| "its text".to_owned())
}

/// The options of a schema: `enum` with its `enumNames`, or constants with titles. An option that cannot be shown as it
/// is is none.
pub(crate) fn options(schema: &Value) -> Vec<(String, String)> {
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    let titled = list("oneOf").or_else(|| list("anyOf"));
    if let Some(titled) = titled {
        let titled = titled.iter().take(OPTIONS).filter_map(|one| {
            let option = one.get("const")?.as_str()?;
            is_plain(option).then_some(())?;
            let label = one.get("title").and_then(Value::as_str).unwrap_or(option);
            Some((
                option.to_owned(),
                ghostlight_safety::sanitize_line(label, NAME),
            ))
        });
        return titled.collect();
    }
    let names = list("enumNames");
    let plain = list("enum").into_iter().flatten().take(OPTIONS).enumerate();
    let plain = plain.filter_map(|(place, option)| {
        let option = option.as_str()?;
        is_plain(option).then_some(())?;
        let label = names.and_then(|names| names.get(place)?.as_str());
        let label = ghostlight_safety::sanitize_line(label.unwrap_or(option), NAME);
        Some((option.to_owned(), label))
    });
    plain.collect()
}

/// Whether an option can be shown to a person as it is.
fn is_plain(option: &str) -> bool {
    ghostlight_safety::sanitize_line(option, NAME) == option
}

/// Marks the fields of the forms in a message, where only a part of their schema that the SDK does not read says that
/// they take a secret. Says whether there were any.
pub(crate) fn mark(message: &mut Value) -> bool {
    let mut is_marked = false;
    let asked = message.pointer_mut("/params/requestedSchema/properties");
    if let Some(Value::Object(fields)) = asked {
        is_marked |= mark_fields(fields);
    }
    if let Some(Value::Object(requests)) = message.pointer_mut("/result/inputRequests") {
        for request in requests.values_mut() {
            if let Some(Value::Object(fields)) =
                request.pointer_mut("/params/requestedSchema/properties")
            {
                is_marked |= mark_fields(fields);
            }
        }
    }
    is_marked
}

fn mark_fields(fields: &mut Map<String, Value>) -> bool {
    let mut is_marked = false;
    for field in fields.values_mut().filter_map(Value::as_object_mut) {
        let is_password = field
            .get("format")
            .is_some_and(|format| format == "password");
        if is_password || field.get("writeOnly") == Some(&Value::Bool(true)) {
            field.remove("format");
            field.insert("title".to_owned(), MARK.into());
            is_marked = true;
        }
    }
    is_marked
}

/// The first address in a text that a browser must not open: of a scheme that runs code or reads files, or neither of
/// https nor on this machine.
pub(crate) fn unsafe_address(text: &str) -> Option<String> {
    let text = ghostlight_safety::sanitize_line(text, usize::MAX);
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
        let is_address = !scheme.is_empty() && after.starts_with("//");
        if !is_address && !SCHEMES.contains(&scheme) {
            continue;
        }
        let ends = |c: char| c.is_whitespace() || "<>\"'`)]}|".contains(c);
        let begin = bracketed_host(after);
        let place = after[begin..].find(ends).map(|length| begin + length);
        let place = &after[..place.unwrap_or(after.len())];
        // A sentence may go on or end behind it.
        let place = place.trim_end_matches(|c: char| ".,;:!?)'\"".contains(c));
        let address = &text[start..colon + 1 + place.len()];
        let is_unsafe = match scheme {
            "file" => after.starts_with(['/', '\\']),
            "data" => is_data(place),
            _ if SCHEMES.contains(&scheme) => after.starts_with(|c: char| !c.is_whitespace()),
            // Without a host there is nothing to open.
            _ => place != "//" && !is_web_address(address),
        };
        if is_unsafe {
            return Some(ghostlight_safety::sanitize_line(address, NAME));
        }
    }
    None
}

/// The length of the slashes and the address of IPv6 in brackets with which this begins, if it does.
fn bracketed_host(after: &str) -> usize {
    let is_of_host = |c: char| c.is_ascii_hexdigit() || ":.".contains(c);
    let host = after.strip_prefix("//[").unwrap_or_default();
    let rest = host.trim_start_matches(is_of_host);
    match rest.starts_with(']') {
        true => after.len() - rest.len() + 1,
        false => 0,
    }
}

/// Whether what stands behind `data:` makes it an address: a media type or a mark behind which the data come.
fn is_data(place: &str) -> bool {
    let is_in_kind = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
    let behind = place.trim_start_matches(is_in_kind);
    !place.starts_with(|c: char| c.is_ascii_digit()) && behind.starts_with(['/', ',', ';'])
}

/// Whether an address is of https, or of http on this machine, and hides no other host behind a name.
pub(crate) fn is_web_address(address: &str) -> bool {
    let Ok(url) = Url::parse(address) else {
        return false;
    };
    let is_local = url
        .host_str()
        .is_some_and(ghostlight_safety::is_loopback_host);
    let has_user = !url.username().is_empty() || url.password().is_some();
    !has_user && (url.scheme() == "https" || (url.scheme() == "http" && is_local))
}

/// Whether the name of a field has a word for secrets, however its words are joined.
fn names_secret(name: &str) -> bool {
    ghostlight_safety::is_secret_key(name) || names_code(name) || has_word(name, &SECRETS)
}

/// Whether the name of a field has a word for a secret of a few digits.
fn names_code(name: &str) -> bool {
    has_word(name, &CODES)
}

/// Whether a name has one of these words, however its words are joined.
fn has_word(name: &str, known: &[&str]) -> bool {
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
    words.any(|word| known.contains(&word))
}

/// Whether a text speaks of a secret.
fn mentions_secret(text: &str) -> bool {
    let text = ghostlight_safety::sanitize_line(text, usize::MAX);
    let words = words(&text);
    let is_secret = |(place, word): (usize, &&str)| {
        let lower = word.to_lowercase();
        // As in "token limit" and "token count".
        let is_counted =
            |next: &&str| !ghostlight_safety::is_secret_key(&format!("{lower} {next}"));
        let is_count = lower == "token" && words.get(place + 1).is_some_and(is_counted);
        let is_name = ghostlight_safety::is_secret_key(word) && !USUAL.contains(&lower.as_str());
        (is_name && !is_count) || SECRETS.contains(&lower.as_str())
    };
    words.iter().enumerate().any(is_secret) || has_pair(&words, &PAIRS)
}

/// Whether a text speaks of a secret of a few digits.
fn mentions_code(text: &str) -> bool {
    let text = ghostlight_safety::sanitize_line(text, usize::MAX);
    let words = words(&text);
    let is_code = |word: &&str| match word.to_lowercase().as_str() {
        "pin" => *word == "PIN",
        lower => CODES.contains(&lower),
    };
    words.iter().any(is_code) || has_pair(&words, &CODE_PAIRS)
}

fn words(text: &str) -> Vec<&str> {
    let words = text.split(|one: char| !one.is_alphanumeric());
    words.filter(|word| !word.is_empty()).collect()
}

fn has_pair(words: &[&str], pairs: &[&str]) -> bool {
    let is_known = |pair: &[&str]| pairs.contains(&pair.join(" ").to_lowercase().as_str());
    words.windows(2).any(is_known)
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
        for field in [
            json!({ "x": { "type": "string", "title": "Your access token" } }),
            json!({ "x": { "type": "string", "description": "The token" } }),
            json!({ "x": { "type": "string", "title": "Your password", "enum": [] } }),
            json!({ "x": { "type": "string", "title": "Your password", "enum": [1, "a\nb"] } }),
            json!({ "x": { "type": "array", "title": "Your passwords", "items": {} } }),
            json!({ "passcode": { "type": "number" } }),
            json!({ "otpCode": { "type": "integer" } }),
            json!({ "x": { "type": "integer", "writeOnly": true } }),
            json!({ "x": { "type": "integer", "title": MARK } }),
        ] {
            assert!(asks_for_secret("Go on", field.clone()), "{field}");
        }
        let long = format!("{}Your password?", "Well, ".repeat(4_000));
        assert!(asks_for_secret(&long, json!({ "x": { "type": "string" } })));
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
            ("How many?", json!({ "token_limit": { "type": "string" } })),
            ("How many?", json!({ "token_count": { "type": "integer" } })),
            ("Which?", json!({ "token_type": { "type": "string" } })),
            (
                "How many?",
                json!({ "x": { "type": "string", "title": "Token limit per request" } }),
            ),
            (
                "How many passwords?",
                json!({ "x": { "type": "integer", "title": "Length of a password" } }),
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
                assert_eq!(field["title"], MARK);
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
            "http://[::1]:3000/",
            "http://app.localhost:3000/",
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
            "see (data:text/html,<b>)",
            "see data:,x",
            "see data:;base64,eA==.",
            "see file:/etc/passwd",
            "run vbscript:x",
            "Is http://example.com:3000, the right server?",
            "see http://localhost:3000,x",
            "see http://[2001:db8::1]:3000/",
            "see http://[::1].example.com/",
            "see http://[::1",
            "see http://[::1]@example.com/",
        ] {
            assert!(unsafe_address(text).is_some(), "{text}");
        }
        for text in [
            "See https://example.com/a?b=c, or http://localhost:3000/",
            "Is http://localhost:3000, the right server?",
            "Open http://[::1]:3000/, http://[::1] or http://127.0.0.1:3000/x.",
            "Click [here](http://[::1]:3000/a?b=c) or <http://[0:0:0:0:0:0:0:1]/>",
            "It is at https://[2001:db8::1]:8443.",
            "It is at https://example.com:8443.",
            "Is it (at 'https://example.com:8443')?",
            "An address beginning with https://, or http://",
            "It is https://<host>/ or http://<host>:3000/",
            "file:report.pdf has data:3 rows, or data:none, too",
            "A file: the newest. Data: none. At 12:30, a::b",
            "",
        ] {
            assert_eq!(unsafe_address(text), None, "{text}");
        }
        let long = format!("{}see javascript:alert(1)", "Well, ".repeat(4_000));
        let found = unsafe_address(&long);
        assert!(found.is_some_and(|found| found.starts_with("javascript:")));
    }
}
