//! The temporary state of one run, which no store keeps.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use super::state::{Decide, Updated};
use crate::{
    contract::StateSlot,
    vocabulary::{Changed, OperationError, Scope},
};

/// A run's temporary state, over all its legs. Its values follow from the run's journal. Clones
/// share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Temp(Arc<Mutex<BTreeMap<String, StateSlot>>>);

impl Temp {
    pub(crate) fn get(&self, key: &str) -> StateSlot {
        self.0.lock().get(key).cloned().unwrap_or_default()
    }

    /// Writes the decision about the present value.
    pub(super) fn update(&self, key: String, decide: &Decide) -> Result<Updated, OperationError> {
        let found = self.get(&key);
        let version = found.version + 1;
        let found = found.present();
        let value = decide(found.as_ref())?;
        if value.is_none() && found.is_none() {
            return Ok(Updated::nothing());
        }
        let slot = StateSlot {
            value: value.clone(),
            version,
        };
        self.0.lock().insert(key, slot);
        Ok(Updated { value, version })
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
            self.0.lock().insert(key, StateSlot { value, version });
        }
    }
}
