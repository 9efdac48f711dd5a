//! `${NAME}` in a value, for secrets: the variable is looked up when the value is used.

use std::fmt;

use super::error::SettingsError;

/// How a variable is looked up: in the environment, if nothing else is said.
#[derive(Clone, Copy)]
pub(super) struct Variables(fn(&str) -> Option<String>);

impl Variables {
    pub(super) fn of(look_up: fn(&str) -> Option<String>) -> Self {
        Self(look_up)
    }

    /// The value of a variable.
    pub(super) fn get(self, name: &str) -> Option<String> {
        (self.0)(name)
    }

    /// A value with its references replaced.
    pub(super) fn reveal(self, text: &str) -> Result<String, SettingsError> {
        reveal(text, self.0)
    }
}

impl Default for Variables {
    fn default() -> Self {
        Self(|name| std::env::var(name).ok())
    }
}

impl PartialEq for Variables {
    /// Settings are the same wherever their variables are looked up.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Variables")
    }
}

/// A value with its references replaced by environment variables. `$$` is a dollar sign, and `${NAME:-text}` gives a
/// default for a variable that is not set.
fn reveal(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, SettingsError> {
    let (mut revealed, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('$') {
        revealed.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            revealed.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('{') {
            let (inside, after) = after.split_once('}').ok_or(SettingsError::Place)?;
            let (name, default) = match inside.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (inside, None),
            };
            let is_name = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
            if name.is_empty() || !name.bytes().all(is_name) {
                return Err(SettingsError::Place);
            }
            let value = variable(name).filter(|value| !value.is_empty());
            let value = value.or_else(|| default.map(str::to_owned));
            revealed.push_str(&value.ok_or_else(|| SettingsError::NotSet(name.to_owned()))?);
            rest = after;
        } else {
            revealed.push('$');
        }
    }
    revealed.push_str(rest);
    Ok(revealed)
}

/// The names of the variables in a value.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_once('$')?;
            rest = after.strip_prefix('$').unwrap_or(after);
            if let Some((inside, after)) = after
                .strip_prefix('{')
                .and_then(|after| after.split_once('}'))
            {
                rest = after;
                return Some(inside.split_once(":-").map_or(inside, |(name, _)| name));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn variable(name: &str) -> Option<String> {
        (name == "TOKEN").then(|| "hunter2".to_owned())
    }

    #[test]
    fn the_names_of_variables_are_told() {
        let text = "https://$$x.example/${TOKEN}/a$b/${HOST:-none}?${";
        assert_eq!(names(text).collect::<Vec<_>>(), ["TOKEN", "HOST"]);
    }

    #[test]
    fn variables_stand_in_the_places_of_their_names() {
        for (text, revealed) in [
            ("", ""),
            ("Bearer ${TOKEN}", "Bearer hunter2"),
            ("${TOKEN}${TOKEN}", "hunter2hunter2"),
            ("$$5 and $5", "$5 and $5"),
            ("${NONE:-none}", "none"),
        ] {
            assert_eq!(reveal(text, variable).ok().as_deref(), Some(revealed));
        }
        assert!(
            matches!(reveal("${NONE}", variable), Err(SettingsError::NotSet(name)) if name == "NONE")
        );
        for text in ["${TOKEN", "${}", "${a b}"] {
            assert!(
                matches!(reveal(text, variable), Err(SettingsError::Place)),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_text_without_dollars_stays_as_it_is(text in "[^$]*") {
            prop_assert_eq!(reveal(&text, variable).ok(), Some(text));
        }

        #[test]
        fn no_text_ends_the_program(text in ".*") {
            let _ = reveal(&text, variable);
        }
    }
}
