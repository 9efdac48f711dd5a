//! Shows previews, which are not recorded.

use std::sync::Arc;

use super::{live_runs::LiveRuns, observers::Observers};
use crate::{
    contract::{Clock, PreviewSink},
    vocabulary::{Event, EventRecord, Preview, RunId},
};

/// Shows to observers what is under way.
#[derive(Clone)]
pub(crate) struct Previewer {
    pub(crate) observers: Observers,
    pub(crate) live: LiveRuns,
    pub(crate) clock: Arc<dyn Clock>,
}

opaque!(Previewer);

impl Previewer {
    /// Shows a preview, which is made only when the tree has an observer.
    pub(crate) fn preview(&self, run: RunId, make: impl FnOnce() -> Preview) {
        if !self.observers.any() {
            return;
        }
        let Some(route) = self.live.get(run) else {
            return;
        };
        if self.observers.watched(route.root) {
            let event = Event::Preview(make());
            let record = EventRecord::new(run, self.clock.now(), route.path(), event);
            self.observers
                .preview(route.root, route.sender.written(), record);
        }
    }

    /// Shows a preview of a model's answer, and keeps the answer so far: for those who begin to watch later, and for a run
    /// that is cancelled before its answer is whole.
    pub(crate) fn show(&self, run: RunId, preview: Preview) {
        let begins = matches!(preview, Preview::ModelStarted { .. });
        if !begins && self.observers.say_unseen(run, &preview) {
            return;
        }
        let Some(route) = self.live.get(run) else {
            return;
        };
        let entries = route.sender.written();
        let record = |preview| {
            let event = Event::Preview(preview);
            EventRecord::new(run, self.clock.now(), route.path(), event)
        };
        self.observers.live(route.root, entries, preview, record);
    }

    /// Forgets a run that is not live in this process any more.
    pub(crate) fn left(&self, run: RunId) {
        self.live.remove(run);
        self.observers.forget(run);
    }

    /// Forgets all runs of a tree.
    pub(crate) fn tree_left(&self, root: RunId) {
        self.live.remove_tree(root);
        self.observers.forget_tree(root);
    }

    /// The sink for the previews of a run's calls.
    pub(crate) fn sink(&self, run: RunId) -> PreviewSink {
        let previewer = self.clone();
        Arc::new(move |preview| match preview {
            Preview::ModelStarted { .. } | Preview::Delta { .. } | Preview::ModelRetry { .. } => {
                previewer.show(run, preview);
            }
            other => previewer.preview(run, || other),
        })
    }
}
