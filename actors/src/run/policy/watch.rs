//! The policies of a function, and what they see of it.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{HookContext, erased::PolicyHandle, installed::Policies};
use crate::{run::RunContext, vocabulary::Transcript};

/// The policies of a function, and their view of a lane that no loop drives.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(crate) policies: Arc<Policies>,
    pub(super) seen: Arc<Mutex<Seen>>,
}

/// The state of a function, as far as its model calls show it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(super) transcript: Transcript,
    pub(super) steps: u32,
    /// The tools that policies took out of the last request.
    pub(super) withheld: Vec<String>,
}

impl Seen {
    pub(super) fn new(transcript: Transcript) -> Self {
        Self {
            transcript,
            steps: 0,
            withheld: Vec::new(),
        }
    }

    pub(crate) fn moment(&self) -> HookContext<'_> {
        HookContext {
            transcript: &self.transcript,
            steps: self.steps,
        }
    }
}

impl Watch {
    /// Makes the policies of a leg; `None` when there are none.
    pub(crate) fn install(cx: &RunContext, made: &[(String, PolicyHandle)]) -> Option<Self> {
        let policies = Arc::new(Policies::install(cx, made)?);
        let seen = Seen::new(cx.conversation());
        Some(Self {
            policies,
            seen: Arc::new(Mutex::new(seen)),
        })
    }

    /// The policies of a lane that begins here.
    pub(crate) fn beside(&self) -> Self {
        let seen = self.seen.lock().clone();
        Self {
            policies: self.policies.clone(),
            seen: Arc::new(Mutex::new(seen)),
        }
    }
}
