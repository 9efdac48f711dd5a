//! Instruction templates: text with placeholders for values of state and for artifacts.

use std::fmt;

/// A text with placeholders: `{key}`, `{app:key}`, `{user:key}`, `{temp:key}` and
/// `{artifact.name}`, each with `?` at its end if the value may be missing.
///
/// A key is a letter or underscore, followed by letters, digits and underscores; an artifact's name
/// may also contain dots, hyphens and slashes. Anything else in braces, such as JSON or code, is
/// text and stays as it is. A backslash before a placeholder makes it text: `\{key}` is read as
/// `{key}`. Doubled braces are a placeholder like single ones: `{{key}}`.
///
/// Placeholders inside an inserted value are not replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Place(Placeholder),
}

/// A placeholder of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Placeholder {
    /// The source of the inserted value.
    pub source: Source,
    /// Whether a missing value is replaced by nothing.
    pub optional: bool,
}

/// The source of a value that replaces a placeholder.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Source {
    /// A value of the session's state.
    Session(String),
    /// A value of the team's state.
    App(String),
    /// A value of the state of the session's owner, or of the session if it has no owner.
    User(String),
    /// A value of this run's temporary state.
    Temp(String),
    /// The text of an artifact of the session, or else of its owner.
    Artifact(String),
}

/// A template that cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A required value is missing.
    #[error(
        "the instructions need {placeholder}, and there is no such {}: set it before, or write \
         {{{}?}} where it may be missing", placeholder.what(), placeholder.name()
    )]
    Missing {
        /// The placeholder.
        placeholder: Placeholder,
    },
}

ghostlight_actors::parts_of_system_error!(TemplateError);

impl Placeholder {
    fn parse(inner: &str) -> Option<Self> {
        let (inner, optional) = match inner.strip_suffix('?') {
            Some(inner) => (inner, true),
            None => (inner, false),
        };
        let key = |key: &str| is_key(key).then(|| key.to_owned());
        let source = if let Some(name) = inner.strip_prefix("artifact.") {
            Source::Artifact(is_name(name).then(|| name.to_owned())?)
        } else {
            match inner.split_once(':') {
                None => Source::Session(key(inner)?),
                Some(("app", inner)) => Source::App(key(inner)?),
                Some(("user", inner)) => Source::User(key(inner)?),
                Some(("temp", inner)) => Source::Temp(key(inner)?),
                Some(_) => return None,
            }
        };
        Some(Self { source, optional })
    }

    fn what(&self) -> &'static str {
        match self.source {
            Source::Artifact(_) => "artifact",
            _ => "value",
        }
    }

    /// The name without braces, such as `user:name`.
    pub fn name(&self) -> String {
        match &self.source {
            Source::Session(key) => key.clone(),
            Source::App(key) => format!("app:{key}"),
            Source::User(key) => format!("user:{key}"),
            Source::Temp(key) => format!("temp:{key}"),
            Source::Artifact(name) => format!("artifact.{name}"),
        }
    }
}

/// The placeholder as it is written: `{user:name}`.
impl fmt::Display for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let optional = if self.optional { "?" } else { "" };
        write!(f, "{{{}{optional}}}", self.name())
    }
}

pub(super) fn is_key(key: &str) -> bool {
    let mut characters = key.chars();
    let first = characters.next();
    first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_name(name: &str) -> bool {
    let may = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '/');
    !name.is_empty() && name.chars().all(may)
}

impl Template {
    /// Parses a template. Every text is a valid template: anything that is not a placeholder is
    /// text.
    pub fn parse(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let (before, from) = rest.split_at(open);
            let Some((placeholder, length)) = place_at(from) else {
                let braces = from.len() - from.trim_start_matches('{').len();
                plain.push_str(&rest[..open + braces]);
                rest = &from[braces..];
                continue;
            };
            match before.strip_suffix('\\') {
                Some(before) => {
                    plain.push_str(before);
                    plain.push_str(&from[..length]);
                }
                None => {
                    plain.push_str(before);
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(Piece::Place(placeholder));
                }
            }
            rest = &from[length..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Self { pieces }
    }

    /// The placeholders, in order.
    pub fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Place(placeholder) => Some(placeholder),
            Piece::Text(_) => None,
        })
    }

    /// Whether there is any placeholder.
    pub fn has_placeholders(&self) -> bool {
        self.placeholders().next().is_some()
    }

    /// The text with the values that `find` returns for the placeholders.
    ///
    /// # Errors
    /// [`TemplateError::Missing`] for the first placeholder whose required value is missing.
    pub fn render(
        &self,
        find: impl Fn(&Placeholder) -> Option<String>,
    ) -> Result<String, TemplateError> {
        let mut rendered = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => rendered.push_str(text),
                Piece::Place(placeholder) => match find(placeholder) {
                    Some(text) => rendered.push_str(&text),
                    None if placeholder.optional => {}
                    None => {
                        let placeholder = placeholder.clone();
                        return Err(TemplateError::Missing { placeholder });
                    }
                },
            }
        }
        Ok(rendered)
    }
}

/// The placeholder at the beginning of a text, and its length in bytes.
fn place_at(text: &str) -> Option<(Placeholder, usize)> {
    let inner = text.trim_start_matches('{');
    let braces = text.len() - inner.len();
    let end = inner.find('}')?;
    let closing = inner[end..].len() - inner[end..].trim_start_matches('}').len();
    if closing < braces {
        return None;
    }
    let placeholder = Placeholder::parse(&inner[..end])?;
    Some((placeholder, braces + end + braces))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn render(text: &str) -> Result<String, TemplateError> {
        Template::parse(text).render(|placeholder| match placeholder.name().as_str() {
            "name" => Some("Ada".to_owned()),
            "user:city" => Some("{name}".to_owned()),
            "artifact.notes/a-1.md" => Some("notes".to_owned()),
            "empty" => Some(String::new()),
            _ => None,
        })
    }

    #[test]
    fn what_is_missing_is_told_with_the_way_out() {
        assert_eq!(
            render("Hi {user:none}").unwrap_err().to_string(),
            "the instructions need {user:none}, and there is no such value: set it before, or \
             write {user:none?} where it may be missing"
        );
    }

    #[test]
    fn places_are_filled_and_all_else_stays() {
        let cases = [
            ("Hi {name}!", "Hi Ada!"),
            ("{{name}} {name}", "Ada Ada"),
            ("from {user:city}", "from {name}"),
            ("{none?}{app:none?}{temp:none?}.", "."),
            ("[{empty}]", "[]"),
            ("see {artifact.notes/a-1.md}", "see notes"),
            (
                r#"{"a": {"b": 1}, "c": [{}]}"#,
                r#"{"a": {"b": 1}, "c": [{}]}"#,
            ),
            (r#"{"of": {name}}"#, r#"{"of": Ada}"#),
            ("fn f() { name }", "fn f() { name }"),
            ("{1a} {a-b} {other:name} {}", "{1a} {a-b} {other:name} {}"),
            (r"\{name} is {name}", "{name} is Ada"),
            (r"\{ and \\ stay", r"\{ and \\ stay"),
            ("{name", "{name"),
            ("{{name}", "{{name}"),
            ("größe {name} 世界", "größe Ada 世界"),
            ("{{{", "{{{"),
            ("", ""),
        ];
        for (text, wanted) in cases {
            assert_eq!(render(text).unwrap(), wanted, "{text}");
        }
    }

    #[test]
    fn a_value_that_is_needed_and_missing_is_an_error_that_names_it() {
        for (text, name) in [
            ("{none}", "{none}"),
            ("{user:none} {none?}", "{user:none}"),
            ("{artifact.none}", "{artifact.none}"),
        ] {
            let TemplateError::Missing { placeholder } = render(text).unwrap_err();
            assert_eq!(placeholder.to_string(), name);
        }
        let said = render("{artifact.none}").unwrap_err().to_string();
        assert!(said.contains("no such artifact"), "{said}");
    }

    #[test]
    fn the_places_of_a_template_are_listed_in_order() {
        let template = Template::parse(r"{b} {a?} \{c} {artifact.d}");
        let listed: Vec<String> = template.placeholders().map(ToString::to_string).collect();
        assert_eq!(listed, ["{b}", "{a?}", "{artifact.d}"]);
        assert!(template.has_placeholders());
        assert!(!Template::parse(r#"{"json": true}"#).has_placeholders());
    }

    proptest! {
        #[test]
        fn text_without_places_is_never_changed(text in "[a-zß世{}\":\\\\ \n0-9,-]{0,60}") {
            let template = Template::parse(&text);
            if !template.has_placeholders() && !text.contains("\\{") {
                prop_assert_eq!(template.render(|_| None).unwrap(), text);
            }
        }

        #[test]
        fn what_is_put_in_comes_out_as_it_is(
            value in "\\PC{0,40}",
            before in "[a-z ]{0,9}",
            after in "[a-z ]{0,9}",
        ) {
            let text = format!("{before}{{key}}{after}");
            let rendered = Template::parse(&text).render(|_| Some(value.clone())).unwrap();
            prop_assert_eq!(rendered, format!("{before}{value}{after}"));
        }
    }
}
