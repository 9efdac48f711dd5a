//! Values of shared state, and how stores change them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::StoreError;

/// A value of shared state with its version.
#[derive(Clone, Debug, PartialEq)]
pub struct StateValue {
    /// The value.
    pub value: Value,
    /// How often it was changed; 1 after the first time.
    pub version: u64,
}

/// A place of shared state: the value that is there, if one is, and how often it was changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateSlot {
    /// The value; `None` where it was deleted or never written. `None` is not the value `null`.
    pub value: Option<Value>,
    /// How often the value was written or deleted; 0 where it never was. The count goes on after a deletion, so that
    /// a later value is never mistaken for an earlier one.
    pub version: u64,
}

impl StateSlot {
    /// The value, if it is there.
    pub fn present(self) -> Option<StateValue> {
        let version = self.version;
        self.value.map(|value| StateValue { value, version })
    }
}

/// A change of shared state.
#[derive(Clone, Debug)]
pub struct StateWrite {
    /// The scope, such as `user:42` or a run's working memory.
    pub scope: String,
    /// The key of the value.
    pub key: String,
    /// The new value; `None` deletes it.
    pub value: Option<Box<RawValue>>,
    /// The content that must be there before.
    pub expected: Expected,
}

impl StateWrite {
    /// The versions that the writes of one batch make. Each write sees those before it. `found` says of a scope and a
    /// key whether there is a value, and which version: (`false`, 0) where nothing was ever written.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] for the first write that does not find what it expects, and the errors of `found`.
    pub fn versions<E: From<StoreError>>(
        writes: &[Self],
        mut found: impl FnMut(&str, &str) -> Result<(bool, u64), E>,
    ) -> Result<Vec<u64>, E> {
        let mut staged: HashMap<(&str, &str), (bool, u64)> = HashMap::new();
        let mut versions = Vec::with_capacity(writes.len());
        for write in writes {
            let at = (write.scope.as_str(), write.key.as_str());
            let (present, version) = match staged.get(&at) {
                Some(staged) => *staged,
                None => found(at.0, at.1)?,
            };
            if !write.expected.is_met(present, version) {
                let conflict = StoreError::Conflict {
                    scope: write.scope.clone(),
                    key: write.key.clone(),
                    version: present.then_some(version),
                };
                return Err(conflict.into());
            }
            let next = write.expected.next(version);
            staged.insert(at, (write.value.is_some(), next));
            versions.push(next);
        }
        Ok(versions)
    }
}

/// The content that must be there before a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// Anything or nothing: the last write wins.
    #[default]
    Any,
    /// No value: it was deleted or never written.
    Absent,
    /// The value, or the absence of one, that this version left: see [`StateSlot::version`].
    Version(u64),
    /// Anything or nothing. The write copies a value: the copy has the version of its source, or
    /// the next version here where that is higher.
    Copy(u64),
}

impl Expected {
    fn is_met(self, present: bool, version: u64) -> bool {
        match self {
            Self::Any | Self::Copy(_) => true,
            Self::Absent => !present,
            Self::Version(expected) => version == expected,
        }
    }

    /// The version of the value after a write to a value of this version.
    fn next(self, version: u64) -> u64 {
        let next = version.saturating_add(1);
        match self {
            Self::Copy(copied) => copied.max(next),
            _ => next,
        }
    }
}
