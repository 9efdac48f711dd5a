//! Turns that are said to the run that is under way.

use ractor::ActorRef;
use tokio::sync::oneshot;

use super::{AgentMessage, AgentState, TurnReply};
use crate::{
    actor::questions::is_asking,
    contract::{InboxBody, InboxItem, RunStatus},
    definition::WhileAsking,
    run::Ports,
    session::Turn,
    vocabulary::{Message, RunId},
};

/// The id under which a turn is in a run's inbox: said twice it is read once.
fn item_of(turn: &Turn) -> String {
    format!("turn/{}", turn.id.as_deref().unwrap_or_default())
}

impl AgentState {
    pub(super) fn queue(&mut self, myself: &ActorRef<AgentMessage>, turn: Turn, reply: TurnReply) {
        let Some(session) = &mut self.session else {
            return;
        };
        match &session.loaded {
            Some((fold, _)) => {
                let admission = session.desk.queue(fold, turn, reply);
                self.admit(myself, admission);
            }
            None => self.turn(myself, turn, reply),
        }
    }

    /// Says a turn to the run that is under way, beside the mailbox. Where that run waits for a
    /// person's answer, the turn waits at the desk, for what the team says of such turns.
    pub(super) fn steer(&mut self, myself: &ActorRef<AgentMessage>, turn: Turn, reply: TurnReply) {
        let Some(run) = self.open_run() else {
            return self.queue(myself, turn, reply);
        };
        let (doors, myself) = (self.doors().clone(), myself.clone());
        let asks_first = self.while_asking() != WhileAsking::Wait;
        self.loads.spawn(async move {
            let store = &doors.store;
            let waits =
                matches!(&store.run(run).await, Ok(Some(row)) if row.status == RunStatus::Waiting);
            if asks_first && waits && is_asking(store, run).await.unwrap_or(false) {
                let _ = myself.cast(AgentMessage::Queue(Box::new(turn), reply));
                return;
            }
            let body = InboxBody::Steer(Message::clone(&turn.message));
            let item = InboxItem::new(item_of(&turn), doors.clock.now(), body);
            // One that has ended takes nothing: the turn begins a run of its own.
            match doors.post(run, item).await {
                Ok(()) => {
                    let _ = myself.cast(AgentMessage::Steered(run, Box::new(turn)));
                    let _ = reply.send(Ok(run));
                }
                Err(_) => {
                    let _ = myself.cast(AgentMessage::Queue(Box::new(turn), reply));
                }
            }
        });
    }

    pub(super) fn steered(&mut self, myself: &ActorRef<AgentMessage>, run: RunId, turn: Turn) {
        let is_open = self.open_run() == Some(run);
        if let Some(session) = &mut self.session {
            session.steered.push((run, turn));
        }
        if !is_open {
            // It ended meanwhile.
            self.say_what_was_not_read(myself, run);
        }
    }

    /// Begins turns for what was said to a run that ended without having read it.
    pub(super) fn say_what_was_not_read(&mut self, myself: &ActorRef<AgentMessage>, run: RunId) {
        let Some(session) = &mut self.session else {
            return;
        };
        let said = session.steered.extract_if(.., |(to, _)| *to == run);
        let said: Vec<Turn> = said.map(|(_, turn)| turn).collect();
        if said.is_empty() {
            return;
        }
        let (store, myself) = (self.doors().store.clone(), myself.clone());
        self.loads.spawn(async move {
            let Ok(unread) = store.inbox(run).await else {
                return;
            };
            for turn in said {
                let id = item_of(&turn);
                if unread.iter().any(|item| item.id == id) {
                    // Its sender has the run that was to read it, and waits for nothing more.
                    let (reply, _) = oneshot::channel();
                    let _ = myself.cast(AgentMessage::Queue(Box::new(turn), reply));
                }
            }
        });
    }
}
