//! Whether the store is usable.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use ghostlight_actors::contract::StoreError;

/// The state of an open store that all its parts share.
#[derive(Debug)]
pub(crate) struct Health {
    /// The name of the store for people.
    pub(crate) place: String,
    closed: AtomicBool,
    failed: OnceLock<StoreError>,
    away: AtomicBool,
}

impl Health {
    pub(crate) fn new(place: String) -> Self {
        Self {
            place,
            closed: AtomicBool::new(false),
            failed: OnceLock::new(),
            away: AtomicBool::new(false),
        }
    }

    /// Refuses requests after the store was closed, or after the database was found to have lost
    /// commits.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        self.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn fail(&self, error: StoreError) {
        tracing::error!(%error, "the store refuses work from now on");
        let _ = self.failed.set(error);
    }

    /// Logs once that the database cannot be reached.
    pub(crate) fn away(&self, reason: &str) {
        if !self.away.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                place = self.place,
                reason,
                "the database is away; commits wait"
            );
        }
    }

    pub(crate) fn back(&self) {
        if self.away.swap(false, Ordering::Relaxed) {
            tracing::info!(place = self.place, "the database is back");
        }
    }

    /// Whether the last attempted commit reached the database.
    pub(crate) fn is_reached(&self) -> bool {
        !self.away.load(Ordering::Relaxed)
    }
}
