//! Changes of shared state and artifacts, as journals record them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::recorded_result::read_result;
use crate::vocabulary::{Changed, Entry, Scope};

/// The kind of the operation that changes a value, as journals have it.
pub(crate) const UPDATE: &str = "state_update";

/// The kind of the operation that saves an artifact.
pub(crate) const SAVE: &str = "artifact_save";

/// The result of an update.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Updated {
    /// The value. `None` when it was deleted, which differs from the value `null`.
    pub(crate) value: Option<Value>,
    /// How often the value has been changed. 0 when there was nothing to delete.
    pub(crate) version: u64,
}

impl Updated {
    /// There was nothing to delete.
    pub(super) fn nothing() -> Self {
        let (value, version) = (None, 0);
        Self { value, version }
    }
}

/// `[value, version]`. A deletion is `[null, version]`, and the value `null` has a third member,
/// since the first journals could not tell the two apart.
impl Serialize for Updated {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Some(Value::Null) => ((), self.version, true).serialize(serializer),
            value => (value, self.version).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Updated {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut parts = Vec::<Value>::deserialize(deserializer)?;
        let version = parts.get(1).and_then(Value::as_u64);
        let version = version.ok_or_else(|| serde::de::Error::custom("a version is missing"))?;
        let is_null = parts.len() > 2;
        let value = parts.swap_remove(0);
        Ok(Self {
            value: Some(value).filter(|value| is_null || !value.is_null()),
            version,
        })
    }
}

/// The scope and the key of a value, from its name in journals.
pub(super) fn recorded_at(name: &str) -> Option<(Scope, String)> {
    let (scope, key) = name.split_once('/')?;
    Some((scope.parse().ok()?, key.to_owned()))
}

/// The change that the entry of an update records: the place, the value and its version.
fn recorded_update(name: &str, result: &RawValue) -> Option<Changed> {
    let written = read_result(result).filter(|written: &Updated| written.version > 0);
    let Updated { value, version } = written?;
    let (scope, key) = recorded_at(name)?;
    Some(Changed::State {
        scope,
        key,
        value,
        version,
    })
}

/// The change that the entry of a save records.
fn recorded_save(name: &str, result: &RawValue) -> Option<Changed> {
    let artifact = read_result(result)?;
    let (scope, _) = recorded_at(name)?;
    Some(Changed::Artifact { scope, artifact })
}

/// The change of state or artifacts that an entry records, if any.
pub(crate) fn recorded_change(entry: &Entry) -> Option<Changed> {
    match entry {
        Entry::Changed { changed, .. } => Some((**changed).clone()),
        Entry::Completed {
            kind, name, result, ..
        } => match kind.as_ref() {
            UPDATE => recorded_update(name, result),
            SAVE => recorded_save(name, result),
            _ => None,
        },
        _ => None,
    }
}

/// The change of this scope that an entry records, if any. Entries of other scopes are not decoded.
pub(crate) fn recorded_change_of(entry: &Entry, scope: &Scope) -> Option<Changed> {
    let name = match entry {
        Entry::Changed { changed, .. } => {
            let (Changed::State { scope: of, .. } | Changed::Artifact { scope: of, .. }) =
                &**changed;
            return (of == scope).then(|| (**changed).clone());
        }
        Entry::Completed { kind, name, .. } if matches!(&**kind, UPDATE | SAVE) => name,
        _ => return None,
    };
    let (of, _) = recorded_at(name)?;
    (of == *scope).then(|| recorded_change(entry))?
}
