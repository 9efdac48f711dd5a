//! What wraps calls, as plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An interceptor of a team: the registered name of its kind, what it stands around, and its
/// settings.
///
/// Where neither models nor tools are named, it stands around all that the team uses; where only
/// one of them is, around nothing of the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "NameOrSpec", into = "NameOrSpec")]
#[schemars(with = "NameOrSpec")]
#[non_exhaustive]
pub struct InterceptorSpec {
    /// The registered name of the kind, such as `retry`.
    pub name: String,
    /// The models whose calls it wraps.
    pub models: Option<Vec<String>>,
    /// The tools whose calls it wraps.
    pub tools: Option<Vec<String>>,
    /// Settings of its own.
    pub settings: serde_json::Map<String, Value>,
}

impl InterceptorSpec {
    /// An interceptor of this kind around all calls, without settings.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            models: None,
            tools: None,
            settings: serde_json::Map::new(),
        }
    }

    /// Adds a setting.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }
}

/// In a file: `logging`, or `{ name: retry, attempts: 3, tools: [search] }`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a name, or a mapping with `name` and the settings beside it"
)]
enum NameOrSpec {
    /// Only the name.
    Name(String),
    /// The name, what it stands around, and settings beside them.
    Settings {
        /// The registered name.
        name: String,
        /// The models whose calls it wraps.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        models: Option<Vec<String>>,
        /// The tools whose calls it wraps.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tools: Option<Vec<String>>,
        /// Settings of its own.
        #[serde(flatten)]
        settings: serde_json::Map<String, Value>,
    },
}

impl From<NameOrSpec> for InterceptorSpec {
    fn from(spec: NameOrSpec) -> Self {
        match spec {
            NameOrSpec::Name(name) => Self::new(name),
            NameOrSpec::Settings {
                name,
                models,
                tools,
                settings,
            } => Self {
                name,
                models,
                tools,
                settings,
            },
        }
    }
}

impl From<InterceptorSpec> for NameOrSpec {
    fn from(spec: InterceptorSpec) -> Self {
        let InterceptorSpec {
            name,
            models,
            tools,
            settings,
        } = spec;
        if models.is_none() && tools.is_none() && settings.is_empty() {
            return Self::Name(name);
        }
        Self::Settings {
            name,
            models,
            tools,
            settings,
        }
    }
}
