//! The temporary state of one run, which no store keeps.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use crate::{
    contract::StateSlot,
    vocabulary::{Changed, Scope},
};

/// A run's temporary state, over all its legs. Its values follow from the run's journal. Clones
/// share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Temp(Arc<Mutex<BTreeMap<String, StateSlot>>>);

impl Temp {
    pub(crate) fn get(&self, key: &str) -> StateSlot {
        self.0.lock().get(key).cloned().unwrap_or_default()
    }

    pub(crate) fn set(&self, key: String, slot: StateSlot) {
        self.0.lock().insert(key, slot);
    }

    /// Applies a recorded change, if it is a change of this state.
    pub(crate) fn record(&self, changed: Changed) {
        if let Changed::State {
            scope: Scope::Temp,
            key,
            value,
            version,
        } = changed
        {
            self.set(key, StateSlot { value, version });
        }
    }
}
