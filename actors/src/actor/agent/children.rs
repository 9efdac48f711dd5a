//! Agents below, and what happens when one is lost.

use std::time::Duration;

use ractor::{ActorCell, ActorRef, ActorRuntime};

use super::{Agent, AgentArguments, AgentMessage, AgentState};
use crate::{
    actor::{
        launch::Loaded,
        supervisor::{Backoff, Intensity},
    },
    contract::{Claim, StoreError},
    run::{ChildStart, Command, Recorded, row_of},
    vocabulary::{AgentError, ErrorKind, OperationError, RunId, RunStart},
};

impl AgentState {
    /// One of this agent's runs begins or takes up a child run: the agent below hosts it.
    pub(super) async fn child(&mut self, myself: &ActorRef<AgentMessage>, child: ChildStart) {
        let name = child.agent.clone();
        let agent = match self.agents.get(&name) {
            Some(agent) => agent.clone(),
            None => {
                let arguments = AgentArguments {
                    shared: self.shared.clone(),
                    session: None,
                };
                let spawned =
                    ActorRuntime::spawn_linked(None, Agent, arguments, myself.get_cell()).await;
                let Ok((agent, _)) = spawned else { return };
                self.agents.insert(name.clone(), agent.clone());
                agent
            }
        };
        self.children.insert(child.run, (name, child.clone()));
        let _ = agent.cast(AgentMessage::Host(Box::new(child)));
    }

    pub(super) fn cancel_child(&mut self, run: RunId, reason: String) {
        if let Some((name, child)) = self.children.get_mut(&run) {
            // Should the agent below be lost, the child is taken up to be ended.
            child.cancel.get_or_insert_with(|| reason.clone());
            if let Some(agent) = self.agents.get(name) {
                let _ = agent.cast(AgentMessage::CancelRun(run, reason));
            }
        } else if let Some(route) = self.doors().previewer.routes.get(run) {
            // It goes on in another journal than the one that it was begun with.
            let _ = route.host.cast(AgentMessage::CancelRun(run, reason));
        }
    }

    /// Tries a parked run again.
    pub(super) fn retry(&mut self, myself: &ActorRef<AgentMessage>, run: RunId) {
        let hosted = self.runs.get_mut(&run);
        if hosted.is_some_and(|hosted| std::mem::take(&mut hosted.parked)) {
            self.load(myself, run, true);
        }
    }

    pub(super) fn cancel_run(
        &mut self,
        myself: &ActorRef<AgentMessage>,
        run: RunId,
        reason: String,
    ) {
        if let Some(hosted) = self.runs.get_mut(&run) {
            if let Some(child) = &mut hosted.child {
                child.cancel.get_or_insert_with(|| reason.clone());
            }
            hosted.route.cancelled.cancel();
            hosted.route.door.tell(Command::Cancel { reason });
        }
        self.retry(myself, run);
    }

    /// Tells the agent above that this child needs nobody any more.
    pub(super) fn tell_gone(&self, child: Option<ChildStart>) {
        let Some(child) = child else { return };
        if let Some(above) = self.doors().previewer.routes.get(child.parent) {
            let _ = above.host.cast(AgentMessage::ChildGone(child.run));
        }
    }

    pub(super) async fn host(&mut self, myself: &ActorRef<AgentMessage>, child: ChildStart) {
        let run = child.run;
        if let Some(hosted) = self.runs.get_mut(&run) {
            // It is live; only its parent is another life.
            if let Some(parent) = &hosted.route.parent {
                parent.set(child.news.clone());
            }
            hosted.route.door.tell(Command::Reattached);
            let cancel = child.cancel.clone();
            hosted.child = Some(child);
            if let Some(reason) = cancel {
                self.cancel_run(myself, run, reason);
            }
            self.retry(myself, run);
            return;
        }
        if !child.fresh {
            self.admit_run(myself, run, child.start.root, Some(child));
            // Who owns the parent owns the child: a process that the parent was taken from may
            // live, and the child goes with the parent.
            self.load(myself, run, true);
            return;
        }
        let row = row_of(run, &child.start);
        let recorded = Recorded::begun(RunStart::clone(&child.start));
        let pinned = child.pinned.clone();
        let claim = Claim {
            epoch: 1,
            entries: 1,
        };
        let loaded = Loaded {
            run,
            row,
            claim,
            recorded,
            pinned,
        };
        self.admit_run(myself, run, child.start.root, Some(child));
        self.carry(myself, loaded, None).await;
    }

    /// A linked child is gone: a run's function panicked or was killed, or an agent below died.
    pub(super) async fn child_lost(
        &mut self,
        myself: &ActorRef<AgentMessage>,
        cell: &ActorCell,
        reason: String,
    ) {
        if let Some(run) = self.lives.remove(&cell.get_id()) {
            self.run_lost(myself, run, &reason);
            return;
        }
        let lost = self
            .agents
            .iter()
            .find(|(_, agent)| agent.get_id() == cell.get_id());
        let Some(name) = lost.map(|(name, _)| name.clone()) else {
            return;
        };
        self.agents.remove(&name);
        let orphaned: Vec<ChildStart> = self
            .children
            .values()
            .filter(|(agent, _)| *agent == name)
            .map(|(_, child)| ChildStart {
                fresh: false,
                ..child.clone()
            })
            .collect();
        for child in orphaned {
            self.child(myself, child).await;
        }
    }

    pub(super) fn run_lost(&mut self, myself: &ActorRef<AgentMessage>, run: RunId, reason: &str) {
        let Intensity {
            restarts, period, ..
        } = self.shared.limits.run_restarts;
        let Some(failures) = self.count_failure(run) else {
            return;
        };
        tracing::warn!(%run, reason, failures, "the run's function was lost");
        if let Some(hosted) = self.runs.get_mut(&run) {
            hosted.lost = Some(reason.to_owned());
        }
        if failures > restarts {
            let message =
                format!("the agent's function failed {failures} times within {period:?}: {reason}");
            let error = OperationError::new(ErrorKind::Panicked, message);
            if let Some(hosted) = self.runs.get_mut(&run) {
                hosted.give_up = Some(AgentError::Operation(error));
            }
        }
        let pause = self.pause(failures);
        self.restart(myself, run, pause);
    }

    /// A run's journal could not be written. What may pass (the journal's actor was lost, a write
    /// failed, a batch was built on one that failed) is tried again from what is recorded; what
    /// does not pass stops the run here, and those above it.
    pub(super) fn store_failed(
        &mut self,
        myself: &ActorRef<AgentMessage>,
        run: RunId,
        error: StoreError,
    ) {
        let passes = matches!(
            error,
            StoreError::Closed | StoreError::Io { .. } | StoreError::Sequence { .. }
        );
        if passes && let Some(failures) = self.count_failure(run) {
            tracing::warn!(%run, %error, failures, "the run's journal failed");
            if failures <= self.shared.limits.run_restarts.restarts {
                let pause = self.pause(failures);
                self.restart(myself, run, pause);
                return;
            }
        }
        self.stop_run(run, error);
    }

    /// Stops a run whose journal cannot be gone on with, and tells whoever waits for it.
    pub(super) fn stop_run(&mut self, run: RunId, error: StoreError) {
        tracing::error!(%run, %error, "the run stops here: its journal refuses it");
        let hosted = self.forget(run);
        if let Some(parent) = hosted.and_then(|hosted| hosted.route.parent) {
            parent.failed(error);
            return;
        }
        if !matches!(error, StoreError::Owned { .. } | StoreError::Stale { .. }) {
            self.doors().previewer.routes.fail(run, error);
        }
        // Another process may carry it now, or this one again later.
        if let Some(session) = &mut self.session {
            session.loaded = None;
        }
    }

    /// Counts a failure of a run, and gives how many there were lately.
    fn count_failure(&mut self, run: RunId) -> Option<u32> {
        let now = self.doors().clock.now();
        let period = self.shared.limits.run_restarts.period;
        let hosted = self.runs.get_mut(&run)?;
        hosted.failures.retain(|at| now.since(*at) <= period);
        hosted.failures.push(now);
        Some(u32::try_from(hosted.failures.len()).unwrap_or(u32::MAX))
    }

    fn pause(&self, failures: u32) -> Duration {
        let backoff: Backoff = self.shared.limits.run_backoff;
        backoff.delay(failures, self.doors().entropy.fraction())
    }

    pub(super) fn restart(&mut self, myself: &ActorRef<AgentMessage>, run: RunId, pause: Duration) {
        let clock = self.doors().clock.clone();
        let myself = myself.clone();
        self.loads.spawn(async move {
            clock.sleep_until(clock.now().after(pause)).await;
            let _ = myself.cast(AgentMessage::Again(run));
        });
    }
}
