//! What an agent does with each message.

use ractor::ActorRef;

use super::AgentState;
use crate::{
    actor::{
        agent_message::{AgentMessage, Expected},
        loaded::Claiming,
    },
    contract::BoxFuture,
};

impl AgentState {
    /// Handles a message. Returns what is left to do where that waits, such as for an actor that starts.
    pub(super) fn hear(
        &mut self,
        myself: ActorRef<AgentMessage>,
        message: AgentMessage,
    ) -> Option<BoxFuture<'_, ()>> {
        self.stirred += 1;
        while self.loads.try_join_next().is_some() {}
        match message {
            AgentMessage::Turn(turn, reply) => self.turn(&myself, *turn, reply),
            AgentMessage::Asking(run, asked_before) => {
                self.asking(&myself, run, asked_before);
            }
            AgentMessage::Queue(turn, reply) => self.queue(&myself, *turn, reply),
            AgentMessage::Steered(run, turn) => self.steered(&myself, run, &turn),
            AgentMessage::LookForUnread(run) => self.look_for_unread(&myself, run),
            AgentMessage::Unread(run, turn) => self.unread(&myself, run, *turn),
            AgentMessage::SessionLoaded(loaded) => self.session_loaded(&myself, *loaded),
            AgentMessage::TurnRecorded(turn, result) => {
                return Some(Box::pin(async move {
                    self.turn_recorded(&myself, *turn, result).await;
                }));
            }
            AgentMessage::Wake(run, take_over, reply, place) => {
                self.doubt_session(run);
                self.wake(&myself, run, take_over, reply);
                self.hold_until_read(place);
            }
            AgentMessage::RunLoaded(loaded) => {
                return Some(Box::pin(async move {
                    let (run, loaded) = *loaded;
                    self.run_loaded(&myself, run, loaded).await;
                }));
            }
            AgentMessage::Expect(run, reply) => {
                let _ = reply.send(self.stands_by().then(|| Expected::new(&myself, run)));
            }
            AgentMessage::RecoveredSession(run, taken) => {
                return Some(Box::pin(async move {
                    self.recovered(&myself, run, taken).await;
                }));
            }
            AgentMessage::Child(child) => {
                return Some(Box::pin(async move { self.child(&myself, *child).await }));
            }
            AgentMessage::Tree(run) => self.tree(run),
            AgentMessage::Host(child) => {
                return Some(Box::pin(async move { self.host(&myself, *child).await }));
            }
            AgentMessage::CancelChild(run, reason) => self.cancel_child(run, reason),
            AgentMessage::CancelRun(run, reason) => self.cancel_run(&myself, run, reason),
            AgentMessage::ChildGone(run) => {
                self.children.remove(&run);
            }
            AgentMessage::Rested(run, life, rest) => self.rested(&myself, run, life, *rest),
            AgentMessage::Again(run) => self.load(&myself, run, Claiming::Free),
            AgentMessage::StartBelow(name) => {
                return Some(Box::pin(
                    async move { self.start_below(&myself, &name).await },
                ));
            }
            AgentMessage::Retry(run) => self.retry(&myself, run),
            AgentMessage::Retire(reply) => {
                let retires = self.is_quiet();
                if retires {
                    myself.stop(None);
                }
                let _ = reply.send(retires);
            }
            AgentMessage::Recover => {
                self.recovering = true;
                self.load_session(&myself);
                self.look_for_all_unread(&myself);
            }
            AgentMessage::Passivate(stirred) => {
                self.idle_watched = false;
                if !self.passivates(stirred) {
                    self.watch_idleness(&myself);
                } else if let Some(session) = &self.session {
                    self.shared.passivate(&session.id, &myself);
                }
            }
            AgentMessage::Leave(slot) => match &self.session {
                Some(session) if !self.is_quiet() => self.shared.found_again(&session.id, slot),
                _ => myself.stop(None),
            },
        }
        None
    }
}
