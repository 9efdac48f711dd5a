//! Turns that come while the session's run is under way, or waits for a person's answer.

use ractor::ActorRef;

use super::AgentState;
use crate::{
    actor::{SystemError, agent_message::AgentMessage, open_questions::is_asking},
    contract::{InboxBody, InboxItem, RunFilter, RunStatus},
    definition::WhileAsking,
    run::Ports,
    vocabulary::RunId,
};

/// The reason for cancelling a run that waits for an answer when the next turn comes.
const NEXT_TURN: &str = "the next turn came instead of an answer";

impl AgentState {
    pub(super) fn while_asking(&self) -> WhileAsking {
        self.team()
            .map_or_else(WhileAsking::default, |team| team.pinned.team.while_asking)
    }

    pub(super) fn open_run(&self) -> Option<RunId> {
        self.session.as_ref()?.loaded.as_ref()?.0.open
    }

    /// A turn was queued. A task beside the mailbox looks up whether the run before it goes on and
    /// ends by itself.
    pub(super) fn look_at_open_run(&mut self, myself: &ActorRef<AgentMessage>) {
        let Some(run) = self.open_run() else { return };
        let (asks_first, carried) = (
            self.while_asking() != WhileAsking::Wait,
            self.runs.contains_key(&run),
        );
        if carried && !asks_first {
            return;
        }
        let (shared, myself) = (self.shared.clone(), myself.clone());
        self.loads.spawn(async move {
            let store = &shared.services.store;
            let Ok(Some(row)) = store.run(run).await else {
                return;
            };
            let waits = row.status == RunStatus::Waiting;
            if waits && asks_first && is_asking(store, &row).await.unwrap_or(false) {
                let _ = myself.cast(AgentMessage::Asking(run));
            }
            if carried {
                return;
            }
            // The run was interrupted, or fell asleep in a process that is gone, and no process
            // took it up.
            let filter = RunFilter {
                open: true,
                awake: true,
                root: Some(row.root),
                ..RunFilter::default()
            };
            let awake = store.runs(filter).await.unwrap_or_default();
            if awake.iter().any(|row| row.status != RunStatus::Waiting) {
                let _ = myself.cast(AgentMessage::Wake(run, false, None));
            } else if let Some(at) = row.wake_at.filter(|_| waits) {
                shared.wake_later(at, run);
            }
        });
    }

    pub(super) fn asking(&mut self, myself: &ActorRef<AgentMessage>, run: RunId) {
        if self.open_run() != Some(run) {
            return;
        }
        match self.while_asking() {
            WhileAsking::Wait => {}
            WhileAsking::Refuse => {
                let waiting = self.session.iter_mut().flat_map(|s| s.turns.clear());
                for reply in waiting {
                    // The caller may have gone.
                    let _ = reply.send(Err(SystemError::Asking { run }));
                }
                self.watch_idleness(myself);
            }
            WhileAsking::Cancel => {
                let (services, myself) = (self.services().clone(), myself.clone());
                let reason = NEXT_TURN.to_owned();
                let now = services.clock.now();
                let item = InboxItem::new("cancel", now, InboxBody::Cancel { reason });
                self.loads.spawn(async move {
                    if let Err(error) = services.post(run, item).await {
                        tracing::warn!(%run, %error, "the run that asks was not cancelled");
                    }
                    let _ = myself.cast(AgentMessage::Wake(run, false, None));
                });
            }
        }
    }
}
