//! Finds secrets in texts, for everything that is shown to anybody.

use std::ops::Range;

use regex::Captures;
use serde_json::{Map, Value};

use super::{
    folding::fold,
    keys::{is_count, is_secret, is_secret_key, is_tokens},
    patterns::{
        ASSIGNMENT, AUTHORIZATION, COOKIES, FLAG, HEADER, KNOWN_KEY, LONG_WORD, NAME_THEN_VALUE,
        PRIVATE_KEY, Pattern, SECRET_ADDRESS, TAGGED, USER_FLAG, USER_INFO, VALUE_THEN_NAME,
    },
    references::sole_reference,
};

/// Authentication schemes. The word after one is a credential, whatever it looks like.
const SCHEMES: [&str; 14] = [
    "basic",
    "bearer",
    "digest",
    "apikey",
    "api-key",
    "token",
    "key",
    "negotiate",
    "ntlm",
    "hmac",
    "bot",
    "oauth",
    "hawk",
    "splunk",
];

/// Names after which even a word of letters is a secret, and not the next word of a sentence.
const NEVER_PROSE: [&str; 6] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "apikey",
    "secretkey",
];

/// How many pieces behind a secret's name are read in one text that are no JSON, or no secret.
const MAX_PIECES: usize = 64;

/// A text that is shorter than this, in bytes, and has none of [`MARKS`] fits no pattern: the shortest match without
/// a mark is `basic`, a space and eight characters.
const SHORTEST: usize = 14;
/// Every other match contains one of these bytes, or one that is not ASCII.
const MARKS: [u8; 7] = *b":=-<%&\\";

/// The places of secrets in a text, in order and without overlaps. Names and marks in other spellings (full-width
/// letters, `%3D`) are found as well.
pub(super) fn places(text: &str) -> Vec<Range<usize>> {
    // Most texts that are shown are names or numbers.
    let is_mark = |byte: u8| !byte.is_ascii() || MARKS.contains(&byte);
    if text.len() < SHORTEST && !text.bytes().any(is_mark) {
        return Vec::new();
    }
    found(text)
}

fn found(text: &str) -> Vec<Range<usize>> {
    let mut found = places_in(text);
    if let Some(folded) = fold(text, &OTHERWISE) {
        let places = places_in(&folded.text);
        found.extend(places.iter().map(|place| folded.source(place)));
    }
    merged(found)
}

fn places_in(text: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let whole: [&Pattern; 4] = [&PRIVATE_KEY, &KNOWN_KEY, &SECRET_ADDRESS, &USER_INFO];
    for pattern in whole {
        collect(&mut places, pattern, text, secret);
    }
    collect(&mut places, &AUTHORIZATION, text, |found| {
        secret(found).filter(|place| is_login(&text[place.clone()]))
    });
    collect(&mut places, &HEADER, text, |found| {
        let scheme = found
            .name("scheme")
            .map(|s| s.as_str().trim().to_lowercase());
        let known = scheme.is_some_and(|scheme| {
            SCHEMES.contains(&&*scheme) || scheme.contains("hmac") || scheme.contains("key")
        });
        secret(found).filter(|place| known || is_login(&text[place.clone()]))
    });
    for pattern in [&COOKIES, &USER_FLAG] {
        collect(&mut places, pattern, text, secret);
    }
    for pattern in [&FLAG, &TAGGED] {
        collect(&mut places, pattern, text, |found| {
            let value = secret(found)?;
            let is_plain = found.name("secret").is_some();
            names(&found["name"], &text[value.clone()], is_plain).then_some(value)
        });
    }
    collect(&mut places, &ASSIGNMENT, text, assigned);
    for pattern in [&NAME_THEN_VALUE, &VALUE_THEN_NAME] {
        collect(&mut places, pattern, text, |found| {
            let value = escaped_value(found).or_else(|| secret(found))?;
            names(&found["name"], &text[value.clone()], false).then_some(value)
        });
    }
    collect(&mut places, &LONG_WORD, text, |found| {
        is_random(&found[0]).then(|| secret(found)).flatten()
    });
    in_json(&mut places, text);
    places.retain(|place| !is_reference(&text[place.clone()]));
    places
}

/// Whether this is the name of a secret with this value. Under `tokens` stand counts too, and without quotation marks
/// also code, in which letters and digits are not mixed.
fn names(name: &str, value: &str, is_plain: bool) -> bool {
    let is_mixed = || {
        value.bytes().any(|byte| byte.is_ascii_digit())
            && value.bytes().any(|byte| byte.is_ascii_alphabetic())
            && value
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    is_secret_key(name) || (is_tokens(name) && !is_count(value) && (!is_plain || is_mixed()))
}

/// Whether a text is a reference to a secret, `${NAME}`, perhaps behind the name of a scheme.
pub(super) fn is_reference(text: &str) -> bool {
    let text = text.trim();
    let text = text.split_once(' ').map_or(text, |(scheme, rest)| {
        let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphabetic());
        if is_scheme { rest.trim() } else { text }
    });
    sole_reference(text).is_some()
}

/// Escapes with which an ASCII text may spell a name or the mark after it.
const OTHERWISE: [&str; 5] = ["%3", "%2", "&#", "\\u00", "\\x"];

/// Adds the places that a pattern finds. After a match that is no secret, the search resumes inside it.
fn collect(
    places: &mut Vec<Range<usize>>,
    pattern: &Pattern,
    text: &str,
    place: impl Fn(&Captures<'_>) -> Option<Range<usize>>,
) {
    pattern.each(text, |found| {
        let secret = place(found);
        places.extend(secret.clone().filter(|place| !place.is_empty()));
        secret.is_some()
    });
}

/// The group `secret` of a match, or the whole match.
fn secret(found: &Captures<'_>) -> Option<Range<usize>> {
    let named = ["secret", "d", "s"]
        .iter()
        .find_map(|name| found.name(name));
    named.or_else(|| found.get(0)).map(|found| found.range())
}

/// Whether the word after `Bearer` is a credential, and not a word of a sentence.
fn is_login(secret: &str) -> bool {
    let mixed = secret.bytes().skip(1).any(|byte| byte.is_ascii_uppercase());
    secret.len() >= 20 || mixed || secret.bytes().any(|byte| !byte.is_ascii_alphabetic())
}

/// The value of `name=value`, if the name is a secret's.
fn assigned(found: &Captures<'_>) -> Option<Range<usize>> {
    let name = &found["name"];
    let value = found.name("e").or(found.name("d")).or(found.name("s"));
    let is_plain = value.is_none();
    let value = value.or(found.name("plain"))?;
    if !names(name, value.as_str(), is_plain) {
        return None;
    }
    if let Some(value) = escaped_value(found) {
        return Some(value);
    }
    if let Some(value) = found.name("d").or_else(|| found.name("s")) {
        return Some(value.range());
    }
    let value = found.name("plain")?;
    let after_colon = found["between"].contains(':');
    let joined: String = name.to_lowercase().split(['-', '_', '.']).collect();
    // In prose a colon follows many words.
    let prose = value.as_str().chars().all(char::is_alphabetic)
        && !NEVER_PROSE.iter().any(|end| joined.ends_with(end));
    if after_colon && (prose || matches!(value.as_str(), "null" | "true" | "false")) {
        return None;
    }
    Some(value.range())
}

/// A value between escaped quotation marks.
fn escaped_value(found: &Captures<'_>) -> Option<Range<usize>> {
    let value = found.name("e")?;
    // The closing mark is escaped as well.
    let length = value.as_str().trim_end_matches('\\').len();
    Some(value.start()..value.start() + length)
}

/// Whether letters and digits are mixed as only chance does it.
fn is_random(word: &str) -> bool {
    let count = |is: fn(&u8) -> bool| word.bytes().filter(is).count();
    let upper = count(u8::is_ascii_uppercase);
    let lower = count(u8::is_ascii_lowercase);
    let bytes = word.as_bytes();
    let runs = bytes
        .windows(2)
        .filter(|pair| pair[1].is_ascii_digit() && !pair[0].is_ascii_digit());
    upper >= 3 && lower >= 3 && runs.count() >= 3
}

/// Objects and lists under a secret's name, in JSON inside of a text.
fn in_json(places: &mut Vec<Range<usize>>, text: &str) {
    let (mut end, mut others) = (0, 0);
    for (open, _) in text.match_indices(['{', '[']) {
        let before = &text[..open];
        let before = NAME_ENDS.iter().find_map(|mark| before.strip_suffix(mark));
        let name = before.and_then(|before| before.rsplit(|c: char| !is_name(c)).next());
        let Some(name) = name.filter(|name| is_secret_key(name) || is_tokens(name)) else {
            continue;
        };
        // The inside of a secret is not searched again.
        if open < end {
            continue;
        }
        let mut values = serde_json::Deserializer::from_str(&text[open..]).into_iter::<Value>();
        if let Some(Ok(value)) = values.next()
            && is_secret(None, &Map::new(), name, &value)
        {
            end = open + values.byte_offset();
            places.push(open..end);
            continue;
        }
        others += 1;
        if others == MAX_PIECES {
            return;
        }
    }
}

/// The text between a name and its object or list.
const NAME_ENDS: [&str; 4] = ["\": ", "\":", ": ", "="];

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn merged(mut places: Vec<Range<usize>>) -> Vec<Range<usize>> {
    places.sort_unstable_by_key(|place| (place.start, place.end));
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(places.len());
    for place in places {
        match merged.last_mut() {
            Some(last) if place.start < last.end => last.end = last.end.max(place.end),
            _ => merged.push(place),
        }
    }
    merged
}

/// Whether a secret is only a word, or an armoured key, that cannot act. What could be a command, a path, an address
/// or a line of its own is more than a secret.
pub(super) fn is_inert(secret: &str) -> bool {
    if secret.starts_with("-----BEGIN ") {
        return is_armoured(secret);
    }
    // `@` begins what curl reads from a file; shells replace `!`, `%` and `^`.
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.~+/=@:#,".contains(c);
    secret.chars().all(fits)
        && !secret.starts_with(['/', '~', '.', '-', '@'])
        && ![":/", ".."].iter().any(|part| secret.contains(part))
        && (!secret.contains('/') || is_base64(secret))
}

/// Whether a text with a `/` is more likely a key than a path.
fn is_base64(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    let has = |is: fn(&char) -> bool| text.chars().any(|c| is(&c));
    text.len() >= 16
        && !text.contains("//")
        && text.chars().all(fits)
        && has(char::is_ascii_digit)
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase)
}

/// Whether both marks of a key are there, with nothing but the lines of the key between them.
fn is_armoured(key: &str) -> bool {
    let mut lines = key.lines();
    let end = lines.next_back();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    let is_header = |line: &str| {
        ["Proc-Type: ", "DEK-Info: ", "Version: "]
            .iter()
            .any(|name| {
                line.strip_prefix(name).is_some_and(|rest| {
                    rest.chars()
                        .all(|c| c.is_ascii_alphanumeric() || ",-. ".contains(c))
                })
            })
    };
    end.is_some_and(|end| end.starts_with("-----END "))
        && lines
            .skip(1)
            .all(|line| line.len() <= 80 && (line.chars().all(fits) || is_header(line)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_passed_over_unread_has_no_secret(
            text in r#"(?i:basic|bearer|sk_|AKIA|eyJ|hf_|1//|-u|cookie)?[ \ta-zA-Z0-9._/@{}"'\\]{0,13}"#,
        ) {
            prop_assert_eq!(places(&text), found(&text));
        }
    }

    #[test]
    fn a_piece_of_json_is_read_however_many_others_come_before_it() {
        let others = "x: {1} \"a\": [2] b={3} \"token\": {\"x\": 4} ".repeat(100);
        for secret in [
            r#""password": {"x": "hunter2"}"#,
            r#""password":["hunter2"]"#,
            r#"password: ["hunter2"]"#,
            r#"password={"x": "hunter2"}"#,
        ] {
            let text = format!("{others}{secret}");
            let found = places(&text);
            assert!(
                found.iter().any(|at| text[at.clone()].contains("hunter2")),
                "{secret}"
            );
        }
    }

    #[test]
    fn a_secret_that_could_act_is_not_inert() {
        let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIB+/x=\n-----END RSA PRIVATE KEY-----";
        for secret in [
            "hunter2",
            "p@ss:w0rd",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            key,
        ] {
            assert!(is_inert(secret), "{secret}");
        }
        for secret in [
            "$(reboot)",
            "`x`",
            "a b",
            "a;b",
            "a|b",
            "a&b",
            "a>b",
            "a\nb",
            "a\u{202e}b",
            "/bin/x",
            "~/x",
            "../x",
            "@/root/.ssh/id_rsa",
            "@notes",
            "!!",
            "%COMSPEC%",
            "C:/Windows/System32/x.exe",
            "etc/../../etc/shadow",
            "etc/shadow",
            "a^b",
            "--force",
            "http://x",
            "$HOME",
            "{x}",
            "a'b",
            "a\"b",
            "a\\b",
            "ü",
            "-----BEGIN RSA PRIVATE KEY-----\nrm -rf ~\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----\nabc",
        ] {
            assert!(!is_inert(secret), "{secret}");
        }
    }

    #[test]
    fn a_secret_whose_name_is_written_otherwise_or_stands_beside_it_has_its_place() {
        for text in [
            r#"{"name": "password", "value": "hunter2"}"#,
            r#"{"value": "hunter2", "name": "DB_PASSWORD"}"#,
            r#"[{"key":"x-api-key","value":"hunter2","on":true}]"#,
            r#"sent {\"name\":\"client_secret\",\"value\":\"hunter2\"}"#,
            "env:\n  - name: DB_PASSWORD\n    value: hunter2\n",
            "ｐａｓｓｗｏｒｄ=hunter2",
            "ｐａｓｓｗｏｒｄ：hunter2",
            "\"раsswоrd\": \"hunter2\"",
            "see /login?user=ada&password%3Dhunter2",
            "password%3dhunter2",
            "body=%22password%22%3A%22hunter2%22",
            "password&#61;hunter2",
        ] {
            let found: Vec<&str> = places(text).into_iter().map(|at| &text[at]).collect();
            assert!(
                found.iter().any(|secret| secret.starts_with("hunter2")),
                "{text}: {found:?}"
            );
        }
        for text in [
            r#"{"name": "Ada", "value": "hunter2"}"#,
            r#"{"name": "password"}, {"name": "colour", "value": "blue"}"#,
            "the value: blue, the name: token count",
            "100%25 of the passwords are strong",
        ] {
            assert!(places(text).is_empty(), "{text}");
        }
    }
}
