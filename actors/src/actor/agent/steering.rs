//! Turns that are said to the run that is under way.

use tokio::sync::oneshot;

use super::AgentState;
use crate::{
    actor::{
        SystemError,
        agent_command::{AgentCommand, TurnReply},
        open_questions::is_asking,
    },
    contract::{
        Batch, ItemBody, MailboxItem, RunFilter, RunRow, RunStatus, StoreError, StoreHandle,
    },
    definition::{WhileAsking, WhileBusy},
    session::Turn,
    vocabulary::{Message, RunId},
};

/// The number of a session's latest runs that are searched for unread turns after its agent was
/// lost.
const LATEST: usize = 8;

/// The id of a turn in a run's mailbox: a turn that is said twice is read once.
pub(super) fn item_of(turn: &str) -> String {
    format!("turn/{turn}")
}

/// The turn in an item of a run's mailbox, if the item is one.
fn turn_of(body: ItemBody) -> Option<Turn> {
    let ItemBody::Turn {
        turn,
        message,
        owner,
        budget,
        deadline,
    } = body
    else {
        return None;
    };
    let mut said = Turn::from(message).id(turn).budget(budget);
    (said.owner, said.deadline) = (owner, deadline);
    Some(said)
}

/// Whether another message waits in the mailbox under the id of this turn. A turn that the run has read is not compared.
async fn says_otherwise(store: &StoreHandle, run: RunId, turn: &Turn) -> bool {
    let waiting = store.mailbox(run).await.unwrap_or_default().into_iter();
    let mut waiting = waiting.filter_map(|item| turn_of(item.body));
    waiting.any(|waits| waits.id == turn.id && waits.message != turn.message)
}

/// Tells the session's agent of the turns in the mailbox of a run that has ended without having read
/// them. A mailbox that cannot be read now is read when the next process starts.
pub(in crate::actor) async fn unread_turns(
    store: &StoreHandle,
    run: RunId,
) -> Result<Vec<AgentCommand>, StoreError> {
    let mailbox = store.mailbox(run).await?.into_iter();
    let turns = mailbox.filter_map(|item| turn_of(item.body));
    Ok(turns
        .map(|turn| AgentCommand::Unread(run, Box::new(turn)))
        .collect())
}

impl AgentState {
    pub(super) fn queue(&mut self, turn: Turn, reply: TurnReply) {
        let Some(session) = &mut self.session else {
            return;
        };
        match &session.loaded {
            Some((fold, _)) => {
                let admission = session.turns.queue(fold, turn, reply);
                self.admit(admission);
            }
            None => self.turn(turn, reply),
        }
    }

    /// Says a turn to the run that is under way, beside the actor. If that run waits for a
    /// person's answer, and the team does not let turns wait for it, the turn is queued instead:
    /// the queue handles it by the team's setting.
    pub(super) fn steer(&mut self, mut turn: Turn, reply: TurnReply) {
        let Some(run) = self.open_run() else {
            return self.queue(turn, reply);
        };
        let (services, myself) = (self.services().clone(), self.myself.clone());
        let asks_first = self.while_asking() != WhileAsking::Wait;
        let session = self.session.as_ref();
        let session = session.map_or_else(String::new, |session| session.id.to_string());
        let id = turn.id.get_or_insert_with(|| services.fresh_id()).clone();
        self.loads.spawn(async move {
            let store = &services.store;
            if asks_first
                && let Ok(Some(row)) = store.run(run).await
                && row.status == RunStatus::Waiting
                && let Ok(true) = is_asking(store, row.root).await
            {
                let _ = myself.cast(AgentCommand::Queue(Box::new(turn), reply));
                return;
            }
            let body = ItemBody::Turn {
                turn: id.clone(),
                message: Message::clone(&turn.message),
                owner: turn.owner.clone(),
                budget: turn.budget,
                deadline: turn.deadline,
            };
            let item = MailboxItem::new(item_of(&id), services.clock.now(), body);
            let said = match services.post_to(run, item).await {
                Ok(Some((mailbox, false))) if says_otherwise(store, mailbox, &turn).await => {
                    Err(SystemError::OtherTurn {
                        session,
                        turn: id,
                        run,
                    })
                }
                Ok(Some(_)) => {
                    let _ = myself.cast(AgentCommand::Steered(run, id));
                    Ok(run)
                }
                // A run that has ended takes no message: the turn begins a run of its own.
                Ok(None) | Err(_) => {
                    let _ = myself.cast(AgentCommand::Queue(Box::new(turn), reply));
                    return;
                }
            };
            let _ = reply.send(said);
        });
    }

    pub(super) fn steered(&mut self, run: RunId, id: &str) {
        if self.open_run() != Some(run) {
            // The run ended meanwhile.
            self.look_for_unread(run);
        }
        // The turn is in this run's mailbox now, even if it was in another's before.
        let session = self.session.as_mut();
        let before = session.and_then(|session| session.unread.remove(id));
        if let Some(before) = before.filter(|before| *before != run) {
            self.strike(before, id);
        }
    }

    fn steers(&self) -> bool {
        self.team()
            .is_some_and(|team| team.pinned.team.while_busy == WhileBusy::Steer)
    }

    /// Looks for turns that were said to a run which has ended without having read them.
    pub(super) fn look_for_unread(&mut self, run: RunId) {
        if !self.steers() {
            return;
        }
        let shared = self.shared.clone();
        self.beside(async move { shared.unread_of(run).await });
    }

    /// Looks for unread turns in the session's latest runs, after an incarnation was lost.
    pub(super) fn look_for_all_unread(&mut self) {
        let Some(session) = self.session.as_ref().filter(|_| self.steers()) else {
            return;
        };
        let mut filter = RunFilter::default();
        (filter.session, filter.roots, filter.limit) = (Some(session.id.clone()), true, LATEST);
        let shared = self.shared.clone();
        self.beside(async move {
            let rows = shared.services.store.runs(filter).await;
            let rows = rows.unwrap_or_else(|error| {
                tracing::warn!(%error, "turns that nobody read are not looked for");
                Vec::new()
            });
            // The session may go on without a run that is parked.
            let rested = |row: &RunRow| row.status.is_at_rest();
            let mut unread = Vec::new();
            for row in rows.into_iter().rev().filter(rested) {
                unread.extend(shared.unread_of(row.run).await);
            }
            unread
        });
    }

    /// Makes an unread turn a turn of its own, or says it to the run that is under way.
    pub(super) fn unread(&mut self, run: RunId, turn: Turn) {
        let Some((session, id)) = self.session.as_mut().zip(turn.id.clone()) else {
            return;
        };
        if session.unread.insert(id, run) != Some(run) {
            // The turn's sender has the run that was to read it, and waits for nothing more.
            let (reply, _) = oneshot::channel();
            self.turn(turn, reply);
        }
        self.settle_unread();
    }

    /// Strikes the turns that have a run of their own by now off the mailboxes of ended runs.
    pub(super) fn settle_unread(&mut self) {
        if let Some(session) = &mut self.session
            && let Some((fold, _)) = &session.loaded
        {
            let has_run = |turn: &String, _: &mut RunId| fold.turns.contains_key(turn);
            let settled: Vec<_> = session.unread.extract_if(.., has_run).collect();
            for (turn, run) in settled {
                self.strike(run, &turn);
            }
        }
    }

    fn strike(&mut self, run: RunId, turn: &str) {
        let mut batch = Batch::default();
        batch.taken.push((run, item_of(turn)));
        let store = self.services().store.clone();
        self.loads.spawn(async move {
            if let Err(error) = store.commit(vec![batch]).await {
                // The next process looks at the turn once more.
                tracing::debug!(%run, %error, "a turn stays in the mailbox of a run that ended");
            }
        });
    }
}
