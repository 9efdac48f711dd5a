//! How a turn reaches its session, in this process or in the one that carries it.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::{
    SystemError,
    agent_command::AgentCommand,
    launch::folded,
    poll_interval::{AGAIN, PollInterval},
    shared::Shared,
};
use crate::{
    contract::{Batch, ItemBody, MailboxItem, StoreError},
    session::Turn,
    vocabulary::{JournalId, RunId, SessionId, Timestamp},
};

/// How often a turn is sent to a session whose journal is lost under it.
const TRIES: u32 = 4;
/// The pause before the turn is sent again; it grows with each time.
const PAUSE: Duration = Duration::from_millis(50);
/// The pauses between looks at what became of a posted turn.
const LOOK: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));
/// How long a posted turn waits for its session's owner before the turn is tried in this process.
const OWNER_LOOK: Duration = Duration::from_secs(1);
/// How long a process that posted a turn has to read the answer to it.
const TOLD_FOR: Duration = Duration::from_secs(600);

impl Shared {
    /// Sends a turn that has an id to a session that this process carries, or can carry.
    ///
    /// # Errors
    /// [`StoreError::Owned`] when another process carries the session.
    pub(crate) async fn say(
        self: &Arc<Self>,
        session: &SessionId,
        turn: &Turn,
    ) -> Result<RunId, SystemError> {
        let _admission = self.admit(session)?;
        let mut tries = 1;
        loop {
            match self.say_once(session, turn).await {
                // Another process may have taken the session over. Said again, the turn finds that out.
                Err(
                    error @ SystemError::Store(
                        StoreError::Closed
                        | StoreError::Io { .. }
                        | StoreError::Stale { .. }
                        | StoreError::Sequence { .. },
                    ),
                ) => {
                    if tries == TRIES || self.is_stopped() {
                        return Err(error);
                    }
                    tracing::warn!(%session, %error, "the turn is said again");
                }
                said => return said,
            }
            self.services.clock.sleep(PAUSE * tries).await;
            tries += 1;
        }
    }

    async fn say_once(
        self: &Arc<Self>,
        session: &SessionId,
        turn: &Turn,
    ) -> Result<RunId, SystemError> {
        let said = |sender| AgentCommand::Turn(Box::new(turn.clone()), sender);
        self.ask_agent(session, said).await?
    }

    /// Posts a turn that has an id to the process that carries its session, and waits for the
    /// result. If that process dies first, the turn is sent here.
    pub(crate) async fn say_elsewhere(
        self: &Arc<Self>,
        session: &SessionId,
        turn: &Turn,
    ) -> Result<RunId, SystemError> {
        let run = RunId::of_turn(session, turn.id.as_deref().unwrap_or_default());
        let clock = &self.services.clock;
        if let Some(known) = self.begun_elsewhere(run, session, turn).await? {
            return Ok(known);
        }
        // A turn that was refused may be said again, so each post has an id of its own.
        let item = format!("begin/{}", self.services.fresh_id());
        let body = ItemBody::ForwardedTurn(Box::new(turn.clone()));
        let item = MailboxItem::new(item, clock.now(), body);
        let mine = item.id.clone();
        self.services
            .store
            .post(session.clone().into(), item)
            .await?;
        let (mut interval, mut looked) = (PollInterval::between(LOOK.0, LOOK.1), clock.monotonic());
        loop {
            if let Some(known) = self.begun_elsewhere(run, session, turn).await? {
                self.settle(session, &mine, None).await?;
                return Ok(known);
            }
            if let Some(told) = self.told(session, &mine).await? {
                let session = session.to_string();
                return told.map_err(|reason| SystemError::Refused { session, reason });
            }
            if self.is_stopped() {
                return Err(SystemError::Stopped);
            }
            if clock.monotonic().since(looked) >= OWNER_LOOK {
                looked = clock.monotonic();
                match self.say(session, turn).await {
                    Err(SystemError::Store(error)) if error.is_elsewhere() => {}
                    Err(SystemError::Overloaded { .. }) => {}
                    said => {
                        self.settle(session, &mine, None).await?;
                        return said;
                    }
                }
            }
            clock.sleep(interval.pause()).await;
        }
    }

    /// The run of a turn, if there is one.
    async fn begun_elsewhere(
        &self,
        run: RunId,
        session: &SessionId,
        turn: &Turn,
    ) -> Result<Option<RunId>, SystemError> {
        if self.services.store.run(run).await?.is_none() {
            return Ok(None);
        }
        let (fold, _) = folded(&self.services.store, session, u64::MAX).await?;
        let session = session.to_string();
        if fold.owner.is_some() && fold.owner != turn.owner {
            return Err(SystemError::Foreign { session });
        }
        let sent = turn
            .id
            .as_ref()
            .and_then(|id| Some((id, fold.turns.get(id)?)));
        if let Some((id, known)) = sent
            && !known.says(&turn.message)
        {
            let turn = id.clone();
            return Err(SystemError::OtherTurn { session, turn, run });
        }
        Ok(Some(run))
    }

    /// The answer of the session's owner to a posted turn that did not become a run of its own.
    async fn told(
        &self,
        session: &SessionId,
        mine: &str,
    ) -> Result<Option<Result<RunId, String>>, SystemError> {
        let told = answer_to(mine);
        for item in self.services.store.mailbox(session.clone().into()).await? {
            if let ItemBody::ForwardedTurnEnded { turn } = item.body
                && item.id == told
            {
                self.settle(session, &told, None).await?;
                return Ok(Some(turn));
            }
        }
        Ok(None)
    }

    /// Begins the turns that other processes posted to a session, and tells its agent of those that were said to the run
    /// under way, unless another process carries the session. That one may die first, so it is looked again as long as
    /// turns wait there.
    pub(crate) async fn read_mailbox(self: Arc<Self>, session: SessionId) {
        let mut interval = PollInterval::between(AGAIN, self.poll_interval());
        loop {
            let pause = match self.read_items(&session).await {
                Ok(true) => return,
                Ok(false) => interval.pause(),
                Err(error) if error.is_lasting() => return,
                Err(error) => {
                    tracing::warn!(%session, %error, "what came for a session is not read");
                    AGAIN
                }
            };
            if !self.looking_again.lock().insert(session.clone()) {
                // Another task looks after its pause.
                return;
            }
            self.services.clock.sleep(pause).await;
            self.looking_again.lock().remove(&session);
            if self.is_stopped() {
                return;
            }
        }
    }

    /// The same once. `false` where turns wait for a process that may die before it begins them, or for an agent that was
    /// lost.
    async fn read_items(self: &Arc<Self>, session: &SessionId) -> Result<bool, StoreError> {
        if self.team(&session.team).is_none() {
            return Ok(true);
        }
        let items = self.services.store.mailbox(session.clone().into()).await?;
        let is_said = |item: &MailboxItem| matches!(item.body, ItemBody::SteeringTurn(_));
        let is_posted = |item: &MailboxItem| matches!(item.body, ItemBody::ForwardedTurn(_));
        let wait = items.iter().any(|item| is_said(item) || is_posted(item));
        if !self.may_carry(session).await? {
            return Ok(!wait);
        }
        if items.iter().any(is_said) {
            self.tell_of_steering_turns(session).await;
        }
        // Each is begun once, however often the mailbox is read while it waits for its turn.
        let items = items.into_iter().filter(|item| {
            let is_answer = matches!(item.body, ItemBody::ForwardedTurnEnded { .. });
            (is_posted(item) || is_answer) && self.beginning.lock().insert(item.id.clone())
        });
        let begun = items.map(|item| async move {
            let id = item.id.clone();
            let begun = self.begin_item(session, item).await;
            self.beginning.lock().remove(&id);
            begun
        });
        let mut all = true;
        for begun in join_all(begun).await {
            match begun {
                Ok(is_settled) => all &= is_settled,
                Err(SystemError::Store(error)) => return Err(error),
                Err(error) => tracing::warn!(%session, %error, "a posted turn is not begun"),
            }
        }
        Ok(all)
    }

    /// Whether this process has the code for a session that no other one carries.
    pub(super) async fn may_carry(&self, session: &SessionId) -> Result<bool, StoreError> {
        let journals = vec![session.clone().into()];
        let is_known = self.team(&session.team).is_some();
        Ok(is_known && self.services.store.held_elsewhere(journals).await? != [true])
    }

    pub(super) async fn tell_of_steering_turns(self: &Arc<Self>, session: &SessionId) {
        if let Ok(agent) = self.agent_of(session).await {
            let _ = agent.cast(AgentCommand::SteeringTurnsWait);
        }
    }

    /// Begins a posted turn. `false` where this process cannot, and another one or a later look may.
    async fn begin_item(
        self: &Arc<Self>,
        session: &SessionId,
        item: MailboxItem,
    ) -> Result<bool, SystemError> {
        let now = self.services.clock.now();
        let turn = match item.body {
            ItemBody::ForwardedTurn(turn) => turn,
            // The sender has stopped waiting for this answer.
            ItemBody::ForwardedTurnEnded { .. } if now.since(item.at) > TOLD_FOR => {
                return self.settle(session, &item.id, None).await.map(|()| true);
            }
            _ => return Ok(true),
        };
        let run = RunId::of_turn(session, turn.id.as_deref().unwrap_or_default());
        let told = match self.say(session, &turn).await {
            Ok(begun) if begun == run => None,
            Ok(steered) => Some(Ok(steered)),
            Err(SystemError::Store(error)) if error.is_elsewhere() => return Ok(false),
            Err(SystemError::AgentLost { .. }) => return Ok(false),
            Err(SystemError::Stopped) => return Ok(true),
            Err(error) => Some(Err(error.to_string())),
        };
        self.settle(session, &item.id, told.map(|told| (told, now)))
            .await?;
        Ok(true)
    }

    /// Strikes a posted turn off, and tells its sender the result where that is not a run of its
    /// own.
    async fn settle(
        &self,
        session: &SessionId,
        item: &str,
        told: Option<(Result<RunId, String>, Timestamp)>,
    ) -> Result<(), SystemError> {
        let mut batch = Batch::default();
        let mailbox = JournalId::from(session.clone());
        batch.taken.push((mailbox.clone(), item.to_owned()));
        if let Some((turn, now)) = told {
            let told =
                MailboxItem::new(answer_to(item), now, ItemBody::ForwardedTurnEnded { turn });
            batch.posts.push((mailbox, told));
        }
        self.services.store.commit_one(batch).await?;
        Ok(())
    }
}

/// The id of the answer to a posted turn.
fn answer_to(item: &str) -> String {
    format!("begun/{item}")
}
