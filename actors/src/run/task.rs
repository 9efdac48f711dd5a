//! A run from the end of its journal to its own end, leg after leg.

pub(super) mod close;
pub(super) mod end;

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    ParentSender, Ports, Registry, RunContext, RunMailbox, RunSender,
    driver::{Driver, LegEnd},
    journal::JournalWriter,
    leg::{Leg, Opening},
    load::Recorded,
    operations, policy,
};
use crate::{
    contract::{Append, BoxFuture, Claim, Line, RunRow, RunStatus, StoreError},
    definition::Pinned,
    vocabulary::{
        AgentError, Entry, FORMAT, Family, JournalId, Message, Outcome, RunId, RunStart, SessionId,
        SessionTurn, StopReason, Timestamp, Transcript, Transfer, TurnEnd,
    },
};

/// The bound on transfers where a team sets none.
const DEFAULT_MAX_TRANSFERS: u32 = 16;

/// Everything that a run needs to go on.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) struct RunTask {
    /// The run.
    pub run: RunId,
    /// Its row in the index.
    pub row: RunRow,
    /// Ownership of its journal.
    pub claim: Claim,
    /// What its journal says.
    pub recorded: Recorded,
    /// The definition that it is pinned to.
    pub pinned: Arc<Pinned>,
    /// The part of the session's history that belongs to this run.
    pub history: Transcript,
    /// The registered code.
    pub registry: Arc<Registry>,
    /// The ports to the world.
    pub ports: Arc<dyn Ports>,
    /// The run's mailbox, and a sender to it.
    pub door: (RunSender, RunMailbox),
    /// Fires when an ancestor is cancelled.
    pub cancelled: CancellationToken,
    /// The parent's door, for a child.
    pub parent: Option<ParentSender>,
    /// The session's journal, for a root run of a session: its entries are written with the
    /// run's last.
    pub session: Option<SessionTail>,
    /// Why the run must end without being run, if it must.
    pub give_up: Option<AgentError>,
    /// Why the run is to be cancelled although its own journal does not say so.
    pub cancel: Option<String>,
    /// Whether this process or actor takes over the run from another.
    pub recovered: bool,
    /// Why the function, which ran in this process before, was lost.
    pub lost: Option<String>,
    /// The channel that is told as soon as the record of the recovery is durable.
    pub when_recovered: Option<oneshot::Sender<()>>,
    /// Whether the inbox is known to be empty. The run is told of every later item.
    pub inbox_is_empty: bool,
    /// The version of the team's code in this process.
    pub version: u32,
    /// How long a root run that waits for the outside stays in memory.
    pub linger: Duration,
    /// The bound on the journal's entries.
    pub max_entries: u64,
    /// How often the function may crash without getting any further. 0 means no bound.
    pub poison_after: u32,
}

/// The session to whose journal a run appends.
#[derive(Clone, Debug)]
pub(crate) struct SessionTail {
    /// The session.
    pub session: SessionId,
    /// Ownership of its journal.
    pub claim: Claim,
}

/// How a run came to rest.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum RunExit {
    /// It ended, and its end is durable or handed to the parent.
    Ended {
        /// Its outcome.
        outcome: Result<Outcome, AgentError>,
        /// The end of the turn, as its session records it.
        end: Box<TurnEnd>,
        /// Whether an earlier life had recorded the end already. A fold of the session that is kept
        /// in memory must be read again then.
        found_ended: bool,
    },
    /// It goes on in another run's journal.
    Continued {
        /// The run that goes on.
        next: RunId,
        /// The turns that were sent to this run while it was under way, and that it heard.
        heard: Vec<String>,
        /// As in `Ended`.
        found_ended: bool,
    },
    /// It waits only for the outside.
    Asleep {
        /// When it must be woken.
        wake_at: Option<Timestamp>,
        /// The number of messages to its tree when it fell asleep. A later message wakes it.
        told: u64,
    },
    /// It waits until somebody retries, forks or cancels it.
    Parked(AgentError),
    /// The host told it to stop in this process, without an end.
    LetGo,
    /// The store failed, or somebody else owns the run.
    Store(StoreError),
}

impl RunTask {
    /// A run that goes on from its journal.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        row: RunRow,
        claim: Claim,
        recorded: Recorded,
        pinned: Arc<Pinned>,
        history: Transcript,
        registry: Arc<Registry>,
        ports: Arc<dyn Ports>,
        door: (RunSender, RunMailbox),
    ) -> Self {
        Self {
            run: row.run,
            row,
            claim,
            recorded,
            pinned,
            history,
            registry,
            ports,
            door,
            cancelled: CancellationToken::new(),
            parent: None,
            session: None,
            give_up: None,
            cancel: None,
            recovered: false,
            lost: None,
            when_recovered: None,
            inbox_is_empty: false,
            version: 0,
            linger: Duration::ZERO,
            max_entries: 100_000,
            poison_after: 0,
        }
    }

    /// Carries the run until it comes to rest. The future is boxed, since every future around it
    /// would otherwise reserve room for its state again.
    pub(crate) fn carry(self) -> BoxFuture<'static, RunExit> {
        match Carrier::new(self) {
            Ok(carrier) => Box::pin(carrier.carry()),
            Err(rest) => Box::pin(async move { *rest }),
        }
    }
}

/// The first entry of a child run, with its row. A child that outlives its parent has a session of
/// its own, whose first entry is added.
pub(crate) fn first_entries(
    run: RunId,
    start: &RunStart,
    version: u32,
) -> Result<Vec<Append>, StoreError> {
    let first = Entry::RunStarted(Box::new(start.clone()));
    let line = Line::encode(start.at, &first)?;
    let mut appends = vec![Append::new(run, 0, 1, vec![line]).row(row_of(run, start, version))];
    if let Some(session) = &start.session {
        let turn = SessionTurn::new(run.to_string(), run, start.input.clone());
        let line = Line::encode(start.at, &Entry::TurnStarted(Box::new(turn)))?;
        let journal = JournalId::Session(session.clone());
        appends.push(Append::new(journal, 0, 1, vec![line]));
    }
    Ok(appends)
}

/// The row of a run that begins now, carried by this version of its team's code.
pub(crate) fn row_of(run: RunId, start: &RunStart, version: u32) -> RunRow {
    let mut row = RunRow::new(run, start.team.clone(), start.agent.clone());
    row.root = start.root;
    // A run that outlives its parent is a root and has no parent in the index.
    let below = start.parent.filter(|_| !start.when_parent_ends.outlives());
    row.parent = below.map(|(parent, _)| parent);
    row.session.clone_from(&start.session);
    row.owner.clone_from(&start.owner);
    row.version = version;
    row.path.clone_from(&start.path);
    row.title = start.input.content().chars().take(120).collect();
    (row.started_at, row.updated_at) = (start.at, start.at);
    row
}

struct Carrier {
    run: RunId,
    start: Arc<RunStart>,
    pinned: Arc<Pinned>,
    history: Transcript,
    registry: Arc<Registry>,
    recorded: Recorded,
    driver: Driver,
    session: Option<SessionTail>,
    give_up: Option<AgentError>,
    cancel: Option<String>,
    recovered: bool,
    lost: Option<String>,
    when_recovered: Option<oneshot::Sender<()>>,
    inbox_is_empty: bool,
    version: u32,
    poison_after: u32,
    transfers: u32,
}

impl Carrier {
    fn new(mut task: RunTask) -> Result<Box<Self>, Box<RunExit>> {
        let Some(start) = task.recorded.start.clone() else {
            return Err(Box::new(RunExit::Store(StoreError::Damaged {
                place: format!("run {}", task.run),
                reason: "its journal does not begin with the run's start".to_owned(),
            })));
        };
        let cancelled_above = task
            .cancelled
            .is_cancelled()
            .then(|| "cancelled with its parent".to_owned());
        let journal = JournalWriter::new(task.run, task.row, task.claim, task.ports.clone());
        let team = &task.pinned.team;
        let linger = task.parent.is_none().then_some(task.linger);
        let mut driver = Driver::new(
            journal,
            task.ports,
            task.door,
            task.cancelled,
            team.durability.window(),
            linger,
            task.max_entries,
            team.park_on_drift,
        );
        driver.deadline = start.ends_by();
        driver.ledger = std::mem::take(&mut task.recorded.ledger);
        driver.continuing = std::mem::take(&mut task.recorded.continuing);
        driver.warn_at = team.budget_warnings().to_vec();
        driver.wall_time_warning = driver.ledger.wall_time_warning(&driver.warn_at, start.at);
        driver.entries_warning = driver
            .ledger
            .entries_warning(&driver.warn_at, driver.max_entries);
        driver.parent = task.parent;
        driver.replay = std::mem::take(&mut task.recorded.deliveries);
        driver.heard = std::mem::take(&mut task.recorded.heard);
        Ok(Box::new(Self {
            run: task.run,
            start,
            pinned: task.pinned,
            history: task.history,
            registry: task.registry,
            transfers: task.recorded.leg,
            recorded: task.recorded,
            driver,
            session: task.session,
            give_up: task.give_up,
            cancel: task.cancel.or(cancelled_above),
            recovered: task.recovered,
            lost: task.lost,
            when_recovered: task.when_recovered,
            inbox_is_empty: task.inbox_is_empty,
            version: task.version,
            poison_after: task.poison_after,
        }))
    }

    async fn carry(mut self: Box<Self>) -> RunExit {
        if self.recorded.end.is_some() {
            return self.ended_before();
        }
        if self.recovered {
            let epoch = self.driver.journal.epoch();
            if let Some(reason) = self.lost.take() {
                let entry = Entry::Restarted {
                    reason: reason.clone(),
                };
                self.driver.journal.append(&entry);
                self.isolate(reason);
            }
            let format = FORMAT;
            let entry = Entry::Activated { epoch, format };
            self.driver.journal.append(&entry);
            // A write of the last life may be durable although nobody heard of it.
            let scope = operations::run_scope(self.start.root);
            self.driver.ports.forget_state(scope);
            let status = match self.recorded.cancel {
                Some(_) => RunStatus::Cancelling,
                None => RunStatus::Running,
            };
            let row = &self.driver.journal.row;
            let version = row.version.max(self.version);
            if (row.status, row.version) != (status, version) {
                self.driver
                    .journal
                    .change_row(|row| (row.status, row.version) = (status, version));
            }
            self.driver.journal.flush();
            if let Some(told) = self.when_recovered.take() {
                if let Err(error) = self.driver.journal.settle().await {
                    return RunExit::Store(error);
                }
                // The receiver may be gone.
                let _ = told.send(());
            }
        }
        let mut number = self.recorded.leg;
        let mut agent = self.recorded.agent.clone();
        let mut request = self.recorded.request.take();
        let mut said = std::mem::take(&mut self.recorded.messages);
        let mut heard = std::mem::take(&mut self.recorded.said_meanwhile);
        let mut unheard = Vec::new();
        loop {
            let leg = match self.leg(number, &agent, request.take(), (&said, &heard)) {
                Ok(leg) => leg,
                Err(error) => return self.park(error).await,
            };
            *leg.steering.lock() = std::mem::take(&mut unheard);
            if let Err(rest) = self.before_leg(&leg).await {
                return rest;
            }
            if let Some(rest) = self.end_without_running(&leg).await {
                return rest;
            }
            let Some(behavior) = self.registry.behavior_of(&leg.agent) else {
                let known = self.registry.behavior_names().join(", ");
                let message = format!(
                    "agent {agent} works by the behavior {:?}, which is not registered; \
                     there are: {known}",
                    leg.agent.spec.behavior.name
                );
                return self.park(AgentError::Failed(message)).await;
            };
            let behavior = match behavior {
                Ok(behavior) => behavior,
                Err(reason) => return self.park(AgentError::Failed(reason)).await,
            };
            let policies = match self.registry.policies_of(&leg.agent) {
                Ok(policies) => policies,
                Err(reason) => return self.park(AgentError::Failed(reason)).await,
            };
            let cx = RunContext::watched(leg.clone(), &policies);
            let function = Box::pin(async move { policy::around(&behavior, cx).await });
            let end = self.driver.drive(&leg, function).await;
            let transfer = match self.leg_ended(&leg, end).await {
                Ok(transfer) => transfer,
                Err(rest) => return *rest,
            };
            number += 1;
            self.recorded.callers = leg.callers_after(&transfer);
            let by = transfer.is_return.then(|| leg.agent.name.to_string());
            self.recorded.returned_by = by;
            said = leg.said();
            said.extend(transfer.messages);
            heard = leg.places_of_heard(&said);
            // Messages that this agent did not hear are for the next one.
            unheard = std::mem::take(&mut *leg.steering.lock());
            agent = transfer.to;
            request = transfer.request;
            let entry = Entry::LegStarted {
                leg: number,
                agent: agent.clone(),
                display_name: self.pinned.display_name_of(&agent),
                request: request.clone(),
                messages: said.clone(),
                callers: self.recorded.callers.clone(),
                returned_by: self.recorded.returned_by.clone(),
                heard: heard.clone(),
            };
            self.driver.journal.append(&entry);
            self.driver.journal.change_row(|row| {
                row.agent.clone_from(&agent);
            });
        }
    }

    fn leg(
        &mut self,
        number: u32,
        agent: &str,
        request: Option<String>,
        (said, heard): (&[Arc<Message>], &[u32]),
    ) -> Result<Arc<Leg>, AgentError> {
        let Some(pinned) = self.pinned.agent(agent, self.start.top()) else {
            let message = format!("the pinned team {} has no agent {agent}", self.start.team);
            return Err(AgentError::Failed(message));
        };
        let opening = Opening {
            run: self.run,
            epoch: self.driver.journal.epoch(),
            start: self.start.clone(),
            pinned: self.pinned.clone(),
            agent: pinned,
            registry: self.registry.clone(),
            number,
            history: &self.history,
            request,
            callers: std::mem::take(&mut self.recorded.callers),
            returned_by: self.recorded.returned_by.take(),
            said,
            heard,
            sender: self.driver.sender.clone(),
        };
        Ok(Arc::new(Leg::open(opening, &mut self.recorded)))
    }

    /// Reads the inbox, and recovers the children that no replay begins again.
    async fn before_leg(&mut self, leg: &Arc<Leg>) -> Result<(), RunExit> {
        if !std::mem::take(&mut self.inbox_is_empty) {
            match self.driver.read_inbox().await {
                None => {}
                Some(LegEnd::Cancel { stop, .. }) => self.record_cancel(stop),
                Some(LegEnd::Store(error)) => return Err(RunExit::Store(error)),
                Some(_) => return Err(RunExit::LetGo),
            }
        }
        // A child that the last life recorded may never have begun.
        for run in std::mem::take(&mut self.recorded.outliving) {
            self.driver.ports.tree(self.run, run);
        }
        // A root run that gives up is parked, and its children wait with it.
        let gives_up = self.give_up.is_some() && self.driver.parent.is_some();
        let ending = self.cancelling().is_some() || gives_up;
        let unwanted = std::mem::take(&mut self.recorded.unwanted);
        let beside = std::mem::take(&mut self.recorded.children);
        let all = unwanted.into_iter().map(|child| (child, true));
        for (child, unwanted) in all.chain(beside.into_iter().map(|child| (child, false))) {
            let op = child.op;
            let begun_by_replay = leg.books.lock().recorded.get(&op).is_some_and(|call| {
                Family::of(&call.identity.kind) == Family::Delegate
                    && !call.completed
                    && op.leg == leg.number
            });
            if begun_by_replay && !ending && !unwanted {
                continue;
            }
            let cancel = (unwanted || ending).then(|| "no longer wanted".to_owned());
            self.driver.recover_child(leg, child, cancel, &self.pinned);
        }
        Ok(())
    }

    fn cancelling(&self) -> Option<StopReason> {
        let asked = self.cancel.clone().map(StopReason::Cancelled);
        self.recorded.cancel.clone().or(asked)
    }

    fn record_cancel(&mut self, stop: StopReason) {
        if self.cancelling().is_none() {
            let (reason, stop) = match stop.clone() {
                StopReason::Cancelled(reason) => (reason, None),
                stop => (stop.to_string(), Some(stop)),
            };
            let requested = Entry::CancelRequested { reason, stop };
            self.driver.journal.append(&requested);
            self.driver
                .journal
                .change_row(|row| row.status = RunStatus::Cancelling);
            self.driver.journal.flush();
        }
        self.recorded.cancel.get_or_insert(stop);
    }

    /// Ends a run that is being cancelled or given up, without running its function.
    async fn end_without_running(&mut self, leg: &Arc<Leg>) -> Option<RunExit> {
        if let Some(stop) = self.cancelling() {
            return Some(self.close(leg, stop).await);
        }
        let error = self.give_up.take()?;
        if self.driver.parent.is_none() {
            return Some(self.park(error).await);
        }
        Some(self.finish(leg, Err(error)).await)
    }

    /// Decides after a leg came to rest: go on with the next leg, or rest.
    async fn leg_ended(&mut self, leg: &Arc<Leg>, end: LegEnd) -> Result<Transfer, Box<RunExit>> {
        let end = match end {
            LegEnd::Returned(Ok(outcome)) => LegEnd::Returned(Ok(leg.onward(outcome))),
            end => end,
        };
        let rest = match end {
            LegEnd::Returned(Ok(Outcome::Transfer(transfer))) => {
                match self.refused(leg, &transfer) {
                    None => return Ok(transfer),
                    Some(returned) => self.finish(leg, returned).await,
                }
            }
            LegEnd::Returned(returned) => self.finish(leg, returned).await,
            LegEnd::Diverged(error) => self.park(error).await,
            LegEnd::Cancel { stop, record } => {
                if record {
                    self.record_cancel(stop.clone());
                }
                self.close(leg, stop).await
            }
            LegEnd::Asleep { wake_at, told } => match self.driver.journal.settle().await {
                Ok(()) => RunExit::Asleep { wake_at, told },
                Err(error) => RunExit::Store(error),
            },
            LegEnd::LetGo => RunExit::LetGo,
            LegEnd::Store(error) => RunExit::Store(error),
        };
        Err(Box::new(rest))
    }

    /// Counts a transfer. `Some` is the end of the run if it must not be made.
    fn refused(&mut self, leg: &Leg, transfer: &Transfer) -> Option<Result<Outcome, AgentError>> {
        // The undo steps of this leg remain in force in later legs.
        self.recorded.undo.append(&mut leg.books.lock().undo);
        self.transfers += 1;
        let team = &self.pinned.team;
        let bound = team.max_transfers.unwrap_or(DEFAULT_MAX_TRANSFERS);
        if self.transfers > bound {
            return Some(Ok(Outcome::stopped(StopReason::TransferLimit(bound))));
        }
        if team.find(&transfer.to).is_none() {
            let (from, to) = (&leg.agent.name, &transfer.to);
            let message = format!("agent {from} transfers to {to:?}, which is not in the team");
            return Some(Err(AgentError::Failed(message)));
        }
        None
    }
}

fn exit_of(end: LegEnd) -> RunExit {
    match end {
        LegEnd::Store(error) => RunExit::Store(error),
        _ => RunExit::LetGo,
    }
}

fn note(text: &str) -> Message {
    Message::assistant(format!("[{text}]"))
}
