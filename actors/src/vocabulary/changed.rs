//! Changes of a team's state and artifacts.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ArtifactInfo, Scope};

/// A change of a value or an artifact that a team keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Changed {
    /// A value of shared state.
    State {
        /// The scope.
        scope: Scope,
        /// The key.
        key: String,
        /// The new value; `None` when it was deleted, which is not the value `null`.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "present")]
        value: Option<Value>,
        /// How often it was written.
        version: u64,
    },
    /// An artifact has a new version.
    Artifact {
        /// The scope.
        scope: Scope,
        /// The version.
        artifact: ArtifactInfo,
    },
}

/// A value that may be absent, where `null` counts as a value.
mod present {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(
        value: &Option<Value>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Value>, D::Error> {
        Value::deserialize(deserializer).map(Some)
    }
}
