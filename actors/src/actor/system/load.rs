//! The load of a System.

use std::collections::BTreeMap;

use super::System;
use crate::actor::{SystemOptions, fair_slots::SlotCounts};

/// The load of a System, in this process alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Load {
    /// The slots of its models, by the models' names in the supervision tree.
    pub models: BTreeMap<String, SlotCounts>,
    /// The slots of all tools together.
    pub tools: SlotCounts,
    /// The slots of tools that have a bound of their own and were called, by name.
    pub by_tool: BTreeMap<String, SlotCounts>,
    /// How many root runs are live, of at most [`SystemOptions::max_live_runs`].
    pub live_runs: usize,
    /// How many turns are on their way into sessions, of at most [`SystemOptions::max_admissions`].
    pub admissions: usize,
}

impl System {
    /// The load of this System: which slots are taken, and what waits for one.
    pub fn load(&self) -> Load {
        let services = &self.shared().services;
        let gateways = services.gateways.read();
        let models = gateways.named.iter();
        let (tools, by_tool) = services.executor.slots();
        Load {
            models: models
                .map(|(name, model)| (name.clone(), model.slots()))
                .collect(),
            tools,
            by_tool,
            live_runs: services.previewer.live.roots(),
            admissions: self.shared().admitted(),
        }
    }

    /// The bounds of this System.
    pub fn options(&self) -> SystemOptions {
        self.shared().limits
    }
}
