//! Whether the store may work.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use ghostlight_actors::contract::StoreError;

/// What all parts of an open store know of it.
#[derive(Debug)]
pub(crate) struct Health {
    /// What people call it.
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

    /// Refuses work of a store that was closed, or that found the database to have lost commits.
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

    /// Tells once that the database cannot be reached.
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

    /// Whether the last commit that was tried reached the database.
    pub(crate) fn is_reached(&self) -> bool {
        !self.away.load(Ordering::Relaxed)
    }
}
