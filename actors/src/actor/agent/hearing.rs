//! What an agent does with each message.

use super::AgentState;
use crate::actor::{agent_message::AgentMessage, loaded::Claiming};

impl AgentState {
    pub(super) fn hear(&mut self, message: AgentMessage) {
        self.stirred += 1;
        while self.loads.try_join_next().is_some() {}
        match message {
            AgentMessage::Turn(turn, reply) => self.turn(*turn, reply),
            AgentMessage::Asking(run, asked_before) => {
                self.asking(run, asked_before);
            }
            AgentMessage::Queue(turn, reply) => self.queue(*turn, reply),
            AgentMessage::Steered(run, turn) => self.steered(run, &turn),
            AgentMessage::Unread(run, turn) => self.unread(run, *turn),
            AgentMessage::SessionLoaded(loaded) => self.session_loaded(*loaded),
            AgentMessage::TurnRecorded(turn, result) => {
                self.turn_recorded(*turn, result);
            }
            AgentMessage::Wake(run, take_over, reply, place) => {
                self.doubt_session(run);
                self.wake(run, take_over, reply);
                // A run whose session is being read is not live yet, and has its place nevertheless.
                if let Some(session) = self.session.as_mut().filter(|s| s.loaded.is_none()) {
                    session.places.extend(place);
                }
            }
            AgentMessage::RunLoaded(loaded) => {
                let (run, loaded) = *loaded;
                self.run_loaded(run, loaded);
            }
            AgentMessage::Expect(run, reply) => {
                let _ = reply.send(self.stand_by(run));
            }
            AgentMessage::RecoveredSession(run, taken) => self.recovered(run, taken),
            AgentMessage::Child(child) => self.child(*child),
            AgentMessage::Tree(run) => self.tree(run),
            AgentMessage::Host(child) => self.host(*child),
            AgentMessage::CancelChild(run, reason) => self.cancel_child(run, reason),
            AgentMessage::CancelRun(run, reason) => self.cancel_run(run, reason),
            AgentMessage::ChildGone(run) => {
                self.children.remove(&run);
            }
            AgentMessage::Rested(run, life, rest) => self.rested(run, life, *rest),
            AgentMessage::Again(run) => self.load(run, Claiming::Free),
            AgentMessage::StartBelow(name) => self.go_on_below(&name),
            AgentMessage::Retry(run) => self.retry(run),
            AgentMessage::Recover => {
                self.recovering = true;
                self.load_session();
                self.look_for_all_unread();
            }
            AgentMessage::Passivate(stirred) => {
                self.idle_watched = false;
                if !self.passivates(stirred) {
                    self.watch_idleness();
                } else if let Some(session) = &self.session {
                    self.shared.passivate(&session.id, &self.myself);
                }
            }
            AgentMessage::Leave(slot, reply) => {
                let leaves = self.is_quiet();
                match &self.session {
                    Some(session) if !leaves => self.shared.found_again(&session.id, slot),
                    _ => self.myself.stop(None),
                }
                if let Some(reply) = reply {
                    let _ = reply.send(leaves);
                }
            }
        }
    }
}
