//! The names of fields, and their word on values.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::folding::fold;

/// Fields that name something whose value is in a field beside them.
const NAMES: [&str; 10] = [
    "name",
    "key",
    "field",
    "header",
    "variable",
    "var",
    "parameter",
    "param",
    "env",
    "label",
];

/// Fields that hold the value which a field beside them names.
const VALUES: [&str; 6] = ["value", "values", "val", "content", "data", "default"];

/// Words that make a name a secret's, anywhere in the name, even run together with others (`clientsecret`).
const SECRET_PARTS: [&str; 16] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "authorization",
    "cookie",
    "credential",
    "accountkey",
    "sharedkey",
    "connectionstring",
    "seedphrase",
];

/// Words that make a name a secret's when they are words of their own in it, also in the plural. `tokens` has a
/// [rule of its own](is_tokens).
const SECRET_WORDS: [&str; 8] = [
    "token", "pwd", "jwt", "bearer", "otp", "cvv", "cvc", "passcode",
];

/// Ends of words in which `token` and its purpose are run together.
const TOKEN_ENDS: [&str; 5] = [
    "accesstoken",
    "authtoken",
    "refreshtoken",
    "bearertoken",
    "apitoken",
];

/// Words beside `token` that show that tokens are counted.
const COUNTING: [&str; 23] = [
    "max",
    "min",
    "total",
    "count",
    "counts",
    "limit",
    "budget",
    "used",
    "usage",
    "per",
    "prompt",
    "completion",
    "input",
    "output",
    "cached",
    "reasoning",
    "remaining",
    "num",
    "number",
    "left",
    "estimate",
    "estimated",
    "type",
];

const PATH_WORDS: [&str; 10] = [
    "path",
    "paths",
    "file",
    "files",
    "filename",
    "filepath",
    "dir",
    "directory",
    "folder",
    "cwd",
];

/// Whether a value with this name is a secret: `password`, `apiKey`, `client-secret`, `X-Auth-Token`. A plain `name`,
/// `max_tokens` and `secretary` are not.
pub fn is_secret_key(name: &str) -> bool {
    let words = words(name);
    let joined = words.concat();
    let is_secretary = words.iter().any(|word| word.starts_with("secretar"));
    if !is_secretary && SECRET_PARTS.iter().any(|part| joined.contains(part)) {
        return true;
    }
    let is = |word: &str, list: &[&str]| list.contains(&word);
    if words.iter().any(|word| is(word, &COUNTING)) {
        return false;
    }
    let is_secret_word = |word: &String| {
        let one = match word.strip_suffix('s') {
            Some(one) if word != "tokens" => one,
            _ => word,
        };
        is(one, &SECRET_WORDS) || TOKEN_ENDS.iter().any(|end| one.ends_with(end))
    };
    words.iter().any(is_secret_word) || is_plural_token(&words) || is_pass(&words)
}

/// Whether the value of this field is a secret, by its name, the name of the object that it stands in (`within`), and
/// the fields beside it: `{"password": …}`, `{"name": "password", "value": …}`, `{"api": {"key": …}}`, and
/// `{"tokens": …}` where that is no count.
pub(super) fn is_secret(
    within: Option<&str>,
    fields: &Map<String, Value>,
    name: &str,
    value: &Value,
) -> bool {
    let is_named_so = |name: &str| is_secret_key(name) || (is_tokens(name) && !counts(value));
    // A name of which the half stands in the object's name.
    let is_in = |within: &str| {
        let is_text = value.is_string() && !is_tokens(name) && !is_secret_key(within);
        is_text && is_secret_key(&format!("{within} {name}"))
    };
    let is_named_beside = || {
        let mut names = fields
            .iter()
            .filter(|(key, _)| is_one_of(key, &NAMES))
            .filter_map(|(_, name)| name.as_str());
        is_one_of(name, &VALUES) && names.any(is_named_so)
    };
    // Such as `cache_write_tokens`, whose words do not say that they are counted.
    let is_count = is_tokens(name) && value.is_number();
    !is_count && (is_named_so(name) || within.is_some_and(is_in) || is_named_beside())
}

/// Whether a name ends with `tokens`: such a value is a count or a secret, which only [the value](counts) tells.
pub(super) fn is_tokens(name: &str) -> bool {
    words(name).last().is_some_and(|word| word == "tokens")
}

/// Whether a value is a count, or consists of counts.
fn counts(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => is_count(text),
        Value::Array(items) => items.iter().all(counts),
        Value::Object(fields) => fields.values().all(counts),
    }
}

/// Whether a text is a number such as `1,200` or `8k`, or empty.
pub(super) fn is_count(text: &str) -> bool {
    let text = text.trim().trim_end_matches(['k', 'K', 'm', 'M']);
    text.chars()
        .all(|c| c.is_ascii_digit() || ".,_".contains(c))
}

/// `DB_PASS`, but not `pass` in the sense of passing something.
fn is_pass(words: &[String]) -> bool {
    words.last().is_some_and(|word| word == "pass") && words.len() > 1
}

/// `tokens` alone or with an owner (`auth_tokens`), where no word shows that they are counted.
fn is_plural_token(words: &[String]) -> bool {
    words.last().is_some_and(|word| word == "tokens") && words.len() > 1
}

fn is_one_of(name: &str, list: &[&str]) -> bool {
    list.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Whether a value with this name is a path in a file system.
pub fn is_path_key(name: &str) -> bool {
    words(name)
        .iter()
        .any(|word| PATH_WORDS.contains(&word.as_str()))
}

/// The words of a name in lower case: `apiKey`, `API-Key` and `api_key` are `api`, `key`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut open = false;
    let mut before: Option<char> = None;
    // Full-width letters and letters that look like Latin ones are read as Latin ones.
    let folded = fold(name, &[]);
    let name = folded.map_or(Cow::Borrowed(name), |folded| Cow::Owned(folded.text));
    let mut characters = name.chars().take(256).peekable();
    while let Some(c) = characters.next() {
        if !c.is_alphanumeric() {
            (open, before) = (false, None);
            continue;
        }
        let lower_before =
            before.is_some_and(|before| before.is_lowercase() || before.is_numeric());
        let ends_capitals = before.is_some_and(char::is_uppercase)
            && characters.peek().is_some_and(|next| next.is_lowercase());
        if c.is_uppercase() && (lower_before || ends_capitals) {
            open = false;
        }
        match words.last_mut() {
            Some(word) if open => word.extend(c.to_lowercase()),
            _ => words.push(c.to_lowercase().collect()),
        }
        (open, before) = (true, Some(c));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_in_every_spelling() {
        for name in [
            "password",
            "db_password",
            "userPassword",
            "PASSWORD_2",
            "passwd",
            "api_key",
            "apiKey",
            "api-key",
            "APIKey",
            "x-api-key",
            "OPENAI_API_KEY",
            "apikey",
            "secret",
            "clientSecret",
            "client-secret",
            "clientsecret",
            "token",
            "accessToken",
            "access_token",
            "accesstoken",
            "X-Auth-Token",
            "authorization",
            "Proxy-Authorization",
            "cookie",
            "Set-Cookie",
            "credentials",
            "aws.secretAccessKey",
            "privateKey",
            "auth_tokens",
            "jwt",
            "pwd",
            "otp",
            "cvv",
            "card-cvc",
            "passcode",
            "bearer",
            "passphrase",
            "AWS_ACCESS_KEY_ID",
            "signingKey",
            "encryption_key",
            "apikeys",
            "refreshtoken",
            "DB_PASS",
            "AccountKey",
            "connection_string",
        ] {
            assert!(is_secret_key(name), "{name}");
        }
        for name in [
            "name",
            "username",
            "display_name",
            "max_tokens",
            "estimated_tokens",
            "totalTokens",
            "token_count",
            "prompt-tokens",
            "tokens",
            "tokenizer",
            "secretary",
            "keyboard",
            "monkey",
            "key",
            "author",
            "authority",
            "passenger",
            "compass",
            "pass",
            "",
            "状态",
        ] {
            assert!(!is_secret_key(name), "{name}");
        }
    }

    #[test]
    fn names_of_paths_are_words() {
        for name in [
            "path",
            "filePath",
            "file",
            "output_dir",
            "FileName",
            "source-file",
            "cwd",
        ] {
            assert!(is_path_key(name), "{name}");
        }
        for name in [
            "name",
            "profile",
            "direction",
            "pathology",
            "filed",
            "directive",
        ] {
            assert!(!is_path_key(name), "{name}");
        }
    }
}
