//! The form of all identifiers: texts, or an error.

use ghostlight_safety::cut;

/// A text that is not the identifier that it should be.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected {expected}, found {found:?}")]
pub struct IdError {
    expected: &'static str,
    found: String,
}

impl IdError {
    pub(crate) fn new(expected: &'static str, found: &str) -> Self {
        let found = cut(found, 80).into_owned();
        Self { expected, found }
    }
}

/// Serialises a type through its `Display` and `FromStr`.
macro_rules! serde_as_text {
    ($name:ty) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use serde_as_text;
