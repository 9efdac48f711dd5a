//! Shared state for the operations of other packages.

use std::{fmt, sync::Arc};

use serde_json::{Value, value::to_raw_value};

use super::state::Place;
use crate::{
    contract::{BoxFuture, Expected, StateSlot, StateValue, StateWrite},
    run::{Changes, OperationContext, Ports},
    vocabulary::{
        Changed, Entry, ErrorKind, OperationError, OperationId, Scope, Timestamp, is_key_of_engine,
        is_reserved_key, key_of_engine,
    },
};

/// The values of one scope, for an [`Operation`](crate::run::Operation) that reads and changes
/// several of them. Each attempt of its [`Write`](crate::run::Write) reads the values here and puts
/// its changes into its [`Changes`] with [`Changes::set`]. Cloning shares it.
#[derive(Clone)]
pub struct ScopedState {
    ports: Arc<dyn Ports>,
    place: Place,
}

impl ScopedState {
    /// The scope as the run and its journal name it, without the id of a run or session.
    pub fn scope(&self) -> &Scope {
        &self.place.scope
    }

    /// The store's name of the scope. Exactly the runs that share its values have the same name.
    pub fn stored_as(&self) -> &str {
        &self.place.store
    }

    /// A value, and how often it was changed, even if there is no value.
    pub fn get(&self, key: &str) -> BoxFuture<'static, Result<StateSlot, OperationError>> {
        self.ports.state(self.place.store.clone(), key.to_owned())
    }

    /// All existing values, by key.
    pub fn all(&self) -> BoxFuture<'static, Result<Vec<(String, StateValue)>, OperationError>> {
        let (store, scope) = (self.ports.store().clone(), self.place.store.clone());
        Box::pin(async move { Ok(store.scope(scope).await?) })
    }

    /// The keys of existing values that functions and tools may write: without those of the engine and of memories.
    pub fn keys(&self) -> BoxFuture<'static, Result<Vec<String>, OperationError>> {
        let all = self.all();
        Box::pin(async move {
            let keys = all.await?.into_iter().map(|(key, _)| key);
            Ok(keys.filter(|key| !is_reserved_key(key)).collect())
        })
    }
}

impl fmt::Debug for ScopedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScopedState({})", self.place.scope)
    }
}

impl OperationContext {
    /// The values of a scope, as this run has it.
    ///
    /// # Errors
    /// An error for `temp`, which is in no store.
    pub fn state(&self, scope: &Scope) -> Result<ScopedState, OperationError> {
        let place = Place::of(self.start(), scope);
        if place.scope == Scope::Temp {
            let message = "values of the scope `temp` are in no store; use `run`";
            return Err(OperationError::new(ErrorKind::InvalidInput, message));
        }
        let ports = self.ports.clone();
        Ok(ScopedState { ports, place })
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.ports.clock().now()
    }
}

impl Changes {
    /// Changes a value that was changed `before` times. `None` deletes it. The journal records the
    /// change before the operation's result, so that forks and rewound sessions find the values of
    /// that time.
    ///
    /// # Errors
    /// An error for a key of the engine's own.
    pub fn set(
        &mut self,
        operation: OperationId,
        state: &ScopedState,
        key: impl Into<String>,
        (value, before): (Option<Value>, u64),
    ) -> Result<(), OperationError> {
        let key = key.into();
        if is_key_of_engine(&key) {
            let message = key_of_engine(&key);
            return Err(OperationError::new(ErrorKind::InvalidInput, message));
        }
        self.put(operation, &state.place, key, (value, before));
        Ok(())
    }

    /// Writes a value that was changed `before` times. Values of the scope `temp` are in no store.
    pub(super) fn write(&mut self, place: &Place, key: &str, value: Option<&Value>, before: u64) {
        if place.scope != Scope::Temp {
            self.writes.push(StateWrite {
                scope: place.store.clone(),
                key: key.to_owned(),
                value: value.and_then(|value| to_raw_value(value).ok()),
                expected: Expected::Version(before),
            });
        }
    }

    /// Writes a value, and tells of it.
    pub(super) fn put(
        &mut self,
        operation: OperationId,
        place: &Place,
        key: String,
        (value, before): (Option<Value>, u64),
    ) {
        self.write(place, &key, value.as_ref(), before);
        let changed = Changed::State {
            scope: place.scope.clone(),
            key,
            value,
            version: before + 1,
        };
        self.tell(operation, changed);
    }

    pub(super) fn tell(&mut self, op: OperationId, changed: Changed) {
        let changed = Box::new(changed);
        self.entries.push(Entry::Changed { op, changed });
    }
}
