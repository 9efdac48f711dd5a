//! Where a followed run did not take the turn that was said to it, the events of the run that did follow.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::FutureExt as _;
use tokio::sync::watch;

use super::EventStream;
use crate::{
    contract::{BoxFuture, StoreError},
    vocabulary::{Event, EventRecord, RunId, RunResult, SessionId},
};

/// The beginning of a turn that was submitted.
#[derive(Clone)]
pub(in crate::actor) struct Beginning {
    /// The run that the turn begins or joins. Nothing comes where the turn is refused or taken back.
    pub(in crate::actor) run: watch::Receiver<Option<RunId>>,
    pub(in crate::actor) turn: Arc<(SessionId, String)>,
}

/// Finds the run that takes the turn for which a run is followed, and waits for it where it is about to begin; `None`
/// where there will be none.
pub(in crate::actor) type FindTaker =
    Arc<dyn Fn() -> BoxFuture<'static, Result<Option<RunId>, StoreError>> + Send + Sync>;

impl EventStream {
    /// The same stream, for a turn that was said to the root.
    pub(in crate::actor) fn going_on_with(mut self, taker: Option<FindTaker>) -> Self {
        self.taker = taker;
        self
    }

    /// The next event for a reader that shows a turn as one run: the end of a run that did not take the turn reads as the
    /// end of one that goes on in the run which did. It may be dropped while it waits, as [`next`](Self::next) may.
    pub async fn next_as_one(&mut self) -> Option<Result<EventRecord, StoreError>> {
        if self.held.is_none() {
            match self.next().await? {
                Ok(record) => self.held = Some(record),
                failed => return Some(failed),
            }
        }
        if self.over {
            match poll_fn(|cx| self.go_on_with_taker(cx)).await {
                Ok(false) => {}
                Ok(true) => {
                    if let Some(record) = &mut self.held
                        && let Event::RunEnded { end, .. } = &mut record.event
                    {
                        *end = RunResult::Continued(self.top);
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
        self.held.take().map(Ok)
    }

    /// Goes on with the run that took the turn, if the root did not. Whether it does.
    pub(super) fn go_on_with_taker(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, StoreError>> {
        let Some(find) = &self.taker else {
            return Poll::Ready(Ok(false));
        };
        let found = ready!(self.finding.get_or_insert_with(|| find()).poll_unpin(cx));
        self.finding = None;
        let is_new = |run: &RunId| *run != self.root && !self.passed_roots.contains(run);
        let taker = found?.filter(is_new);
        match taker {
            Some(taker) => {
                self.go_on_in(taker);
                self.over = false;
            }
            None => self.taker = None,
        }
        Poll::Ready(Ok(taker.is_some()))
    }
}
