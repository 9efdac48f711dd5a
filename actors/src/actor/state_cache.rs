//! Values of shared state, read through a cache.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::contract::{StateSlot, StoreError, StoreHandle};

/// A value's scope and key.
type Place = (String, String);

/// The bound on cached values. A full cache is emptied.
const CACHED: usize = 16_384;

/// A cache of shared state. Writes are part of operations' commits, which tell it afterwards, so it has nothing that could be
/// lost.
pub(crate) struct StateCache {
    store: StoreHandle,
    cached: Mutex<Cached>,
}

#[derive(Default)]
struct Cached {
    values: HashMap<Place, StateSlot>,
    /// How often it was told of changes. What was being read meanwhile may be of before.
    changes: u64,
}

impl StateCache {
    pub(crate) fn new(store: StoreHandle) -> Self {
        Self {
            store,
            cached: Mutex::default(),
        }
    }

    /// A value, and how often it was changed, even if there is no value.
    pub(crate) async fn get(&self, place: Place) -> Result<StateSlot, StoreError> {
        let before = {
            let cached = self.cached.lock();
            if let Some(value) = cached.values.get(&place) {
                return Ok(value.clone());
            }
            cached.changes
        };
        let (scope, key) = place.clone();
        let value = self.store.state(scope, key).await?;
        let mut cached = self.cached.lock();
        // Only a run's own memory is kept: the runs of a tree live in one process, while another
        // process may write other values.
        if place.0.starts_with("run:") && cached.changes == before {
            if cached.values.len() >= CACHED {
                cached.values.clear();
            }
            cached.values.insert(place, value.clone());
        }
        Ok(value)
    }

    /// These values changed.
    pub(crate) fn changed(&self, places: &[Place]) {
        let mut cached = self.cached.lock();
        cached.changes += 1;
        places.iter().for_each(|place| {
            cached.values.remove(place);
        });
    }

    /// Any value of this scope may have changed unseen.
    pub(crate) fn forget(&self, scope: &str) {
        let mut cached = self.cached.lock();
        cached.changes += 1;
        cached.values.retain(|(of, _), _| of != scope);
    }
}
