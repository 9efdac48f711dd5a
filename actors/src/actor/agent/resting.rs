//! The end of a run's activity, and the passivation of an agent that has nothing to do.

use std::collections::BTreeMap;

use ractor::ActorRef;
use tokio::task;

use super::{AgentState, Hosted};
use crate::{
    actor::{agent_command::AgentCommand, loaded::Claiming},
    run::{ChildReport, Idleness, RunExit},
    vocabulary::{AgentError, Entry, RunId, Timestamp},
};

impl AgentState {
    pub(super) fn rested(&mut self, run: RunId, incarnation: task::Id, rest: RunExit) {
        let hosted = self.runs.get_mut(&run);
        let is_of = |hosted: &Hosted| {
            let carrying = hosted.incarnation.as_ref();
            carrying.is_some_and(|task| task.as_ref().id() == incarnation)
        };
        let Some(hosted) = hosted.filter(|hosted| is_of(hosted)) else {
            return;
        };
        hosted.incarnation = None;
        let is_root = hosted.child.is_none();
        match rest {
            RunExit::Ended {
                how,
                end,
                found_ended,
            } => {
                if is_root {
                    // A child's end is durable only with its parent's next entries.
                    self.services().previewer.live.ended(run, how);
                }
                let hosted = self.forget(run);
                if !is_root {
                    self.tell_gone(hosted.and_then(|hosted| hosted.child));
                    return;
                }
                self.turn_ended(&end, found_ended);
            }
            RunExit::Continued {
                next,
                heard,
                found_ended,
            } => self.continue_in((run, next), heard, found_ended),
            RunExit::Asleep { wake_at, told } => {
                let hosted = self.forget(run);
                self.sleep(run, wake_at);
                // From here on no message reaches a run of this tree, so no message is lost.
                if hosted.is_some_and(|hosted| hosted.route.sender.told_so_far() != told) {
                    self.shared.wake_later(self.services().clock.now(), run);
                }
            }
            RunExit::Parked { reason, heard } => {
                tracing::warn!(%run, %reason, "the run is parked");
                if let Some(parent) = &hosted.route.parent {
                    hosted.parked = true;
                    parent.tell(ChildReport::Idle(Idleness::default()));
                    let child = hosted.child.as_ref();
                    let is_cancelled = child.is_some_and(|child| child.cancel.is_some());
                    let restarts = self.shared.limits.run_restarts.restarts;
                    // It was told to stop when it heard nothing any more, so its next incarnation ends it.
                    if is_cancelled
                        && self
                            .count_failure(run)
                            .is_some_and(|times| times <= restarts)
                    {
                        self.retry(run);
                    }
                } else {
                    self.forget(run);
                    match reason {
                        AgentError::Crashed { .. } => self.turn_quarantined(run, heard),
                        _ => self.sleep(run, None),
                    }
                }
            }
            RunExit::LetGo => {
                self.forget(run);
                if is_root {
                    self.sleep(run, None);
                }
            }
            RunExit::Store(error) => self.store_failed(run, error),
            RunExit::Lost(reason) => self.run_lost(run, reason),
        }
        self.watch_idleness();
    }

    /// A root run sleeps with all runs below it.
    pub(super) fn sleep(&mut self, run: RunId, wake_at: Option<Timestamp>) {
        let Some(session) = &mut self.session else {
            return;
        };
        session.not_carried = Some(run);
        for agent in self.leave_agents(run) {
            agent.kill();
        }
        if let Some(at) = wake_at {
            self.shared.wake_later(at, run);
        }
    }

    /// Lets go of the agents below and of all runs of this tree that they host.
    pub(super) fn leave_agents(&mut self, root: RunId) -> Vec<ActorRef<AgentCommand>> {
        if self.agents.is_empty() {
            return Vec::new();
        }
        self.children = BTreeMap::new();
        self.shared.services.previewer.tree_left(root);
        let below = std::mem::take(&mut self.agents).into_values();
        below.filter_map(|below| below.actor).collect()
    }

    fn continue_in(&mut self, (run, next): (RunId, RunId), heard: Vec<String>, found_ended: bool) {
        let Some(hosted) = self.forget(run) else {
            return;
        };
        if let Some(child) = &hosted.child {
            self.gone_on.insert(child.run, next);
        } else if found_ended {
            // The session's fold was made before the run went on, or by an earlier incarnation.
            self.reload_session();
            return;
        } else if let Some(session) = &mut self.session {
            let continued = Entry::TurnContinued { run, next, heard };
            session.record(|fold| fold.add(continued));
        }
        self.runs.insert(next, hosted);
        self.load(next, Claiming::Free);
    }

    pub(super) fn forget(&mut self, run: RunId) -> Option<Box<Hosted>> {
        let hosted = self.runs.remove(&run);
        if let Some(child) = hosted.as_ref().and_then(|hosted| hosted.child.as_ref()) {
            self.gone_on.remove(&child.run);
        }
        if self.runs.is_empty() {
            // An agent at rest keeps no room for runs.
            self.runs = BTreeMap::new();
        }
        self.services().previewer.left(run);
        hosted
    }

    pub(super) fn watch_idleness(&mut self) {
        if self.session.is_none() || !self.runs.is_empty() || self.idle_watched {
            return;
        }
        self.idle_watched = true;
        self.shared
            .watch_idleness(self.myself.clone(), self.stirred);
    }

    /// Whether nothing happened since the passivation was ordered, except the order itself.
    pub(super) fn passivates(&self, stirred: u64) -> bool {
        self.stirred == stirred + 1 && self.is_quiet()
    }

    /// Whether there is nothing to do.
    pub(super) fn is_quiet(&self) -> bool {
        let asleep = self.session.as_ref().is_none_or(|session| {
            !session.loading
                && session.early.is_empty()
                && session.wakes.is_empty()
                && session.reopening.is_empty()
                && !session.turns.has_waiting()
                && (session.not_carried.is_some() || !session.turns.is_busy())
        });
        self.runs.is_empty() && asleep
    }
}
