//! Spans that are exported together, and the places up to which they reach.

use std::{collections::BTreeMap, time::Duration};

use ghostlight_actors::vocabulary::RunId;
use opentelemetry_sdk::trace::SpanData;

use super::{Follower, Halt};
use crate::{
    exporting::Refusal,
    tree::{Finished, Measure},
};

/// How many spans are exported at once.
const SPANS: usize = 512;
/// The first and the longest pause before spans that were not taken are sent again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Spans that are exported together. When they were taken, the trees have come to their places.
#[derive(Default)]
pub(super) struct Batch {
    spans: Vec<SpanData>,
    measures: Vec<Measure>,
    /// The trees whose places change, and whether each is over.
    moved: BTreeMap<RunId, bool>,
}

impl Batch {
    pub(super) fn take(&mut self, finished: Vec<Finished>, is_sampled: bool) {
        for Finished { span, measure } in finished {
            self.spans.extend(span.filter(|_| is_sampled));
            self.measures.push(measure);
        }
    }

    pub(super) fn moved(&mut self, root: RunId, is_over: bool) {
        self.moved.insert(root, is_over);
    }

    pub(super) fn forget(&mut self, root: RunId) {
        self.moved.remove(&root);
    }

    pub(super) fn is_full(&self) -> bool {
        self.measures.len() >= SPANS || self.moved.len() >= SPANS
    }
}

impl Follower {
    /// Exports a batch, and writes down how far the trees have come. It waits as long as the collector takes nothing: what
    /// comes later is in the journal meanwhile. Only an exporter that is to end does not wait.
    pub(super) async fn send(&mut self, batch: &mut Batch) -> Result<(), Halt> {
        let batch = std::mem::take(batch);
        for spans in batch.spans.chunks(SPANS) {
            self.export_spans(spans).await?;
        }
        if !batch.moved.is_empty() {
            self.move_on(batch.moved).await?;
        }
        let metrics = self.telemetry.metrics();
        batch
            .measures
            .into_iter()
            .for_each(|measure| metrics.count(measure));
        Ok(())
    }

    async fn export_spans(&mut self, spans: &[SpanData]) -> Result<(), Halt> {
        let Some(exporter) = self.telemetry.spans().cloned() else {
            return Ok(());
        };
        let mut pause = PAUSE.0;
        loop {
            match exporter.export(spans.to_vec()).await {
                Ok(()) => return Ok(()),
                Err(Refusal::Final(reason)) => {
                    let count = spans.len();
                    tracing::warn!(
                        count,
                        reason,
                        "the collector of OpenTelemetry refuses spans, which are dropped"
                    );
                    self.telemetry.metrics().dropped(count);
                    return Ok(());
                }
                Err(Refusal::Passing(reason)) => {
                    tracing::debug!(reason, "spans are exported again later");
                    let ends = self.ends.wait_for(|ends| *ends);
                    if tokio::time::timeout(pause, ends).await.is_ok() {
                        return Err(Halt::Ends);
                    }
                    pause = pause.saturating_mul(2).min(PAUSE.1);
                    if !self.right.hold(false).await? {
                        return Err(Halt::Lost);
                    }
                }
            }
        }
    }

    async fn move_on(&mut self, moved: BTreeMap<RunId, bool>) -> Result<(), Halt> {
        let rows = moved.into_iter().filter_map(|(root, is_over)| {
            let tree = self.trees.get(&root)?;
            Some((root, tree.row, is_over))
        });
        let rows: Vec<_> = rows.collect();
        if !self.places.move_on(&rows).await? {
            return Err(Halt::Lost);
        }
        for (root, _, is_over) in rows {
            if is_over {
                self.trees.remove(&root);
            } else if let Some(tree) = self.trees.get_mut(&root) {
                tree.row.version += 1;
            }
        }
        Ok(())
    }
}
