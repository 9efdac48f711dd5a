//! The beginning of a leg.

use std::sync::Arc;

use crate::vocabulary::{Entry, Message};

/// How a leg begins, as its journal records it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LegStart {
    pub(crate) number: u32,
    pub(crate) agent: String,
    pub(crate) request: Option<String>,
    /// The messages of the run before this leg.
    pub(crate) said: Vec<Arc<Message>>,
    /// The places in `said` of messages that people sent while the run was under way.
    pub(crate) heard: Vec<u32>,
    pub(crate) callers: Vec<String>,
    pub(crate) returned_by: Option<String>,
}

impl LegStart {
    /// The entry of the leg's beginning.
    pub(crate) fn entry(&self, display_name: Option<String>) -> Entry {
        let at = self.clone();
        Entry::LegStarted {
            leg: at.number,
            agent: at.agent,
            display_name,
            request: at.request,
            messages: at.said,
            callers: at.callers,
            returned_by: at.returned_by,
            heard: at.heard,
        }
    }
}
