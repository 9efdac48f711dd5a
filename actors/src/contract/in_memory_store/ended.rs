//! Which trees have ended, and which were deleted.

use std::collections::{HashMap, VecDeque};

use crate::{
    contract::DELETIONS_KNOWN,
    vocabulary::{RunId, Timestamp},
};

/// How many ended trees are kept by default.
pub(super) const KEPT: usize = 1_000;

/// The most recently deleted runs.
#[derive(Default)]
pub(super) struct Deletions {
    at: HashMap<RunId, Timestamp>,
    order: VecDeque<RunId>,
}

impl Deletions {
    pub(super) fn get(&self, run: &RunId) -> Option<Timestamp> {
        self.at.get(run).copied()
    }

    pub(super) fn add(&mut self, run: RunId, at: Timestamp) {
        self.at.insert(run, at);
        self.order.push_back(run);
        while self.order.len() as u64 > DELETIONS_KNOWN {
            if let Some(oldest) = self.order.pop_front() {
                self.at.remove(&oldest);
            }
        }
    }
}

/// The trees that ended last, up to the number that the store keeps.
pub(super) struct Ended {
    pub(super) roots: VecDeque<RunId>,
    pub(super) keep: usize,
    /// When the latest of them ended.
    pub(super) at: Timestamp,
    /// How many trees were deleted since the last search for unused blobs.
    pub(super) gone: usize,
}

impl Default for Ended {
    fn default() -> Self {
        Self {
            roots: VecDeque::new(),
            keep: KEPT,
            at: Timestamp::default(),
            gone: 0,
        }
    }
}
