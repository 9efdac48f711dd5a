//! References to environment variables in a text: `${NAME}`, and `${NAME:-default}` for a variable that need not be set.

/// A reference to an environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference<'t> {
    /// The name of the variable.
    pub name: &'t str,
    /// The text after `:-`, which stands for the variable where it is not set or empty.
    pub default: Option<&'t str>,
}

/// A part of a text with references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextPiece<'t> {
    /// Text that stands for itself.
    Plain(&'t str),
    /// `$$`, which stands for a dollar sign.
    Dollar,
    /// A reference.
    Variable(Reference<'t>),
}

/// The fault of a text whose references cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// A reference does not end.
    #[error(
        "there is a `${{` without its `}}`; write ${{NAME}} for a variable, or $$ for a dollar"
    )]
    Open,
    /// The text in braces is no name of a variable. It is not repeated, since it may be a secret.
    #[error(
        "the text in ${{...}} names no environment variable: a name has letters, digits and `_`, and begins with no \
         digit; write $$ for a dollar"
    )]
    Name,
}

/// The parts of a text, in their order. A dollar sign that neither a brace nor a dollar sign follows is plain text.
///
/// # Errors
/// [`ReferenceError`] for a reference that does not end or names no variable.
pub fn references(text: &str) -> Result<Vec<TextPiece<'_>>, ReferenceError> {
    let (mut pieces, mut plain, mut at) = (Vec::new(), 0, 0);
    while let Some(found) = text[at..].find('$') {
        let dollar = at + found;
        let after = &text[dollar + 1..];
        let (piece, end) = if after.starts_with('$') {
            (TextPiece::Dollar, dollar + 2)
        } else if let Some(inside) = after.strip_prefix('{') {
            let (inside, _) = inside.split_once('}').ok_or(ReferenceError::Open)?;
            let (name, default) = match inside.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (inside, None),
            };
            if !is_variable_name(name) {
                return Err(ReferenceError::Name);
            }
            let reference = Reference { name, default };
            (TextPiece::Variable(reference), dollar + inside.len() + 3)
        } else {
            at = dollar + 1;
            continue;
        };
        if plain < dollar {
            pieces.push(TextPiece::Plain(&text[plain..dollar]));
        }
        pieces.push(piece);
        (plain, at) = (end, end);
    }
    if plain < text.len() {
        pieces.push(TextPiece::Plain(&text[plain..]));
    }
    Ok(pieces)
}

/// A text with the values of its variables. A variable that is not set or is empty has its default.
///
/// # Errors
/// The name of a variable that has neither.
pub fn revealed<'t>(
    pieces: &[TextPiece<'t>],
    variable: impl Fn(&str) -> Option<String>,
) -> Result<String, &'t str> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            TextPiece::Plain(plain) => text.push_str(plain),
            TextPiece::Dollar => text.push('$'),
            TextPiece::Variable(Reference { name, default }) => {
                let value = variable(name).filter(|value| !value.is_empty());
                match (value, default) {
                    (Some(value), _) => text.push_str(&value),
                    (None, Some(default)) => text.push_str(default),
                    (None, None) => return Err(name),
                }
            }
        }
    }
    Ok(text)
}

/// The variable of a text that is one reference without a default, and nothing else.
pub fn sole_reference(text: &str) -> Option<&str> {
    let name = text.strip_prefix("${")?.strip_suffix('}')?;
    is_variable_name(name).then_some(name)
}

/// Whether this can be the name of an environment variable: letters, digits and `_`, of ASCII, not beginning with a digit.
fn is_variable_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty() && name.chars().all(fits)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn variable<'t>(name: &'t str, default: Option<&'t str>) -> TextPiece<'t> {
        TextPiece::Variable(Reference { name, default })
    }

    #[test]
    fn a_text_is_read_into_plain_text_and_references() {
        for (text, pieces) in [
            ("", vec![]),
            ("a $5 b$", vec![TextPiece::Plain("a $5 b$")]),
            ("${A}", vec![variable("A", None)]),
            (
                "$${A} ${A_1:-b:-c}!",
                vec![
                    TextPiece::Dollar,
                    TextPiece::Plain("{A} "),
                    variable("A_1", Some("b:-c")),
                    TextPiece::Plain("!"),
                ],
            ),
            (
                "${A}$${B:-}",
                vec![
                    variable("A", None),
                    TextPiece::Dollar,
                    TextPiece::Plain("{B:-}"),
                ],
            ),
            ("${B:-}", vec![variable("B", Some(""))]),
        ] {
            assert_eq!(references(text).unwrap(), pieces, "{text}");
        }
        for text in ["${A", "a ${", "${A:-b"] {
            assert_eq!(references(text), Err(ReferenceError::Open), "{text}");
        }
        for text in ["${}", "${A B}", "${1A}", "${:-b}", "${Ä}", "${A-b}"] {
            assert_eq!(references(text), Err(ReferenceError::Name), "{text}");
        }
    }

    #[test]
    fn a_text_is_revealed_once() {
        let variable = |name: &str| match name {
            "KEY" => Some("${KEY}$$".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        for (text, value) in [
            ("https://host/${KEY}/x", Ok("https://host/${KEY}$$/x")),
            (
                "https://host/$${KEY}?$=$5$",
                Ok("https://host/${KEY}?$=$5$"),
            ),
            ("${NONE:-none} ${EMPTY:-}.", Ok("none .")),
            ("https://host/${NONE}", Err("NONE")),
            ("${EMPTY}", Err("EMPTY")),
        ] {
            let found = revealed(&references(text).unwrap(), variable);
            assert_eq!(found.as_deref().map_err(|name| *name), value, "{text}");
        }
    }

    #[test]
    fn a_sole_reference_is_the_whole_text() {
        assert_eq!(sole_reference("${TOKEN}"), Some("TOKEN"));
        for text in ["TOKEN", "${TOKEN:-x}", "${A}${B}", " ${A}", "${}", "$${A}"] {
            assert_eq!(sole_reference(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_pieces_written_one_after_another_are_the_text(text in "[$A{}:\\-ä ]*") {
            if let Ok(pieces) = references(&text) {
                let written: String = pieces.iter().map(|piece| match piece {
                    TextPiece::Plain(plain) => (*plain).to_owned(),
                    TextPiece::Dollar => "$$".to_owned(),
                    TextPiece::Variable(Reference { name, default: None }) => format!("${{{name}}}"),
                    TextPiece::Variable(Reference { name, default: Some(text) }) => format!("${{{name}:-{text}}}"),
                }).collect();
                prop_assert_eq!(written, text);
            }
        }
    }
}
