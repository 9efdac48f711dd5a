//! Code that a definition names: behaviors and policies, with their settings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How an agent works: the registered name of a behavior, and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "NameOrSpec", into = "NameOrSpec")]
#[schemars(with = "NameOrSpec")]
pub struct BehaviorSpec {
    /// The registered name.
    pub name: String,
    /// Settings of its own; an object.
    pub settings: Value,
}

impl BehaviorSpec {
    /// A behavior without settings.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            settings: Value::Object(serde_json::Map::new()),
        }
    }

    /// Sets the settings.
    #[must_use]
    pub fn settings(mut self, settings: Value) -> Self {
        self.settings = settings;
        self
    }
}

impl Default for BehaviorSpec {
    fn default() -> Self {
        Self::new("function_calling")
    }
}

/// What watches over an agent: the registered name of a policy, and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "NameOrSpec", into = "NameOrSpec")]
#[schemars(with = "NameOrSpec")]
pub struct PolicySpec {
    /// The registered name.
    pub name: String,
    /// Settings of its own; an object.
    pub settings: Value,
}

impl PolicySpec {
    /// A policy without settings.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            settings: Value::Object(serde_json::Map::new()),
        }
    }

    /// Sets the settings.
    #[must_use]
    pub fn settings(mut self, settings: Value) -> Self {
        self.settings = settings;
        self
    }
}

/// In a file: `react`, or `{ name: react, max_steps: 8 }`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a name, or a mapping with `name` and the settings beside it"
)]
enum NameOrSpec {
    /// Only the name.
    Name(String),
    /// The name and settings beside it.
    Settings {
        /// The registered name.
        name: String,
        /// Settings of its own.
        #[serde(flatten)]
        settings: serde_json::Map<String, Value>,
    },
}

impl From<NameOrSpec> for (String, Value) {
    fn from(spec: NameOrSpec) -> Self {
        match spec {
            NameOrSpec::Name(name) => (name, Value::Object(serde_json::Map::new())),
            NameOrSpec::Settings { name, settings } => (name, Value::Object(settings)),
        }
    }
}

impl From<(String, Value)> for NameOrSpec {
    fn from((name, settings): (String, Value)) -> Self {
        match settings {
            Value::Object(settings) if !settings.is_empty() => Self::Settings { name, settings },
            _ => Self::Name(name),
        }
    }
}

impl From<NameOrSpec> for BehaviorSpec {
    fn from(spec: NameOrSpec) -> Self {
        let (name, settings) = spec.into();
        Self { name, settings }
    }
}

impl From<BehaviorSpec> for NameOrSpec {
    fn from(spec: BehaviorSpec) -> Self {
        (spec.name, spec.settings).into()
    }
}

impl From<NameOrSpec> for PolicySpec {
    fn from(spec: NameOrSpec) -> Self {
        let (name, settings) = spec.into();
        Self { name, settings }
    }
}

impl From<PolicySpec> for NameOrSpec {
    fn from(spec: PolicySpec) -> Self {
        (spec.name, spec.settings).into()
    }
}
