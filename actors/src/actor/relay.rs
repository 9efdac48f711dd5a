//! Trees that are followed here while other processes carry them: their previews come from there.

use std::{collections::HashMap, fmt};

use tokio::sync::mpsc;

use super::previewer::Previewer;
use crate::vocabulary::{EventRecord, RunId};

/// The trees that are followed in this process. A server asks the processes that carry them for what is not recorded.
#[derive(Debug)]
pub struct Relays {
    followed: mpsc::UnboundedReceiver<RunId>,
    previewer: Previewer,
}

impl Relays {
    pub(super) fn of(previewer: &Previewer) -> Self {
        Self {
            followed: previewer.observers.relays(),
            previewer: previewer.clone(),
        }
    }

    /// The next tree that somebody follows. Where it is followed no more, and then again, it comes again. It
    /// completes with `None` when another call of [`System::relays`](super::System::relays) has taken its place.
    pub async fn next(&mut self) -> Option<Relay> {
        let root = self.followed.recv().await?;
        Some(Relay {
            root,
            previewer: self.previewer.clone(),
            passed: HashMap::new(),
        })
    }
}

/// A tree that is followed here, and the way by which its previews come from another process.
pub struct Relay {
    root: RunId,
    previewer: Previewer,
    /// How many entries of each run the other process is known to have shown.
    passed: HashMap<RunId, u64>,
}

impl Relay {
    /// The root run of the tree.
    pub fn root(&self) -> RunId {
        self.root
    }

    /// Whether anybody still follows it. After `false` this relay is over.
    pub fn is_followed(&self) -> bool {
        self.previewer.observers.wants_relay(self.root)
    }

    /// Whether this process carries it, so that no other one has previews of it.
    pub fn is_carried_here(&self) -> bool {
        self.previewer.live.is_live(self.root)
    }

    /// The position after which the events of the other process are wanted.
    pub fn position(&self) -> u64 {
        self.previewer.observers.position(self.root)
    }

    /// Shows an event of the process that carries the tree. A preview is passed on; of a recorded event the
    /// followers learn that there is something to read.
    pub fn show(&mut self, record: EventRecord) {
        match (record.position, record.sequence) {
            (Some(position), Some(sequence)) => {
                self.passed.insert(record.run, sequence + 1);
                self.previewer.observers.published(self.root, position);
            }
            _ => {
                // It rests on what was shown before it, which is read from the store here.
                let entries = self.passed.get(&record.run).copied().unwrap_or_default();
                self.previewer.observers.relay(self.root, entries, record);
            }
        }
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Relay({})", self.root)
    }
}
