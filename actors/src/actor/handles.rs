//! The cheap handles: dropping one stops nothing.

use std::{collections::BTreeMap, fmt, sync::Arc};

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    EventStream, System, SystemError, TextStream,
    acting::Use,
    event_stream::Beginning,
    loaded::{end_of, pinned_team, start_of},
    observers::Subscription,
    recording::read_row,
};
use crate::{
    contract::{ItemBody, MailboxItem, RunRow, RunStatus, RunTree, StoreError, StoredLine, Ticket},
    run::{
        Code, Recorded,
        operations::{self, AgentMessage, Allowance, TopicCounts},
    },
    session::Turn,
    vocabulary::{
        AgentError, Answer, Message, Outcome, Part, RunEnd, RunId, SessionId, Spent, listed,
    },
};

/// One lasting conversation with a team.
#[derive(Clone)]
pub struct Session {
    pub(crate) system: System,
    pub(crate) id: SessionId,
}

impl Session {
    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Sends a turn to the session. It returns when the turn is recorded: at once, or after the
    /// turns before it have ended. A turn whose id was sent before returns the run of that turn.
    ///
    /// A turn that is said to the run under way ([`WhileBusy::Steer`](crate::definition::WhileBusy::Steer)) returns a handle
    /// of that run. The handle's [outcome](Run::outcome) and [events](Run::events) go on to the run which takes the turn.
    ///
    /// Where another process carries the session, the turn is posted to that process, which begins
    /// it; the handle follows its recorded events from here. The post is durable: a turn whose
    /// sender and whose owner die begins in the next process that has the team.
    ///
    /// # Errors
    /// [`SystemError::EmptyTurn`], [`SystemError::EmptyOwner`], [`SystemError::Overloaded`] when too
    /// many turns wait, [`SystemError::Foreign`] when the session is somebody else's,
    /// [`SystemError::Refused`] when the process that carries the session refuses the turn, what the
    /// store fails with.
    pub async fn send(&self, turn: impl Into<Turn>) -> Result<Run, SystemError> {
        let shared = self.system.shared();
        shared.known_team(&self.id.team)?;
        let mut turn = self.with_id(turn.into())?;
        self.system.acting().speak(&mut turn.owner, &self.id)?;
        let is_empty = |owner: &String| owner.trim().is_empty();
        if turn.owner.as_ref().is_some_and(is_empty) {
            return Err(SystemError::EmptyOwner);
        }
        // The subscription begins before the turn does, so no piece of the answer is missed.
        let early = (turn.streaming == Some(true)).then(|| {
            let id = turn.id.as_deref().unwrap_or_default();
            let observers = &shared.services.previewer.observers;
            observers.subscribe(RunId::of_turn(&self.id, id))
        });
        let run = match shared.say(&self.id, &turn).await {
            Err(SystemError::Store(error)) if error.is_elsewhere() => {
                shared.say_elsewhere(&self.id, &turn).await?
            }
            said => said?,
        };
        let mut run = self.system.run(run);
        run.early = Early(early.map(|early| Arc::new(Mutex::new(Some(early)))));
        run.was_said(self.id.clone(), turn.id.unwrap_or_default());
        Ok(run)
    }

    /// The turn with an id, if it says something.
    pub(super) fn with_id(&self, mut turn: Turn) -> Result<Turn, SystemError> {
        // An empty message would stay in the conversation, and providers refuse it for ever.
        let says = |part: &Part| part.as_text().is_none_or(|text| !text.trim().is_empty());
        if !turn.message.parts.iter().any(says) {
            return Err(SystemError::EmptyTurn);
        }
        // With an id the turn can be said again when the session's agent is lost or a write fails.
        let services = &self.system.shared().services;
        turn.id.get_or_insert_with(|| services.fresh_id());
        Ok(turn)
    }

    /// Sends a turn to the session and waits for the answer. Where an agent asks a person, as for an approval, that takes
    /// until somebody answers by another handle ([`Run::answer`]) or on the command line: [`send`](Self::send) the turn and
    /// follow [`Run::events`] to answer in the same program.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send) and [`Run::outcome`]; [`SystemError::NoAnswer`] where the run
    /// stopped before its end.
    pub async fn ask(&self, turn: impl Into<Turn>) -> Result<Answer, SystemError> {
        let run = self.send(turn).await?;
        Ok(run.outcome().await?.into_answer()?)
    }

    /// Sends a turn to the session and waits for the answer as a value of this type, which the
    /// agent's [`output`](crate::run::Agent::output) holds its model to.
    ///
    /// # Errors
    /// The errors of [`ask`](Self::ask); [`SystemError::NoAnswer`] where the answer is no such value.
    pub async fn ask_as<T: DeserializeOwned>(
        &self,
        turn: impl Into<Turn>,
    ) -> Result<T, SystemError> {
        let run = self.send(turn).await?;
        Ok(run.outcome().await?.into_value()?)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({})", self.id)
    }
}

/// One run, live or past.
#[derive(Clone)]
pub struct Run {
    pub(crate) system: System,
    pub(crate) id: RunId,
    /// The subscription of the run's first reader, if it began before the run did.
    pub(crate) early: Early,
    /// The turn that was said to it, if the handle was given for one.
    pub(super) said: Option<Arc<(SessionId, String)>>,
    /// The turn that begins it, if the handle was given before that.
    pub(super) beginning: Option<Beginning>,
}

/// A subscription that waits for a reader.
#[derive(Clone, Default)]
pub(crate) struct Early(Option<Arc<Mutex<Option<Subscription>>>>);

impl Early {
    fn take(&self, root: RunId) -> Option<Subscription> {
        let waiting = self.0.as_ref()?;
        waiting.lock().take_if(|early| early.is_of(root))
    }
}

impl Run {
    /// The run's id.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Checks that the party for which this handle acts may use the run in this way.
    pub(super) async fn check(&self, what: Use) -> Result<(), SystemError> {
        self.system.check_run(self.id, what).await
    }

    /// The events of the run and all runs below it, from the first on and then live; where a turn was
    /// [sent](Session::send) to the run and another one took it, then that one's. A handle that may not look at the run
    /// gets none. Of a run that is not recorded they wait for its beginning; [`status`](Self::status) says whether it is there.
    pub fn events(&self) -> EventStream {
        let observers = &self.system.shared().services.previewer.observers;
        let early = self.early.take(self.id);
        self.events_by(early.unwrap_or_else(|| observers.subscribe(self.id)))
    }

    /// The same with the previews of this process alone: for other processes, which ask each other for theirs.
    pub fn own_events(&self) -> EventStream {
        let observers = &self.system.shared().services.previewer.observers;
        self.events_by(observers.subscribe_to_own(self.id))
    }

    fn events_by(&self, subscription: Subscription) -> EventStream {
        let services = &self.system.shared().services;
        let (store, clock) = (services.store.clone(), services.clock.clone());
        let stream = EventStream::new(self.id, store, clock, subscription);
        let stream = stream.going_on_with(self.find_taker());
        let stream = stream.begun_by(self.beginning.as_ref());
        if self.system.acting().may_always(Use::Look) {
            return stream;
        }
        let run = self.clone();
        stream.behind(Box::pin(async move { run.check(Use::Look).await.is_ok() }))
    }

    /// The messages of the run's agents, as text: piece by piece where their models stream
    /// ([`Turn::streaming`](crate::session::Turn::streaming)), else message by message. The
    /// messages of the runs below are not included.
    pub fn text_stream(&self) -> TextStream {
        TextStream::new(self.id, self.events())
    }

    /// The run's status.
    ///
    /// # Errors
    /// [`SystemError::UnknownRun`], and what the store fails with.
    pub async fn status(&self) -> Result<RunRow, SystemError> {
        self.check(Use::Look).await?;
        read_row(self.system.store(), self.id).await
    }

    /// The run with all runs below it, as they stand now. It reads the index of the store, and no journal.
    ///
    /// ```
    /// # async fn shown(run: ghostlight_actors::actor::Run) -> Result<(), ghostlight_actors::actor::SystemError> {
    /// for (depth, row) in run.tree().await?.rows() {
    ///     println!("{}{} {} {}", "  ".repeat(depth), row.agent, row.run, row.status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SystemError::UnknownRun`], and what the store fails with.
    pub async fn tree(&self) -> Result<RunTree, SystemError> {
        let row = self.status().await?;
        Ok(RunTree::read(self.system.store(), row).await?)
    }

    /// Waits for the run's outcome, however long it takes. A run that goes on in another
    /// journal is followed there, and so is a turn that was [sent](Session::send) to the run and that another run took.
    ///
    /// # Errors
    /// [`SystemError::Failed`] and [`SystemError::Parked`], and what the store fails with.
    pub async fn outcome(&self) -> Result<Outcome, SystemError> {
        self.outcome_and_spent().await.map(|(outcome, _)| outcome)
    }

    pub(super) async fn own_outcome(&self) -> Result<(Outcome, Spent), SystemError> {
        self.check(Use::Look).await?;
        let mut run = self.clone();
        loop {
            let end = match run.end_here().await {
                Some(end) => Some(end),
                None => match run.recorded_end().await {
                    Err(SystemError::Store(StoreError::Deleted { .. })) => {
                        run = run.current().await?;
                        continue;
                    }
                    end => end?.map(Arc::new),
                },
            };
            match end.as_deref() {
                Some(RunEnd::Continued { next, .. }) => run = self.system.run(*next),
                Some(end) => {
                    return match end.outcome() {
                        Some(Ok(outcome)) => Ok((outcome, end.spent())),
                        Some(Err(error)) => Err(SystemError::Failed { run: run.id, error }),
                        None => Err(SystemError::UnknownRun(run.id)),
                    };
                }
                None => return Err(SystemError::UnknownRun(run.id)),
            }
        }
    }

    /// Waits as long as the run is live in this process, without asking the store, and returns how
    /// it ended. `None` when it is not live here, or came to rest without an end.
    async fn end_here(&self) -> Option<Arc<RunEnd>> {
        let services = &self.system.shared().services;
        let live = &services.previewer.live;
        let mut watch = live.watch(self.id);
        if live.is_live(self.id) && !self.system.shared().is_stopped() {
            // The watch rings when the agent forgets the run, and when the System stops. A run
            // whose actor is killed stays live until its next incarnation has ended.
            watch.rung().await;
        }
        watch.end()
    }

    /// Waits until the store has the run's end, and returns it.
    async fn recorded_end(&self) -> Result<Option<RunEnd>, SystemError> {
        if self.rest(RunStatus::is_at_rest).await?.status == RunStatus::Parked {
            let error =
                self.recorded().await?.parked.unwrap_or_else(|| {
                    AgentError::Failed("its journal does not say why".to_owned())
                });
            return Err(SystemError::Parked {
                run: self.id,
                error,
            });
        }
        Ok(end_of(self.system.store(), self.id).await?)
    }

    pub(super) async fn recorded(&self) -> Result<Recorded, SystemError> {
        Ok(Recorded::fold(&self.lines().await?, self.id)?)
    }

    pub(super) async fn lines(&self) -> Result<Vec<StoredLine>, SystemError> {
        Ok(self.system.store().journal(self.id.into(), 0).await?)
    }

    /// The run's bounds, what it has consumed, and its deadline, as far as they are recorded.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn budget(&self) -> Result<Allowance, SystemError> {
        self.check(Use::Look).await?;
        Ok(self.current().await?.recorded().await?.allowance())
    }

    /// The topics that the run shares with its tree, by name: how many events were published, and how
    /// each queue stands. Topics of a session, a user or a team outlast runs and are not among them.
    ///
    /// # Errors
    /// [`SystemError::UnknownRun`]; [`SystemError::Foreign`]; what the store fails with.
    pub async fn topics(&self) -> Result<BTreeMap<String, TopicCounts>, SystemError> {
        self.check(Use::Look).await?;
        let root = self.current().await?.status().await?.root;
        let values = self.system.store().scope(operations::run_scope(root));
        Ok(operations::topics_among(values.await?))
    }

    /// Sends a message to the agent while it works; its model reads it after the results of the
    /// step under way. The message is durable when this returns. It is for this run alone: if the
    /// run ends without reading it, nobody reads it. A message that must be read is a turn
    /// ([`Session::send`](super::Session::send), with
    /// [`WhileBusy::Steer`](crate::definition::WhileBusy::Steer)).
    ///
    /// # Errors
    /// [`SystemError::UnknownRun`] when the run has ended; [`SystemError::Foreign`]; what the store
    /// fails with.
    pub async fn steer(&self, text: impl Into<String>) -> Result<(), SystemError> {
        self.check(Use::Act).await?;
        let id = format!("steer/{}", self.system.shared().services.fresh_id());
        self.post(id, ItemBody::Steer(Message::user(text)))
            .await
            .map(drop)
    }

    /// Puts a typed message into the run's mailbox, for `RunContext::receive`.
    ///
    /// # Errors
    /// [`SystemError::UnknownRun`] when the run has ended; [`SystemError::Foreign`];
    /// [`SystemError::NotReceived`] when its agent says which messages it receives, and this is none of them; what the
    /// store fails with.
    pub async fn tell<M: AgentMessage>(&self, message: &M) -> Result<(), SystemError> {
        let value = serde_json::to_value(message).map_err(|error| SystemError::Unwritable {
            message: M::NAME,
            error: error.to_string(),
        })?;
        self.tell_named(M::NAME, value).await
    }

    /// Puts a message into the run's mailbox by the stable name of its type, for a program that does
    /// not have the type. A value of another form is set aside where it is received.
    ///
    /// # Errors
    /// As [`tell`](Self::tell).
    pub async fn tell_named(&self, name: &str, value: Value) -> Result<(), SystemError> {
        self.check(Use::Act).await?;
        if let Some(received) = self.received().await?
            && !received.iter().any(|received| received == name)
        {
            return Err(SystemError::NotReceived {
                run: self.id,
                message: name.to_owned(),
                received: listed(received),
            });
        }
        let id = format!("tell/{}", self.system.shared().services.fresh_id());
        let name = name.to_owned();
        let body = ItemBody::Message { name, value };
        self.post(id, body).await.map(drop)
    }

    /// The names of the messages that the run's agent receives; `None` where it does not say.
    async fn received(&self) -> Result<Option<Vec<String>>, SystemError> {
        let shared = self.system.shared();
        let Some(start) = start_of(&shared.services.store, self.id).await? else {
            return Ok(None);
        };
        let known = shared.team(&start.team);
        if let Some(known) = known.filter(|known| known.digest == start.definition) {
            let is_child = start.parent.is_some();
            let received = (known.registry).received_by(&known.pinned.team, &start.agent, is_child);
            return Ok(received.map(Vec::from_iter));
        }
        let team = pinned_team(&shared.services.store, self.id).await?;
        let received = team.received_by(&start.agent);
        let names = received.map(|names| names.into_iter().map(str::to_owned));
        Ok(names.map(Vec::from_iter))
    }

    /// Tries a parked run again, with the code of this process.
    ///
    /// # Errors
    /// [`SystemError::Ended`], and what the store fails with.
    pub async fn retry(&self) -> Result<(), SystemError> {
        self.check(Use::Act).await?;
        if !self.system.is_open(self.id).await? {
            return Err(SystemError::Ended(self.id));
        }
        self.system.resume(self.id, false).await.map(drop)
    }

    pub(super) async fn post(&self, id: String, body: ItemBody) -> Result<bool, SystemError> {
        let shared = self.system.shared();
        let item = MailboxItem::new(id, shared.services.clock.now(), body);
        let Some(fresh) = shared.post(self.id, item).await? else {
            // The run does not exist, or it has ended.
            self.status().await?;
            return Err(SystemError::UnknownRun(self.id));
        };
        Ok(fresh)
    }

    pub(super) async fn post_if_open(
        &self,
        id: String,
        body: ItemBody,
    ) -> Result<bool, SystemError> {
        match self.post(id, body).await {
            Ok(_) => Ok(true),
            Err(SystemError::UnknownRun(_) | SystemError::Store(StoreError::Deleted { .. })) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The run in whose journal this one goes on now.
    pub(super) async fn current(&self) -> Result<Run, SystemError> {
        let services = &self.system.shared().services;
        match services.current(self.id).await? {
            Some(row) => Ok(self.system.run(row.run)),
            // The run was deleted with all journals in which it went on, or it never existed.
            None => self.status().await.map(|_| self.clone()),
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run({})", self.id)
    }
}

impl System {
    /// The conversation with a team under this key. It begins with its first turn.
    pub fn session(&self, team: impl AsRef<str>, key: impl AsRef<str>) -> Session {
        let id = SessionId {
            team: team.as_ref().into(),
            key: key.as_ref().into(),
        };
        Session {
            system: self.clone(),
            id,
        }
    }

    /// A run of the store, live or past.
    pub fn run(&self, id: RunId) -> Run {
        Run {
            system: self.clone(),
            id,
            early: Early::default(),
            said: None,
            beginning: None,
        }
    }

    /// Gives the result of a call that handed out a ticket. The first result counts. It may come before the call itself has
    /// returned. For a run that has an owner, use a System that [acts for that owner](Self::acting_for) or for the
    /// [operator](Self::as_operator): a ticket is no secret.
    ///
    /// # Errors
    /// [`SystemError::UnknownRun`] when the run has ended; [`SystemError::Foreign`]; what the store fails with.
    pub async fn complete(
        &self,
        ticket: Ticket,
        result: Result<String, String>,
    ) -> Result<(), SystemError> {
        let Ticket { run, operation } = ticket;
        let (id, run) = (format!("result/{operation}"), self.run(run));
        run.check(Use::Act).await?;
        run.post(id, ItemBody::Result { operation, result })
            .await
            .map(drop)
    }
}
