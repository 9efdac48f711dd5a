//! The reaction of an agent to each message.

use super::AgentState;
use crate::actor::{agent_command::AgentCommand, loaded::Claiming};

impl AgentState {
    pub(super) fn dispatch(&mut self, message: AgentCommand) {
        self.stirred += 1;
        while self.loads.try_join_next().is_some() {}
        match message {
            AgentCommand::Turn(turn, reply) => self.turn(*turn, reply),
            AgentCommand::Asking(asking) => self.asking(asking),
            AgentCommand::Queue(turn, reply) => self.queue(*turn, reply),
            AgentCommand::SteeringTurnsWait => {
                self.was_told = true;
                self.look_for_steering_turns();
            }
            AgentCommand::LookAgain => {
                self.was_told = true;
                if let Some(session) = &mut self.session {
                    session.looks_later = false;
                }
                self.look_for_steering_turns();
            }
            AgentCommand::Unheard(look, turns) => self.unheard(look, turns),
            AgentCommand::SessionLoaded(loaded) => self.session_loaded(*loaded),
            AgentCommand::TurnRecorded(turn, result) => {
                self.turn_recorded(*turn, result);
            }
            AgentCommand::Wake(run, take_over, reply, place) => {
                self.doubt_session(run);
                self.wake(run, take_over, reply);
                // A run whose session is being read is not live yet, and has its place nevertheless.
                if let Some(session) = self.session.as_mut().filter(|s| s.loaded.is_none()) {
                    session.places.extend(place);
                }
            }
            AgentCommand::RunLoaded(loaded) => {
                let (run, loaded) = *loaded;
                self.run_loaded(run, loaded);
            }
            AgentCommand::Expect(run, reply) => {
                let _ = reply.send(self.stand_by(run));
            }
            AgentCommand::RecoveredSession(run, taken) => self.recovered(run, taken),
            AgentCommand::Child(child) => self.child(*child),
            AgentCommand::Tree(run) => self.tree(run),
            AgentCommand::Host(child) => self.host(*child),
            AgentCommand::CancelChild(run, reason) => self.cancel_child(run, reason),
            AgentCommand::CancelRun(run, reason) => self.cancel_run(run, reason),
            AgentCommand::ChildGone(run) => {
                self.children.remove(&run);
            }
            AgentCommand::Rested(run, incarnation, rest) => self.rested(run, incarnation, *rest),
            AgentCommand::Kill(run) => self.kill_run(run),
            AgentCommand::Again(run) => self.load(run, Claiming::Free),
            AgentCommand::StartBelow(name) => self.go_on_below(&name),
            AgentCommand::Retry(run) => self.retry(run),
            AgentCommand::Recover => {
                self.recovering = true;
                self.was_told = true;
                self.load_session();
            }
            AgentCommand::Passivate(stirred) => {
                self.idle_watched = false;
                if !self.passivates(stirred) {
                    self.watch_idleness();
                } else if let Some(session) = &self.session {
                    self.shared.passivate(&session.id, &self.myself);
                }
            }
            AgentCommand::Leave(slot, reply) => {
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
