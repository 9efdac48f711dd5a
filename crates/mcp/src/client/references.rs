//! `${NAME}` in a value, for secrets: the variable is looked up when the value is used.

use std::fmt;

use ghostlight_safety::{TextPiece, references, revealed};

use super::error::ServerSpecError;

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
    pub(super) fn reveal(self, text: &str) -> Result<String, ServerSpecError> {
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

/// A value with its references replaced by environment variables.
fn reveal(
    text: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<String, ServerSpecError> {
    let pieces = references(text).map_err(|_| ServerSpecError::Place)?;
    revealed(&pieces, variable).map_err(|name| ServerSpecError::NotSet(name.to_owned()))
}

/// The names of the variables in a value; none where it cannot be read.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    let pieces = references(text).unwrap_or_default();
    pieces.into_iter().filter_map(|piece| match piece {
        TextPiece::Variable(reference) => Some(reference.name),
        _ => None,
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
        let text = "https://$$x.example/${TOKEN}/a$b/${HOST:-none}";
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
            matches!(reveal("${NONE}", variable), Err(ServerSpecError::NotSet(name)) if name == "NONE")
        );
        for text in ["${TOKEN", "${}", "${a b}"] {
            assert!(
                matches!(reveal(text, variable), Err(ServerSpecError::Place)),
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
