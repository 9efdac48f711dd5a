//! Turns that are said to the run that is under way. They stand in the session's mailbox, from which that run takes
//! them; what it does not take begins as a turn of its own.

use tokio::sync::oneshot;

use super::AgentState;
use crate::{
    actor::{
        SystemError,
        agent_command::{AgentCommand, TurnReply},
        launch::load_pinned,
        loaded::start_of,
        open_questions::is_asking,
        poll_interval::AGAIN,
        services::Services,
    },
    contract::{Batch, ItemBody, MailboxItem, RunStatus, StoreError, StoreHandle},
    definition::{WhileAsking, WhileBusy},
    run::Command,
    session::Turn,
    vocabulary::{JournalId, RunId, SessionId},
};

/// The id of a turn in its session's mailbox: a turn that is said twice is read once.
pub(in crate::actor) fn item_of(turn: &str) -> String {
    format!("turn/{turn}")
}

/// The turns in a session's mailbox.
async fn turns_in(store: &StoreHandle, mailbox: JournalId) -> Result<Vec<Turn>, StoreError> {
    let turn_of = |item: MailboxItem| match item.body {
        ItemBody::SteeringTurn(turn) => Some(*turn),
        _ => None,
    };
    let items = store.mailbox(mailbox).await?.into_iter();
    Ok(items.filter_map(turn_of).collect())
}

impl AgentState {
    pub(super) fn queue(&mut self, turn: Turn, reply: TurnReply) {
        let Some(session) = &mut self.session else {
            return;
        };
        match &session.loaded {
            Some((fold, _)) => {
                let decision = session.turns.queue(fold, turn, reply);
                self.follow(decision);
            }
            None => self.turn(turn, reply),
        }
    }

    /// Sends a turn to the run that is under way, beside the actor. Where the run does not take it, the turn is queued, and so
    /// it is where the store fails: a turn that is in the mailbox nevertheless leaves it when it begins.
    pub(super) fn steer(&mut self, turn: Turn, reply: TurnReply) {
        let (Some(run), Some(session)) = (self.open_run(), &self.session) else {
            return self.queue(turn, reply);
        };
        let (session, mailbox) = (session.id.to_string(), SessionId::clone(&session.id).into());
        let (services, myself) = (self.services().clone(), self.myself.clone());
        let asks_first = self.while_asking() != WhileAsking::Wait;
        let id = turn.id.clone().unwrap_or_default();
        self.loads.spawn(async move {
            let store = &services.store;
            let posted = async {
                if !takes(&services, run, &turn, asks_first).await? {
                    return Ok(false);
                }
                let body = ItemBody::SteeringTurn(Box::new(turn.clone()));
                let item = MailboxItem::new(item_of(&id), services.clock.now(), body);
                let fresh = store.post(JournalId::clone(&mailbox), item).await?;
                if !fresh && says_otherwise(store, mailbox, &turn).await? {
                    let turn = id.clone();
                    return Err(SystemError::OtherTurn { session, turn, run });
                }
                Ok(true)
            };
            let said = match posted.await {
                Ok(true) => {
                    let _ = myself.cast(AgentCommand::SteeringTurnsWait);
                    Ok(run)
                }
                Err(error @ SystemError::OtherTurn { .. }) => Err(error),
                Ok(false) | Err(_) => {
                    let _ = myself.cast(AgentCommand::Queue(Box::new(turn), reply));
                    return;
                }
            };
            let _ = reply.send(said);
        });
    }

    /// Whether turns may stand in the session's mailbox: its team has them said to runs, or had it when one was.
    pub(super) fn steers(&self) -> bool {
        self.was_told
            || self
                .team()
                .is_some_and(|team| team.pinned.team.while_busy == WhileBusy::Steer)
    }

    /// Has the open run read what was said to the session. Without an open run it is read here, before the next turn begins.
    pub(super) fn look_for_steering_turns(&mut self) {
        if !self.steers() {
            return;
        }
        let shared = self.shared.clone();
        let Some(run) = self.open_run() else {
            return self.look_for_unheard();
        };
        if let Some(hosted) = self.runs.get(&run) {
            hosted.route.sender.tell(Command::Mailbox);
        } else {
            self.loads
                .spawn(async move { shared.wake(run, None).await });
        }
    }

    /// Reads the turns that no run has heard. They came before those that wait, so the next turn begins after that.
    fn look_for_unheard(&mut self) {
        let services = self.services().clone();
        let Some(session) = &mut self.session else {
            return;
        };
        if session.loaded.is_none() {
            // It is looked at when the session has been read.
            return self.load_session();
        }
        if session.looks_later {
            return;
        }
        if session.turns.is_busy() && session.looks.is_none() {
            // A turn is being recorded. It is looked again when that one is over.
            return;
        }
        // What an earlier look finds does not count: it may have been too early for this message.
        let look = self.stirred;
        session.turns.set_busy(true);
        session.looks = Some(look);
        let mailbox = JournalId::Session(SessionId::clone(&session.id));
        self.beside(async move {
            loop {
                match turns_in(&services.store, mailbox.clone()).await {
                    Ok(turns) => return [AgentCommand::Unheard(look, turns)],
                    Err(error) => {
                        tracing::warn!(%error, "what was said to a session is not read");
                        if error.is_lasting() {
                            return [AgentCommand::Unheard(look, Vec::new())];
                        }
                        services.clock.sleep(AGAIN).await;
                    }
                }
            }
        });
    }

    /// Begins the first of the turns that no run has heard, or else the next of those that wait. The run that it makes hears
    /// the others.
    pub(super) fn unheard(&mut self, look: u64, turns: Vec<Turn>) {
        let Some(session) = &mut self.session else {
            return;
        };
        if session.looks.take_if(|latest| *latest == look).is_none() {
            return;
        }
        session.turns.set_busy(false);
        let refused = session.refused.clone();
        let Some((fold, _)) = &session.loaded else {
            return;
        };
        let (known, unheard): (Vec<Turn>, Vec<Turn>) = turns.into_iter().partition(|turn| {
            let id = turn.id.as_ref();
            id.is_some_and(|id| fold.turns.contains_key(id))
        });
        let mailbox = JournalId::Session(SessionId::clone(&session.id));
        let mut batch = Batch::default();
        let known = known.iter().filter_map(|turn| turn.id.as_deref());
        batch
            .taken
            .extend(known.map(|id| (mailbox.clone(), item_of(id))));
        if !batch.taken.is_empty() {
            let store = self.services().store.clone();
            self.loads.spawn(async move {
                if let Err(error) = store.commit(vec![batch]).await {
                    tracing::debug!(%error, "turns that have runs stay in a session's mailbox");
                }
            });
        }
        // A turn that the store refuses holds up none of the others.
        let refused = unheard.iter().position(|turn| turn.id == refused);
        let next = refused.map_or(0, |refused| (refused + 1) % unheard.len());
        if let Some(turn) = unheard.into_iter().nth(next) {
            // The turn's sender has the run that was to hear it, and waits for nothing more.
            let (reply, _) = oneshot::channel();
            self.queue(turn, reply);
        }
        self.next_turn();
    }

    /// Looks into the session's mailbox again after a pause.
    pub(super) fn look_again(&mut self) {
        if self.steers()
            && let Some(session) = &mut self.session
            && !std::mem::replace(&mut session.looks_later, true)
        {
            self.later(AGAIN, AgentCommand::LookAgain);
        }
    }
}

/// Whether a run takes this turn, which is said to its session now. One that waits for a person's answer takes none where
/// the question comes first.
async fn takes(
    services: &Services,
    run: RunId,
    turn: &Turn,
    asks_first: bool,
) -> Result<bool, SystemError> {
    let store = &services.store;
    let (row, start) = (store.run(run).await?, start_of(store, run).await?);
    let (Some(row), Some(start)) = (row, start) else {
        return Ok(false);
    };
    let is_over = row.status.is_ended() && row.status != RunStatus::Continued;
    let asks = asks_first && row.status == RunStatus::Waiting && is_asking(store, row.root).await?;
    let pinned = load_pinned(services, run, start.definition).await?;
    let hears = pinned.team.while_busy.delivers_to(&start) && turn.is_for(&start);
    Ok(!is_over && !asks && hears)
}

/// Whether another message waits in the mailbox under the id of this turn. A turn that a run has heard is not compared.
async fn says_otherwise(
    store: &StoreHandle,
    mailbox: JournalId,
    turn: &Turn,
) -> Result<bool, StoreError> {
    let mut waiting = turns_in(store, mailbox).await?.into_iter();
    Ok(waiting.any(|waits| waits.id == turn.id && waits.message != turn.message))
}
