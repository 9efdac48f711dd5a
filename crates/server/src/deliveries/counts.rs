//! The counts of messages by their result, for the metrics of the server.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::metrics::single;

/// Counts since the process began; each server that shares a store counts its own part of the work.
#[derive(Debug, Default)]
pub(super) struct Counts {
    delivered: AtomicU64,
    failed: AtomicU64,
    given_up: AtomicU64,
    pending: AtomicI64,
}

/// A message that is posted, or waits until it is posted again.
pub(super) struct Pending<'c>(&'c Counts);

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counts {
    pub(super) fn pending(&self) -> Pending<'_> {
        self.pending.fetch_add(1, Ordering::Relaxed);
        Pending(self)
    }

    pub(super) fn delivered(&self) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
    }

    /// An attempt failed; whether the message is given up for it.
    pub(super) fn failed(&self, is_over: bool) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.given_up
            .fetch_add(u64::from(is_over), Ordering::Relaxed);
    }

    /// The text format of Prometheus, version 0.0.4.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let counters = [
            (
                "ghostlight_deliveries_delivered_total",
                "Messages that arrived at their receivers.",
                &self.delivered,
            ),
            (
                "ghostlight_deliveries_failed_total",
                "Attempts to post a message that failed.",
                &self.failed,
            ),
            (
                "ghostlight_deliveries_given_up_total",
                "Messages that did not arrive and are posted no more.",
                &self.given_up,
            ),
        ];
        for (name, help, counter) in counters {
            let value = counter.load(Ordering::Relaxed);
            single(&mut text, name, help, "counter", value);
        }
        let pending = self.pending.load(Ordering::Relaxed);
        let help = "Messages that are posted now, or wait for their next attempt.";
        let name = "ghostlight_deliveries_pending";
        single(&mut text, name, help, "gauge", pending);
        text
    }
}
