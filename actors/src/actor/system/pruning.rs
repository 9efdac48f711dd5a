//! Deleting ended runs and idle sessions.

use std::{sync::Arc, time::Duration};

use super::System;
use crate::actor::{Pruned, Retention, SystemError, acting::Acting, shared::Shared};

/// The shortest and the longest pause after which a System deletes by itself.
const PAUSES: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

impl System {
    /// Deletes ended runs and idle sessions that `retention` does not keep: see
    /// [`Sessions::prune`](crate::actor::Sessions::prune). With
    /// [`SystemOptions::retention`](crate::actor::SystemOptions) a System does so by itself.
    ///
    /// A deleted run is gone for `fork`, `replay`, events and everything else. For a while
    /// ([`DELETIONS_KNOWN`](crate::contract::DELETIONS_KNOWN)) a request for it fails with
    /// [`StoreError::Deleted`](crate::contract::StoreError::Deleted).
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn prune(&self, retention: Retention) -> Result<Pruned, SystemError> {
        self.sessions().prune(retention).await
    }
}

/// Regularly ends the runs that are silent too long, and deletes what the System's retention does not keep.
pub(super) async fn keep_tidy(shared: Arc<Shared>) {
    let (clock, retention) = (shared.services.clock.clone(), shared.limits.retention);
    let silent = shared.limits.expire_silent;
    let ages = [retention.shortest_age(), silent];
    let pause = ages.into_iter().flatten().min();
    let pause = pause.unwrap_or(PAUSES.0).clamp(PAUSES.0, PAUSES.1);
    let system = System(shared, Acting::Operator);
    loop {
        if let Some(silent) = silent {
            expire(&system, silent).await;
        }
        if retention.deletes() {
            prune(&system, retention).await;
        }
        clock.sleep(pause).await;
    }
}

async fn expire(system: &System, silent: Duration) {
    match system.expire_open(silent).await {
        Ok(expired) if expired.is_empty() => {}
        Ok(expired) => {
            let runs = expired.len();
            tracing::info!(runs, "runs that were silent too long were told to end");
        }
        Err(error) => {
            tracing::warn!(%error, "runs that are silent too long could not all be told to end");
        }
    }
}

async fn prune(system: &System, retention: Retention) {
    match system.prune(retention).await {
        Ok(Pruned {
            sessions: 0,
            trees: 0,
            ..
        }) => {}
        Ok(Pruned {
            sessions,
            trees,
            entries,
            ..
        }) => {
            tracing::info!(
                sessions,
                trees,
                entries,
                "ended runs and idle sessions were deleted"
            );
        }
        Err(error) => {
            tracing::warn!(%error, "ended runs and idle sessions could not all be deleted");
        }
    }
}
