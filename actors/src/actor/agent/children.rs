//! Agents below, and what happens when one is lost.

use std::time::Duration;

use ractor::ActorCell;

use super::{AgentState, Below, start_below};
use crate::{
    actor::{
        SystemError,
        agent_command::AgentCommand,
        loaded::Claiming,
        supervisor::{Backoff, Intensity},
    },
    contract::{RunRow, StoreError},
    run::{ChildReport, ChildStart, Command, Loaded, first_row},
    vocabulary::{AgentError, RunId},
};

impl AgentState {
    /// One of this agent's runs begins or recovers a child run: the agent below hosts it.
    pub(super) fn child(&mut self, child: ChildStart) {
        self.children.insert(child.run, child.clone());
        let below = self.agents.entry(child.agent.clone()).or_default();
        if below.pausing {
            return;
        }
        let agent = match &below.actor {
            Some(agent) => agent.clone(),
            None => {
                let started = start_below(&self.myself, self.shared.clone());
                let Some(agent) = started else { return };
                below.actor.insert(agent).clone()
            }
        };
        let _ = agent.cast(AgentCommand::Host(Box::new(child)));
    }

    /// Wakes the root of an independent tree, which its own session begins. A root that waits needs
    /// no such call.
    pub(super) fn tree(&mut self, run: RunId) {
        let (shared, at) = (self.shared.clone(), self.services().clock.now());
        self.loads.spawn(async move {
            let services = &shared.services;
            let at_work = |row: &RunRow| {
                row.status.is_under_way() && !services.previewer.live.is_live(row.run)
            };
            let wakes = match services.store.run(run).await {
                Ok(row) => row.as_ref().is_some_and(at_work),
                // The wake service reads it again until it can be read.
                Err(_) => true,
            };
            if wakes {
                shared.wake_later(at, run);
            }
        });
    }

    pub(super) fn cancel_child(&mut self, run: RunId, reason: String) {
        let Some(child) = self.children.get_mut(&run) else {
            return;
        };
        // If the agent below is lost, the child is recovered to be ended.
        child.cancel.get_or_insert_with(|| reason.clone());
        let below = self.agents.get(&child.agent);
        if let Some(agent) = below.and_then(|below| below.actor.as_ref()) {
            let _ = agent.cast(AgentCommand::CancelRun(run, reason));
        }
    }

    /// The run in whose journal a hosted child goes on.
    fn current(&self, begun: RunId) -> RunId {
        self.gone_on.get(&begun).copied().unwrap_or(begun)
    }

    /// Claims a child again if its claim is from an earlier incarnation of its parent, and the parent was
    /// recovered in this process since.
    pub(super) fn claims_again(&mut self, run: RunId, error: &SystemError) -> bool {
        let SystemError::Store(StoreError::Stale { epoch, current, .. }) = error else {
            return false;
        };
        let hosted = self.runs.get(&run);
        let child = hosted.and_then(|hosted| hosted.child.as_ref());
        let again = epoch != current && child.is_some_and(|child| child.epoch == *current);
        if again {
            self.load(run, Claiming::Free);
        }
        again
    }

    /// Tries a parked run again.
    pub(super) fn retry(&mut self, run: RunId) {
        let hosted = self.runs.get_mut(&run);
        if hosted.is_some_and(|hosted| std::mem::take(&mut hosted.parked)) {
            self.load(run, Claiming::Free);
        }
    }

    pub(super) fn cancel_run(&mut self, run: RunId, reason: String) {
        let run = self.current(run);
        if let Some(hosted) = self.runs.get_mut(&run) {
            if let Some(child) = &mut hosted.child {
                child.cancel.get_or_insert_with(|| reason.clone());
            }
            hosted.route.cancelled.cancel();
            hosted.route.sender.tell(Command::Cancel { reason });
        }
        self.retry(run);
    }

    /// Tells the agent above that this child needs no host any more.
    pub(super) fn tell_gone(&self, child: Option<ChildStart>) {
        let Some(child) = child else { return };
        let live = &self.services().previewer.live;
        live.tell_host(child.parent, AgentCommand::ChildGone(child.run));
    }

    pub(super) fn host(&mut self, child: ChildStart) {
        let run = self.current(child.run);
        if let Some(hosted) = self.runs.get_mut(&run) {
            // The child is live; only its parent has a new incarnation.
            if let Some(parent) = &hosted.route.parent {
                parent.set(child.sender.clone());
            }
            hosted.route.sender.tell(Command::Reattached);
            let cancel = child.cancel.clone();
            hosted.child = Some(child);
            if let Some(reason) = cancel {
                self.cancel_run(run, reason);
            }
            self.retry(run);
            return;
        }
        if !child.fresh {
            self.host_run(run, Some(child));
            self.load(run, Claiming::Free);
            return;
        }
        let version = self.shared.version_of(&child.start.team);
        let loaded = Loaded::fresh(
            first_row(run, &child.start, version).into(),
            child.start.clone(),
            child.pinned.clone(),
        );
        self.host_run(run, Some(child));
        self.carry(loaded, None);
    }

    /// Handles the loss of an agent below.
    pub(super) fn agent_lost(&mut self, cell: &ActorCell, reason: String) {
        let lost = cell.get_id();
        let is_lost = |below: &Below| {
            let actor = below.actor.as_ref();
            actor.is_some_and(|actor| actor.get_id() == lost)
        };
        let lost = self.agents.iter_mut().find(|(_, below)| is_lost(below));
        let Some((name, below)) = lost else {
            return;
        };
        let Intensity {
            restarts, period, ..
        } = self.shared.limits.run_restarts;
        let times = below
            .failures
            .count(self.shared.services.clock.monotonic(), period);
        (below.actor, below.pausing) = (None, times <= restarts);
        let name = name.clone();
        tracing::warn!(agent = name, reason, times, "an agent below was lost");
        if times <= restarts {
            for child in self.orphans(&name) {
                let (run, report) = (child.run, ChildReport::Busy);
                child.sender.tell(Command::Child { run, report });
            }
            let pause = self.pause(times);
            self.later(pause, AgentCommand::StartBelow(name));
            return;
        }
        // The runs of the lost agent have no host, so they are recovered here, to be ended: the
        // runs above see delegations that failed.
        for child in self.orphans(&name) {
            let error = AgentError::Crashed {
                times,
                reason: reason.clone(),
            };
            let run = child.run;
            self.host_run(run, Some(child)).give_up = Some(error);
            self.load(run, Claiming::Free);
        }
    }

    /// Starts an agent below after its pause, with the runs that it is to host.
    pub(super) fn go_on_below(&mut self, name: &str) {
        // The runs above may have ended meanwhile.
        let Some(below) = self.agents.get_mut(name) else {
            return;
        };
        below.pausing = false;
        for child in self.orphans(name) {
            self.child(child);
        }
    }

    /// The child runs that an agent below hosted, to be recovered.
    fn orphans(&self, name: &str) -> Vec<ChildStart> {
        let children = self.children.values();
        let hosted = children.filter(|child| child.agent == name);
        let orphan = |child: &ChildStart| ChildStart {
            fresh: false,
            ..child.clone()
        };
        hosted.map(orphan).collect()
    }

    /// Ends the task that carries a run, as a panic of the run's code would.
    pub(super) fn kill_run(&mut self, run: RunId) {
        let hosted = self.runs.get_mut(&run);
        if hosted.is_some_and(|hosted| hosted.incarnation.take().is_some()) {
            self.run_lost(run, "killed".to_owned());
        }
    }

    pub(super) fn run_lost(&mut self, run: RunId, reason: String) {
        let restarts = self.shared.limits.run_restarts.restarts;
        let Some(failures) = self.count_failure(run) else {
            return;
        };
        tracing::warn!(%run, reason, failures, "the run's function was lost");
        if let Some(hosted) = self.runs.get_mut(&run) {
            hosted.lost = Some(reason.clone());
            if failures > restarts {
                let times = failures;
                hosted.give_up = Some(AgentError::Crashed { times, reason });
            }
        }
        self.again(run, failures);
    }

    /// Takes a run up again after a pause. The parent may not have heard of the run's last step,
    /// and must not fall asleep before it has.
    fn again(&mut self, run: RunId, failures: u32) {
        let hosted = self.runs.get(&run);
        if let Some(parent) = hosted.and_then(|hosted| hosted.route.parent.as_ref()) {
            parent.tell(ChildReport::Busy);
        }
        let pause = self.pause(failures);
        self.later(pause, AgentCommand::Again(run));
    }

    /// A run's journal could not be written, or what it read. A failure that may pass is retried from what is recorded. A run
    /// that records what cannot be stored gives up: its next incarnation only parks it. Any other failure
    /// stops this run and the runs above it.
    pub(super) fn store_failed(&mut self, run: RunId, error: StoreError) {
        let gives_up = error.is_about_what_is_written();
        if (error.passes() || gives_up)
            && let Some(failures) = self.count_failure(run)
        {
            tracing::warn!(%run, %error, failures, "the run's journal failed");
            let restarts = self.shared.limits.run_restarts.restarts;
            if failures <= restarts.max(u32::from(gives_up)) {
                if gives_up && let Some(hosted) = self.runs.get_mut(&run) {
                    hosted.give_up = Some(AgentError::Operation(error.into()));
                }
                self.again(run, failures);
                return;
            }
        }
        self.stop_run(run, error);
    }

    /// Tells the callers that wait for a run that this program cannot read its records.
    pub(super) fn tell_unreadable(&self, run: RunId, error: &SystemError) {
        if let SystemError::Store(error) = error
            && error.is_lasting()
        {
            self.services().previewer.live.fail(run, error.clone());
        }
    }

    /// Stops a run whose journal cannot be continued, and tells the callers that wait for it.
    pub(super) fn stop_run(&mut self, run: RunId, error: StoreError) {
        tracing::error!(%run, %error, "the run stops here: its journal refuses it");
        let hosted = self.forget(run);
        if let Some(parent) = hosted.and_then(|hosted| hosted.route.parent) {
            parent.tell(ChildReport::Failed(error));
            return;
        }
        match error {
            StoreError::Owned { .. } => {}
            // The run was claimed again: by another process, which keeps the run if it is asked for
            // it, or by this process on behalf of an agent that is gone, so that no agent carries
            // the run.
            StoreError::Stale { .. } => {
                let at = self.services().clock.now().after(self.pause(1));
                self.sleep(run, Some(at));
            }
            ref error => self.services().previewer.live.fail(run, error.clone()),
        }
        // Another process may carry the run now, or this process may again later.
        if let Some(session) = &mut self.session {
            session.loaded = None;
            if !matches!(error, StoreError::Stale { .. }) {
                // Nothing reads the session again by itself, so the callers of the waiting turns
                // are told.
                session.refuse_waiting(|| error.clone().into());
            }
        }
    }

    /// Counts a failure of a run, and returns the number of recent ones.
    pub(super) fn count_failure(&mut self, run: RunId) -> Option<u32> {
        let now = self.services().clock.monotonic();
        let period = self.shared.limits.run_restarts.period;
        let hosted = self.runs.get_mut(&run)?;
        Some(hosted.failures.count(now, period))
    }

    fn pause(&self, failures: u32) -> Duration {
        let backoff: Backoff = self.shared.limits.run_backoff;
        backoff.delay(failures, self.services().entropy.fraction())
    }

    /// Sends this agent a message after a pause.
    pub(super) fn later(&mut self, pause: Duration, message: AgentCommand) {
        let clock = self.services().clock.clone();
        self.beside(async move {
            clock.sleep(pause).await;
            [message]
        });
    }
}
