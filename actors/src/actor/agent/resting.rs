//! What happens when a run comes to rest, and when nothing happens any more.

use ractor::{ActorId, ActorRef};

use super::{AgentMessage, AgentState, Hosted};
use crate::{
    actor::routes::Route,
    run::{ChildNews, Rest},
    vocabulary::{RunId, Timestamp, TurnEnd},
};

impl AgentState {
    pub(super) fn rested(
        &mut self,
        myself: &ActorRef<AgentMessage>,
        run: RunId,
        life: ActorId,
        rest: Rest,
    ) {
        if self.lives.remove(&life).is_none() {
            return;
        }
        match rest {
            Rest::Ended {
                agent,
                messages,
                spent,
                found_ended,
                ..
            } => {
                let hosted = self.forget(run);
                self.tell_gone(hosted.and_then(|hosted| hosted.child));
                let mut end = TurnEnd::new(run, agent, messages);
                end.spent = spent;
                self.turn_ended(myself, end, found_ended);
            }
            Rest::Continued(next) => self.continue_in(myself, run, next),
            Rest::Asleep { wake_at } => {
                self.forget(run);
                self.sleep(run, wake_at);
            }
            Rest::Parked(error) => {
                tracing::warn!(%run, %error, "the run is parked");
                match self.runs.get_mut(&run) {
                    Some(Hosted {
                        parked,
                        route:
                            Route {
                                parent: Some(parent),
                                ..
                            },
                        ..
                    }) => {
                        *parked = true;
                        parent.tell(run, ChildNews::Idle { wake_at: None });
                    }
                    _ => {
                        self.forget(run);
                        self.sleep(run, None);
                    }
                }
            }
            Rest::LetGo => {
                self.forget(run);
                self.sleep(run, None);
            }
            Rest::Store(error) => self.store_failed(myself, run, error),
        }
        self.watch_idleness(myself);
    }

    /// A root run sleeps with all runs below it.
    pub(super) fn sleep(&mut self, run: RunId, wake_at: Option<Timestamp>) {
        let Some(session) = &mut self.session else {
            return;
        };
        session.sleeping = Some(run);
        for (_, agent) in self.agents.drain() {
            agent.kill();
        }
        self.children.clear();
        self.shared.doors.previewer.routes.remove_tree(run);
        if let Some(at) = wake_at {
            self.shared.wake_later(at, run);
        }
    }

    pub(super) fn continue_in(&mut self, myself: &ActorRef<AgentMessage>, run: RunId, next: RunId) {
        let Some(mut hosted) = self.forget(run) else {
            return;
        };
        hosted.actor = None;
        if let Some(parent) = &hosted.route.parent {
            parent.tell(run, ChildNews::Continued(next));
        }
        self.runs.insert(next, hosted);
        self.load(myself, next, false);
    }

    pub(super) fn watch_idleness(&mut self, myself: &ActorRef<AgentMessage>) {
        if self.session.is_none() || !self.runs.is_empty() || self.idle_watched {
            return;
        }
        self.idle_watched = true;
        let (clock, myself) = (self.doors().clock.clone(), myself.clone());
        let (idle, stirred) = (self.shared.limits.passivate_after, self.stirred);
        self.loads.spawn(async move {
            clock.sleep_until(clock.now().after(idle)).await;
            let _ = myself.cast(AgentMessage::Passivate(stirred));
        });
    }

    /// Whether nothing happened since the passivation was ordered, but the order itself.
    pub(super) fn passivates(&self, stirred: u64) -> bool {
        self.stirred == stirred + 1 && self.is_quiet()
    }

    /// Whether there is nothing to do.
    pub(super) fn is_quiet(&self) -> bool {
        let asleep = self.session.as_ref().is_none_or(|session| {
            let waits = !session.early.is_empty() || !session.wakes.is_empty();
            !waits && (session.sleeping.is_some() || session.desk.is_idle())
        });
        self.runs.is_empty() && asleep
    }
}
