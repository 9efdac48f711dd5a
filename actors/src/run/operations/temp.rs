//! The passing state of one run, which no store keeps.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;

use super::state::{Decide, Updated};
use crate::{
    contract::StateValue,
    vocabulary::{Changed, OperationError, Scope},
};

/// A run's passing state, over all its legs. What it holds follows from the run's journal; shared
/// by the clones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Temp(Arc<Mutex<BTreeMap<String, Written>>>);

/// What was written last and how often, a deletion counted.
type Written = (Option<Value>, u64);

impl Temp {
    pub(crate) fn get(&self, key: &str) -> Option<StateValue> {
        let values = self.0.lock();
        let (value, version) = values.get(key)?;
        let (value, version) = (value.clone()?, *version);
        Some(StateValue { value, version })
    }

    /// Writes what this decides on the value that is there.
    pub(super) fn update(&self, key: String, decide: &Decide) -> Result<Updated, OperationError> {
        let found = self.get(&key);
        let value = decide(found.as_ref())?;
        if value.is_none() && found.is_none() {
            return Ok(Updated::nothing());
        }
        let version = self.version(&key) + 1;
        self.0.lock().insert(key, (value.clone(), version));
        Ok(Updated { value, version })
    }

    /// How often a value was written.
    pub(crate) fn version(&self, key: &str) -> u64 {
        self.0.lock().get(key).map_or(0, |(_, version)| *version)
    }

    /// Takes over what a journal records, where it is about this state.
    pub(crate) fn record(&self, changed: Changed) {
        if let Changed::State {
            scope: Scope::Temp,
            key,
            value,
            version,
        } = changed
        {
            self.0.lock().insert(key, (value, version));
        }
    }
}
