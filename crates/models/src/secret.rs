//! Keys that are used but never shown.

use std::{borrow::Cow, fmt, path::PathBuf, str::FromStr};

use ghostlight_actors::contract::Credential;
use ghostlight_safety::{Reference, TextPiece, references, revealed, sole_reference};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use super::credential::{Changing, ChangingSpec, CredentialSource};
use crate::environment;

/// A key or password: the name of the environment variable that holds it, or the value itself; or a program or file that
/// gives it, if it changes.
///
/// ```yaml
/// api_key: ${OPENAI_API_KEY}
/// api_key: { command: [gcloud, auth, print-access-token], lasts_s: 3000 }
/// api_key: { file: /var/run/secrets/token }
/// ```
///
/// It is printed and serialised as its reference (`${NAME}`); a value given in code is printed as
/// `***`. From text it is read only as a reference, so that no team file, journal or graph ever
/// contains a key. The variable is looked up when the secret is first used.
#[derive(Clone)]
pub struct Secret(Source);

#[derive(Clone)]
enum Source {
    Variable(String),
    Value(SecretString),
    Changing(Changing),
}

/// Why a secret is not available. No message contains the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The text is not a reference.
    #[error(
        "a secret is written as a reference to an environment variable, such as \
         ${{OPENAI_API_KEY}}; set the variable and write its name instead of the value"
    )]
    NotAReference,
    /// A reference inside a text cannot be parsed.
    #[error(
        "`${{` in a value begins the name of an environment variable and ends with `}}`, such as \
         Bearer ${{TOKEN}}; write $$ for a dollar"
    )]
    NoPlace,
    /// A text contains a credential where only a reference is allowed.
    #[error(
        "`{0}` holds a secret itself; set an environment variable to the secret, and write its \
         name in its place, such as ${{TOKEN}} or Bearer ${{TOKEN}}"
    )]
    InClear(String),
    /// A key that changes stands where one is read once.
    #[error(
        "a key of a `command` or a `file` is the `api_key` of a model; give an environment variable here, such as ${{TOKEN}}"
    )]
    Changes,
    /// A key that changes has settings that do not fit.
    #[error("{0}")]
    Setting(String),
    /// The variable is not set, is empty, or is not text.
    #[error("the environment variable {0} is not set; set it to the secret that it stands for")]
    NotSet(String),
}

ghostlight_actors::parts_of_system_error!(SecretError);

impl Secret {
    /// The value of this environment variable, looked up when it is first used.
    pub fn variable(name: impl Into<String>) -> Self {
        Self(Source::Variable(name.into()))
    }

    /// This value. It is serialised as `***`, which cannot be read back, so stored settings need
    /// [`Secret::variable`].
    pub fn value(value: impl Into<String>) -> Self {
        Self(Source::Value(SecretString::from(value.into())))
    }

    /// The secret of this source, asked anew before it ends and when a server refuses it: for the keys of models. It is
    /// serialised as `***`, which cannot be read back.
    pub fn changing(source: impl CredentialSource) -> Self {
        Self(Source::Changing(Changing::of(source)))
    }

    /// The first line that this program prints, asked anew every five minutes and when a server refuses it.
    pub fn command(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::of_spec(ChangingSpec {
            command: command.into_iter().map(Into::into).collect(),
            file: None,
            lasts: None,
        })
    }

    /// The content of this file, read anew every five minutes and when a server refuses it.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::of_spec(ChangingSpec {
            command: Vec::new(),
            file: Some(path.into()),
            lasts: None,
        })
    }

    fn of_spec(spec: ChangingSpec) -> Self {
        Self(Source::Changing(Changing::of_spec(spec)))
    }

    /// The key that changes, if it is one.
    #[cfg_attr(
        not(any(feature = "anthropic", feature = "gemini", feature = "openai")),
        allow(dead_code)
    )]
    pub(crate) fn as_changing(&self) -> Option<&Changing> {
        match &self.0 {
            Source::Changing(changing) => Some(changing),
            _ => None,
        }
    }

    /// The value, for the one place that sends it.
    ///
    /// # Errors
    /// [`SecretError::NotSet`] where the variable has no value.
    #[doc(hidden)]
    pub fn reveal(&self) -> Result<SecretString, SecretError> {
        match &self.0 {
            Source::Changing(_) => Err(SecretError::Changes),
            Source::Value(value) => Ok(value.clone()),
            Source::Variable(name) => match environment::variable(name) {
                Some(value) if !value.trim().is_empty() => Ok(SecretString::from(value.trim())),
                _ => Err(SecretError::NotSet(name.clone())),
            },
        }
    }
}

/// A text with references to secrets, such as `Bearer ${TOKEN}`, and `$$` for a dollar sign. `${NAME:-text}` stands for the
/// text where the variable is not set.
pub struct SecretText<'t>(Vec<TextPiece<'t>>);

impl fmt::Debug for SecretText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}

impl<'t> SecretText<'t> {
    /// Parses a text without looking anything up.
    ///
    /// # Errors
    /// [`SecretError::NoPlace`].
    pub fn read(text: &'t str) -> Result<Self, SecretError> {
        references(text).map(Self).map_err(|_| SecretError::NoPlace)
    }

    /// Whether the text contains a reference without a default, which would be a secret in clear.
    pub fn has_place(&self) -> bool {
        self.variables().next().is_some()
    }

    /// The names of its variables that have no default.
    pub fn variables(&self) -> impl Iterator<Item = &'t str> {
        self.references()
            .filter(|reference| reference.default.is_none())
            .map(|reference| reference.name)
    }

    fn references(&self) -> impl Iterator<Item = Reference<'t>> {
        self.0.iter().filter_map(|piece| match piece {
            TextPiece::Variable(reference) => Some(*reference),
            _ => None,
        })
    }

    /// The secrets in an address, where its variables are set.
    pub fn credentials(&self) -> Vec<Credential> {
        let secret = |reference: Reference<'_>| {
            Credential::of_variable(reference.name, &environment::variable(reference.name)?)
        };
        self.references().filter_map(secret).collect()
    }

    /// The text with its secrets, for the one place that sends it.
    ///
    /// # Errors
    /// [`SecretError::NotSet`] where a variable has no value.
    pub fn reveal(&self) -> Result<SecretString, SecretError> {
        let value = |name: &str| Some(environment::variable(name)?.trim().to_owned());
        let text = revealed(&self.0, value).map_err(|name| SecretError::NotSet(name.to_owned()))?;
        Ok(SecretString::from(text))
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Variable(name) => write!(f, "${{{name}}}"),
            Source::Changing(changing) => match changing.spec() {
                Some(spec) => match (&spec.file, spec.command.first()) {
                    (Some(file), _) => write!(f, "the key in {}", file.display()),
                    (None, program) => {
                        write!(
                            f,
                            "the key of {}",
                            program.map_or("a program", String::as_str)
                        )
                    }
                },
                None => f.write_str("***"),
            },
            Source::Value(_) => f.write_str("***"),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({self})")
    }
}

/// Two secrets are equal when they are the same variable or the same value.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Source::Variable(one), Source::Variable(two)) => one == two,
            (Source::Value(one), Source::Value(two)) => one.expose_secret() == two.expose_secret(),
            (Source::Changing(one), Source::Changing(two)) => one.is(two),
            _ => false,
        }
    }
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let name = sole_reference(text.trim()).ok_or(SecretError::NotAReference)?;
        Ok(Self::variable(name))
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Source::Changing(changing) if changing.spec().is_some() => {
                changing.spec().serialize(serializer)
            }
            _ => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Object(fields) => {
                let spec: ChangingSpec =
                    serde_json::from_value(Value::Object(fields)).map_err(D::Error::custom)?;
                spec.check().map_err(D::Error::custom)?;
                Ok(Self::of_spec(spec))
            }
            Value::String(text) => text.parse().map_err(D::Error::custom),
            _ => Err(D::Error::custom(SecretError::NotAReference)),
        }
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Secret")
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let changing = generator.subschema_for::<ChangingSpec>();
        json_schema!({
            "description": "A reference to an environment variable, such as ${OPENAI_API_KEY}; or a program or file that gives a key.",
            "anyOf": [
                { "type": "string", "pattern": r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$" },
                changing,
            ],
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_comes_back_as_it_was_written() {
        let secret: Secret = serde_json::from_str("\"${SOME_KEY}\"").unwrap();
        assert_eq!(secret, Secret::variable("SOME_KEY"));
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"${SOME_KEY}\"");
    }

    #[test]
    fn a_value_is_never_shown() {
        let secret = Secret::value("sk-1234");
        let shown = format!(
            "{secret} {secret:?} {}",
            serde_json::to_string(&secret).unwrap()
        );
        assert!(!shown.contains("1234"), "{shown}");
        assert_eq!(secret.reveal().unwrap().expose_secret(), "sk-1234");
    }

    #[test]
    fn a_key_written_into_a_file_is_refused_without_repeating_it() {
        for text in ["sk-1234", "${}", "${A B}", "***", "${A}x"] {
            let error = serde_json::from_value::<Secret>(text.into())
                .unwrap_err()
                .to_string();
            assert!(error.contains("environment variable"), "{error}");
            assert!(!error.contains("1234"), "{error}");
        }
    }

    #[test]
    fn a_key_that_changes_is_written_as_it_was_read() {
        for (written, shown) in [
            (
                r#"{"command":["gcloud","auth","print-access-token"],"lasts_s":3000}"#,
                "the key of gcloud",
            ),
            (r#"{"file":"/run/token"}"#, "the key in /run/token"),
        ] {
            let secret: Secret = serde_json::from_str(written).unwrap();
            assert_eq!(serde_json::to_string(&secret).unwrap(), written);
            assert_eq!(secret.to_string(), shown);
            assert_eq!(secret.reveal().unwrap_err(), SecretError::Changes);
            assert_eq!(secret, serde_json::from_str(written).unwrap());
        }
        for wrong in [
            "{}",
            r#"{"command":[]}"#,
            r#"{"command":["a"],"file":"b"}"#,
            r#"{"file":"b","lasts_s":0}"#,
            r#"{"path":"b"}"#,
            "[]",
        ] {
            assert!(serde_json::from_str::<Secret>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn secrets_have_places_in_a_text() {
        let revealed = |text: &str| -> Result<String, SecretError> {
            let text = SecretText::read(text)?.reveal()?;
            Ok(text.expose_secret().to_owned())
        };
        // cargo sets this variable.
        let name = std::env::var("CARGO_PKG_NAME").unwrap();
        let expected = format!("Bearer {name}, $ and ${{X}} and {name}");
        let text = "Bearer ${CARGO_PKG_NAME}, $ and $${X} and ${CARGO_PKG_NAME}";
        assert_eq!(revealed(text).unwrap(), expected);
        assert!(SecretText::read(text).unwrap().has_place());
        assert!(!SecretText::read("plain $$ $5").unwrap().has_place());
        let with_default = "Bearer ${GHOSTLIGHT_NO_SUCH_VARIABLE:-b}";
        assert_eq!(revealed(with_default).unwrap(), "Bearer b");
        // A default is a secret in clear.
        assert!(!SecretText::read(with_default).unwrap().has_place());
        for text in ["Bearer ${", "${}", "${A B}"] {
            assert_eq!(revealed(text), Err(SecretError::NoPlace), "{text}");
        }
    }

    #[test]
    fn a_missing_variable_is_named() {
        let error = Secret::variable("GHOSTLIGHT_NO_SUCH_VARIABLE")
            .reveal()
            .unwrap_err();
        assert_eq!(
            error,
            SecretError::NotSet("GHOSTLIGHT_NO_SUCH_VARIABLE".into())
        );
    }
}
