//! Deleting ended runs.

use std::{sync::Arc, time::Duration};

use super::System;
use crate::actor::{Pruned, Retention, SystemError, shared::Shared};

/// The shortest and the longest pause after which a System deletes by itself.
const PAUSES: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

impl System {
    /// Deletes ended runs that `retention` does not keep. With
    /// [`Limits::retention`](crate::actor::Limits) a System does so by itself.
    ///
    /// A deleted run is gone for `fork`, `replay`, events and everything else. For a while
    /// ([`DELETIONS_KNOWN`](crate::contract::DELETIONS_KNOWN)) a request for it fails with
    /// [`StoreError::Deleted`](crate::contract::StoreError::Deleted).
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn prune(&self, retention: Retention) -> Result<Pruned, SystemError> {
        let services = &self.shared().services;
        Ok(retention
            .prune(&services.store, services.clock.now())
            .await?)
    }
}

/// Regularly deletes the runs that the System's retention does not keep.
pub(super) async fn keep_pruning(shared: Arc<Shared>) {
    let (clock, retention) = (shared.services.clock.clone(), shared.limits.retention);
    let pause = retention
        .older_than
        .unwrap_or(PAUSES.0)
        .clamp(PAUSES.0, PAUSES.1);
    loop {
        match retention.prune(&shared.services.store, clock.now()).await {
            Ok(Pruned { trees: 0, .. }) => {}
            Ok(Pruned { trees, entries, .. }) => {
                tracing::info!(trees, entries, "ended runs were deleted");
            }
            Err(error) => tracing::warn!(%error, "ended runs could not be deleted"),
        }
        clock.sleep(pause).await;
    }
}
