//! Calls as they are shown to the person who decides about them, and the person's edits.
//!
//! Everything that could act is shown. A secret that is only a word is replaced by a token with a number and its
//! length, between marks that no shown text contains. The token is bound to its part: the part is put back only where
//! an edited text keeps the token at the place where it was shown.

use serde_json::{Map, Value};

use super::{
    keys::is_secret,
    secrets::{is_inert, places},
    showing::{MARKS, visible},
};

/// Arguments as they are shown to the person who decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The arguments, with escapes for what cannot be seen and tokens for secrets.
    pub arguments: Value,
    hidden: Vec<Hidden>,
}

/// A part that the person does not see.
#[derive(Clone, Debug, PartialEq)]
struct Hidden {
    /// The path to the part: names and numbers, as they are shown.
    at: String,
    token: String,
    part: Value,
}

/// The arguments as they are shown to the person who decides. Under the names in `reveal` nothing is taken for a
/// secret, unless its own name is a secret's.
pub fn show(arguments: &Value, reveal: &[String]) -> Shown {
    let mut showing = Showing::default();
    let arguments = match arguments {
        Value::Object(fields) => {
            let shown = fields.iter().map(|(name, value)| {
                let is_secret = is_secret(None, fields, name, value);
                let look = match (is_secret, reveal.contains(name)) {
                    (true, _) => Look::Secret,
                    (false, true) => Look::Open,
                    (false, false) => Look::Text,
                };
                showing.field("", name, value, look)
            });
            Value::Object(shown.collect())
        }
        other => showing.value("", other, Look::Text),
    };
    Shown {
        arguments,
        hidden: showing.hidden,
    }
}

/// A value for the person who decides, with nothing left out: each of its texts as [`visible`] shows
/// it.
pub fn visible_value(value: &Value) -> Value {
    let mut showing = Showing {
        all: true,
        ..Showing::default()
    };
    showing.value("", value, Look::Open)
}

/// A text for the person who decides. What is left out cannot be put back.
pub fn show_text(text: &str) -> String {
    Showing::default().text("", text)
}

impl Shown {
    /// The arguments that the person means by these, which may be edited: everything as written, with the hidden part
    /// wherever its token was kept in place.
    pub fn meant(&self, edited: &Value) -> Value {
        if self.hidden.is_empty() {
            return edited.clone();
        }
        self.meant_at(edited, "")
    }

    fn meant_at(&self, edited: &Value, at: &str) -> Value {
        match edited {
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| {
                    (name.clone(), self.meant_at(value, &format!("{at}/{name}")))
                });
                Value::Object(fields.collect())
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                items
                    .map(|(place, item)| self.meant_at(item, &format!("{at}/{place}")))
                    .collect()
            }
            Value::String(text) => self.meant_text(text, at),
            other => other.clone(),
        }
    }

    fn meant_text(&self, text: &str, at: &str) -> Value {
        let mut meant = text.to_owned();
        for hidden in self.hidden.iter().filter(|hidden| hidden.at == at) {
            match &hidden.part {
                part if text == hidden.token => return part.clone(),
                Value::String(part) => meant = meant.replace(&hidden.token, part),
                _ => {}
            }
        }
        Value::String(meant)
    }
}

/// How a value is searched for secrets.
#[derive(Clone, Copy, PartialEq)]
enum Look {
    /// The value's name is a secret's.
    Secret,
    /// The value may contain secrets.
    Text,
    /// Only what has a secret's name in the value is a secret.
    Open,
}

#[derive(Default)]
struct Showing {
    all: bool,
    hidden: Vec<Hidden>,
}

impl Showing {
    fn field(&mut self, at: &str, name: &str, value: &Value, look: Look) -> (String, Value) {
        let shown = visible(name).into_owned();
        let at = format!("{at}/{shown}");
        let value = self.value(&at, value, look);
        (shown, value)
    }

    fn value(&mut self, at: &str, value: &Value, look: Look) -> Value {
        match value {
            Value::Object(fields) => {
                let mut shown = Map::new();
                let is_number = |name: &&str| name.bytes().all(|byte| byte.is_ascii_digit());
                let within = at.rsplit('/').find(|name| !is_number(name));
                for (name, value) in fields {
                    let named = !self.all && is_secret(within, fields, name, value);
                    let look = if named { Look::Secret } else { look };
                    let (name, value) = self.field(at, name, value, look);
                    shown.insert(name, value);
                }
                Value::Object(shown)
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                items
                    .map(|(place, item)| self.value(&format!("{at}/{place}"), item, look))
                    .collect()
            }
            Value::String(text) => Value::String(match look {
                Look::Secret if text.is_empty() => String::new(),
                Look::Secret if is_inert(text) => self.token(at, text.chars().count(), value),
                Look::Open => visible(text).into_owned(),
                _ => self.text(at, text),
            }),
            // A number may be a secret; `true` and `false` are settings.
            Value::Number(number) if look == Look::Secret => {
                Value::String(self.token(at, number.to_string().chars().count(), value))
            }
            other => other.clone(),
        }
    }

    fn text(&mut self, at: &str, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        let mut rest = 0;
        for place in places(text) {
            let secret = &text[place.clone()];
            if !is_inert(secret) {
                continue;
            }
            shown.push_str(&visible(&text[rest..place.start]));
            let part = Value::String(secret.to_owned());
            shown.push_str(&self.token(at, secret.chars().count(), &part));
            rest = place.end;
        }
        shown.push_str(&visible(&text[rest..]));
        shown
    }

    fn token(&mut self, at: &str, characters: usize, part: &Value) -> String {
        let (number, [open, close]) = (self.hidden.len() + 1, MARKS);
        let token = format!("{open}redacted {number}: {characters} characters{close}");
        self.hidden.push(Hidden {
            at: at.to_owned(),
            token: token.clone(),
            part: part.clone(),
        });
        token
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn shown(arguments: &Value) -> Value {
        show(arguments, &[]).arguments
    }

    #[test]
    fn a_secret_is_a_token_with_its_length_and_never_what_could_act() {
        let seen = shown(&json!({
            "password": "hunter2", "pin_code_token": 1234, "secret": true, "token": null,
            "credentials": { "user": "ada", "list": ["x y"] },
            "command": "curl -H 'Authorization: Bearer abcdefghijklmnopqrst' http://a:b@c",
            "client_secret": "$(rm -rf ~)",
            "path": "/etc/passwd",
        }));
        let expected = json!({
            "client_secret": "$(rm -rf ~)",
            "command": "curl -H 'Authorization: Bearer ⟦redacted 1: 20 characters⟧' \
                        http://⟦redacted 2: 3 characters⟧@c",
            "credentials": { "list": ["x y"], "user": "⟦redacted 3: 3 characters⟧" },
            "password": "⟦redacted 4: 7 characters⟧",
            "path": "/etc/passwd",
            "pin_code_token": "⟦redacted 5: 4 characters⟧",
            "secret": true,
            "token": null,
        });
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_is_revealed_is_shown_whole_and_what_is_named_a_secret_is_not() {
        let arguments = json!({ "note": "password=hunter2", "token": "abc" });
        let names = ["note".to_owned(), "token".to_owned()];
        let seen = show(&arguments, &names).arguments;
        let expected = json!({ "note": "password=hunter2", "token": "⟦redacted 1: 3 characters⟧" });
        assert_eq!(seen, expected);
        assert_eq!(visible_value(&arguments), arguments);
    }

    #[test]
    fn a_token_that_was_kept_in_its_place_is_its_part_and_all_else_is_as_it_was_edited() {
        let original = json!({
            "password": "p", "n": 1, "command": "login password=abc now\u{1b}[2J",
            "list": [{ "token": 7 }],
        });
        let seen = show(&original, &[]);
        let mut edited = seen.arguments.clone();
        edited["n"] = json!(2);
        edited["command"] = json!("login password=⟦redacted 1: 3 characters⟧ later");
        let mut expected = original.clone();
        expected["n"] = json!(2);
        expected["command"] = json!("login password=abc later");
        assert_eq!(seen.meant(&edited), expected);
        // An escape that was not edited runs as it was shown, and not as the byte that it stood for.
        expected["command"] = json!("login password=abc now\\u{1b}[2J");
        edited["command"] = seen.arguments["command"].clone();
        assert_eq!(seen.meant(&edited), expected);
        // At another place a token is ordinary text.
        let moved = json!({ "n": seen.arguments["password"], "other": "[redacted]" });
        assert_eq!(seen.meant(&moved), moved);
    }

    #[test]
    fn no_text_looks_as_if_something_were_left_out_of_it() {
        let forged = json!({ "a": "x ⟦redacted 1: 3 characters⟧ y", "password": "abc" });
        let seen = show(&forged, &[]);
        let expected = "x \\u{27e6}redacted 1: 3 characters\\u{27e7} y";
        assert_eq!(seen.arguments["a"], expected);
        assert_eq!(seen.meant(&seen.arguments)["a"], expected);
    }

    proptest! {
        #[test]
        fn whatever_is_not_a_token_is_seen(text in any::<String>(), shell in "[ -~]{0,40}") {
            for text in [text, shell] {
                let seen = show(&json!({ "a": text }), &[]);
                if seen.hidden.is_empty() {
                    prop_assert_eq!(&seen.arguments["a"], &json!(visible(&text)));
                }
                for hidden in &seen.hidden {
                    prop_assert!(hidden.part.as_str().is_none_or(is_inert));
                }
            }
        }
    }
}
