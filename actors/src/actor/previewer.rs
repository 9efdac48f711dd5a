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
            let record = EventRecord::new(run, self.clock.now(), route.path.to_vec(), event);
            self.observers
                .preview(route.root, route.sender.written(), record);
        }
    }

    /// The sink for the previews of a run's calls.
    pub(crate) fn sink(&self, run: RunId) -> PreviewSink {
        let previewer = self.clone();
        Arc::new(move |preview| previewer.preview(run, || preview))
    }
}
