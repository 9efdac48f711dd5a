//! A run from the end of its journal to its own end, leg after leg.

mod close;
mod end;
mod isolation;

use std::{panic::AssertUnwindSafe, sync::Arc, thread, time::Duration};

use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    ParentSender, Ports, Returned, RunCommands, RunSender,
    driver::{Driver, LegEnd},
    function::{AgentCode, function_of},
    journal::JournalWriter,
    leg::{Leg, Opening},
    leg_start::LegStart,
    load::Recorded,
    operations,
    rehearsal::panic_message,
    run_machine::RunMachine,
};
use crate::{
    contract::{Append, BoxFuture, Claim, Line, RunRow, RunStatus, StoreError},
    definition::Pinned,
    vocabulary::{
        AgentError, Entry, FORMAT, Family, JournalId, Message, Outcome, RunEnd, RunId, RunStart,
        SessionId, SessionTurn, StopReason, Timestamp, Transcript, Transfer, TurnEnd,
    },
};

/// The bound on transfers where a team sets none.
const DEFAULT_MAX_TRANSFERS: u32 = 16;

/// How many characters of its input the index keeps of a run.
const TITLE: usize = 120;

/// A run as read from its journal.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) row: Arc<RunRow>,
    pub(crate) claim: Claim,
    pub(crate) recorded: Recorded,
    pub(crate) pinned: Arc<Pinned>,
    /// The conversation before the run, where it differs from what the session holds now.
    pub(crate) history: Option<Transcript>,
    /// Whether its mailbox is known to have been empty after it was claimed.
    pub(crate) mailbox_is_empty: bool,
}

impl Loaded {
    pub(crate) fn new(
        row: impl Into<Arc<RunRow>>,
        claim: Claim,
        recorded: Recorded,
        pinned: Arc<Pinned>,
    ) -> Self {
        Self {
            row: row.into(),
            claim,
            recorded,
            pinned,
            history: None,
            mailbox_is_empty: false,
        }
    }

    /// A run that begins now: its first entry is all that its journal has.
    pub(crate) fn fresh(row: Arc<RunRow>, start: Arc<RunStart>, pinned: Arc<Pinned>) -> Self {
        let claim = Claim {
            epoch: 1,
            entries: 1,
            ..Claim::default()
        };
        Self::new(row, claim, Recorded::begun(start), pinned)
    }
}

/// Everything that a run needs to go on.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) struct RunTask {
    /// The run as its journal tells it.
    pub loaded: Loaded,
    /// The part of the session's history that belongs to this run.
    pub history: Transcript,
    /// The code behind its names.
    pub code: Arc<dyn AgentCode>,
    /// The ports to the world.
    pub ports: Arc<dyn Ports>,
    /// The run's channel, and a sender to it.
    pub commands: (RunSender, RunCommands),
    /// Fires when an ancestor is cancelled.
    pub cancelled: CancellationToken,
    /// The parent's sender, for a child.
    pub parent: Option<ParentSender>,
    /// The session's journal, for a root run of a session: its entries are written with the
    /// run's last.
    pub session: Option<SessionTail>,
    /// The beginnings of this incarnation of the run.
    pub incarnation: Incarnation,
    /// How long a root run that waits for the outside stays in memory.
    pub linger: Duration,
    /// The bound on the journal's entries.
    pub max_entries: u64,
}

/// The beginnings of a run's incarnation, besides its journal.
#[derive(Debug)]
pub(crate) struct Incarnation {
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
    /// Whether the mailbox is known to be empty. The run is told of every later item.
    pub mailbox_is_empty: bool,
    /// The version of the team's code in this process.
    pub version: u32,
    /// How often the function may crash without getting any further. 0 means no bound.
    pub quarantine_after: u32,
    /// The number of this process.
    pub process: u32,
    /// How many processes may end with the run under way without its getting any further. 0 means no bound.
    pub fatal_after: u32,
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
        /// How.
        how: Arc<RunEnd>,
        /// The end of the turn, as its session records it.
        end: Arc<TurnEnd>,
        /// Whether an earlier incarnation had recorded the end already. A fold of the session that is kept
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
    Parked {
        /// Why.
        reason: AgentError,
        /// The turns that were sent to this run while it was under way, and that it heard.
        heard: Vec<String>,
    },
    /// The host told it to stop in this process, without an end.
    LetGo,
    /// The store failed, or somebody else owns the run.
    Store(StoreError),
    /// Its code panicked, with this message.
    Lost(String),
}

impl RunTask {
    /// Carries the run until it comes to rest; a panic of its code is a rest as well. The future is boxed, since every
    /// future around it would otherwise reserve room for its state again.
    pub(crate) fn carry(self) -> BoxFuture<'static, RunExit> {
        let carrier = Carrier::new(self);
        let carried = async move {
            // The carrier is dropped in here, so that the calls under way are left to others before the rest is told.
            let (Ok(rest) | Err(rest)) = carrier?.carry().await;
            Ok(rest)
        };
        let carried = AssertUnwindSafe(carried).catch_unwind();
        let rest = carried.map(|carried: thread::Result<Rested>| match carried {
            Ok(Ok(rest) | Err(rest)) => rest,
            Err(panic) => RunExit::Lost(panic_message(&*panic)),
        });
        Box::pin(rest)
    }
}

/// How a run came to rest. It is an error where the run was broken off, so that `?` leaves what was
/// to be done for its end.
type Rested = Result<RunExit, RunExit>;

impl From<StoreError> for RunExit {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<LegEnd> for RunExit {
    fn from(end: LegEnd) -> Self {
        match end {
            LegEnd::Store(error) => Self::Store(error),
            _ => Self::LetGo,
        }
    }
}

/// The first entry of a child run, with its row. A child that outlives its parent has a session of
/// its own, whose first entry is added.
pub(crate) fn first_entries(run: RunId, start: &Arc<RunStart>, version: u32) -> Vec<Append> {
    let line = Line::later(start.at, start.clone());
    let mut appends = vec![Append::new(run, 0, 1, vec![line]).row(first_row(run, start, version))];
    if let Some(session) = &start.session {
        let mut turn = SessionTurn::new(run.to_string(), run, start.input.clone());
        turn.owner.clone_from(&start.owner);
        let line = Line::later(start.at, Entry::TurnStarted(Box::new(turn)));
        let journal = JournalId::Session(session.clone());
        appends.push(Append::new(journal, 0, 1, vec![line]));
    }
    appends
}

/// The row of a run that begins now, carried by this version of its team's code.
pub(crate) fn first_row(run: RunId, start: &RunStart, version: u32) -> RunRow {
    // A run that outlives its parent is a root and has no parent in the index.
    let below = start.parent.filter(|_| !start.when_parent_ends.outlives());
    let mut title = start.input.content();
    if let Some((end, _)) = title.char_indices().nth(TITLE) {
        title.truncate(end);
    }
    RunRow {
        run,
        first: None,
        root: start.root,
        parent: below.map(|(parent, _)| parent),
        session: start.session.clone(),
        owner: start.owner.clone(),
        team: start.team.clone(),
        version,
        agent: start.agent.clone(),
        path: start.path.clone(),
        status: RunStatus::Running,
        title,
        wake_at: None,
        started_at: start.at,
        updated_at: start.at,
        asks: Vec::new(),
    }
}

struct Carrier {
    run: RunId,
    start: Arc<RunStart>,
    pinned: Arc<Pinned>,
    history: Transcript,
    code: Arc<dyn AgentCode>,
    recorded: Recorded,
    driver: Driver,
    session: Option<SessionTail>,
    incarnation: Incarnation,
}

impl Carrier {
    fn new(mut task: RunTask) -> Result<Box<Self>, StoreError> {
        let (row, pinned) = (task.loaded.row, task.loaded.pinned);
        let (run, mut recorded) = (row.run, task.loaded.recorded);
        let start = recorded.started(run)?;
        if task.cancelled.is_cancelled() {
            let above = || "cancelled with its parent".to_owned();
            task.incarnation.cancel.get_or_insert_with(above);
        }
        let mut journal = JournalWriter::new(row, task.loaded.claim, task.ports);
        if let Some(tail) = &task.session
            && pinned.team.while_busy.delivers_to(&start)
        {
            journal.mailboxes.push(tail.session.clone().into());
        }
        if let Some(above) = task.parent.as_ref().and_then(ParentSender::words) {
            task.commands.0.words().hear_above(above, &recorded.heard);
        }
        let linger = task.parent.is_none().then_some(task.linger);
        let driver = Driver::new(
            journal,
            task.commands,
            (task.cancelled, task.parent),
            (linger, task.max_entries),
            &pinned.team,
            &mut recorded,
            &start,
        );
        Ok(Box::new(Self {
            run,
            start,
            pinned,
            history: task.history,
            code: task.code,
            recorded,
            driver,
            session: task.session,
            incarnation: task.incarnation,
        }))
    }

    async fn carry(&mut self) -> Rested {
        if let Some(end) = self.recorded.end.take() {
            return Ok(self.ended_before(end));
        }
        if self.incarnation.recovered {
            let interrupted = self.interrupted();
            Box::pin(self.pause_if_suspect(interrupted)).await?;
            let epoch = self.driver.journal.epoch();
            if let Some(reason) = self.incarnation.lost.take() {
                let entry = Entry::Restarted {
                    reason: reason.clone(),
                };
                self.driver.journal.append(entry);
                let times = self.recorded.crashes + 1;
                self.isolate(times, self.incarnation.quarantine_after, reason);
            }
            let was_under_way = self.driver.journal.row.status.is_under_way();
            let entry = Entry::Activated {
                epoch,
                format: FORMAT,
                process: self.incarnation.process,
                interrupted,
            };
            self.driver.journal.append(entry);
            let reason = "the process ended with the run under way".to_owned();
            self.isolate(interrupted, self.incarnation.fatal_after, reason);
            // A write of the last incarnation may be durable although nobody heard of it.
            let scope = operations::run_scope(self.start.root);
            self.driver.ports.forget_state(scope);
            let status = match self.recorded.cancel {
                Some(_) => RunStatus::Cancelling,
                None => RunStatus::Running,
            };
            let row = &self.driver.journal.row;
            let version = row.version.max(self.incarnation.version);
            if (row.status, row.version) != (status, version) {
                self.driver
                    .journal
                    .change_row(|row| (row.status, row.version) = (status, version));
            }
            let told = self.incarnation.when_recovered.take();
            if told.is_some() || was_under_way {
                // A function that ends the process with its first step is counted all the same.
                self.driver.journal.settle().await?;
            } else {
                self.driver.journal.flush();
            }
            if let Some(told) = told {
                // The receiver may be gone.
                let _ = told.send(());
            }
        }
        let mut at = std::mem::take(&mut self.recorded.leg);
        let mut machine = RunMachine::default();
        loop {
            let leg = match self.leg(at, std::mem::take(&mut machine)) {
                Ok(leg) => leg,
                Err(error) => return self.park(error).await,
            };
            self.before_leg(&leg).await?;
            if let Some(stop) = self.cancelling() {
                return Box::pin(self.close(&leg, stop)).await;
            }
            if let Some(error) = self.incarnation.give_up.take() {
                return match self.driver.parent {
                    None => self.park(error).await,
                    Some(_) => self.finish(&leg, Err(error)).await,
                };
            }
            let function = match function_of(&leg, &*self.code) {
                Ok(function) => function,
                Err(missing) => {
                    let reason = format!("agent {} lacks {missing}", leg.agent.name);
                    return self.park(AgentError::Failed(reason)).await;
                }
            };
            let end = self.driver.drive(&leg, function).await;
            at = leg.next(self.leg_ended(&leg, end).await?);
            machine = std::mem::take(&mut *leg.machine());
            let display_name = self.pinned.display_name_of(&at.agent);
            self.driver.journal.append(at.entry(display_name));
            self.driver.journal.change_row(|row| {
                row.agent.clone_from(&at.agent);
            });
        }
    }

    fn leg(&mut self, at: LegStart, before: RunMachine) -> Result<Arc<Leg>, AgentError> {
        let Some(agent) = self.pinned.agent(&at.agent, self.start.top()) else {
            let (team, agent) = (&self.start.team, &at.agent);
            let message = format!("the pinned team {team} has no agent {agent}");
            return Err(AgentError::Failed(message));
        };
        let opening = Opening {
            run: self.run,
            epoch: self.driver.journal.epoch(),
            start: self.start.clone(),
            pinned: self.pinned.clone(),
            agent,
            code: self.code.clone(),
            history: &self.history,
            sender: self.driver.sender.clone(),
        };
        Ok(Arc::new(Leg::open(opening, at, &mut self.recorded, before)))
    }

    /// Reads the mailbox, and recovers the children that no replay begins again.
    async fn before_leg(&mut self, leg: &Leg) -> Result<(), RunExit> {
        if !std::mem::take(&mut self.incarnation.mailbox_is_empty) {
            match self.driver.read_mailbox(leg).await {
                Err(LegEnd::Cancel(stop)) => self.record_cancel(stop),
                read => read?,
            }
        }
        // A child that the last incarnation recorded may never have begun.
        for run in std::mem::take(&mut self.recorded.outliving) {
            self.driver.ports.tree(self.run, run);
        }
        // A root run that gives up is parked, and its children wait with it.
        let gives_up = self.incarnation.give_up.is_some() && self.driver.parent.is_some();
        let ending = self.cancelling().is_some() || gives_up;
        let unwanted = std::mem::take(&mut self.recorded.unwanted);
        let beside = std::mem::take(&mut self.recorded.children);
        let all = unwanted.into_iter().map(|child| (child, true));
        for (child, unwanted) in all.chain(beside.into_iter().map(|child| (child, false))) {
            let op = child.op;
            let begun_by_replay = leg.machine().recorded(op).is_some_and(|call| {
                Family::of(&call.identity.kind) == Family::Delegate
                    && !call.completed
                    && op.leg == leg.number
            });
            if begun_by_replay && !ending && !unwanted {
                continue;
            }
            let cancel = unwanted.then(|| "no longer wanted".to_owned());
            self.driver.recover_child(leg, child, cancel, &self.pinned);
        }
        Ok(())
    }

    fn cancelling(&self) -> Option<StopReason> {
        let asked = self.incarnation.cancel.clone().map(StopReason::Cancelled);
        self.recorded.cancel.clone().or(asked)
    }

    fn record_cancel(&mut self, stop: StopReason) {
        if self.recorded.cancel.is_none() {
            let (reason, stop) = match stop.clone() {
                StopReason::Cancelled(reason) => (reason, None),
                stop => (stop.to_string(), Some(stop)),
            };
            let requested = Entry::CancelRequested { reason, stop };
            self.driver.journal.append(requested);
            self.driver
                .journal
                .change_row(|row| row.status = RunStatus::Cancelling);
        }
        self.recorded.cancel.get_or_insert(stop);
    }

    /// Decides after a leg came to rest: continue with the next leg, or rest.
    async fn leg_ended(&mut self, leg: &Leg, end: LegEnd) -> Result<Transfer, RunExit> {
        let rested = match end {
            LegEnd::Returned(returned) => match returned.map(|outcome| leg.onward(outcome)) {
                Ok(Outcome::Transfer(transfer)) => match self.refused(leg, &transfer) {
                    None => return Ok(transfer),
                    Some(returned) => self.finish(leg, returned).await,
                },
                returned => self.finish(leg, returned).await,
            },
            LegEnd::Diverged(error) => self.park(error).await,
            LegEnd::Cancel(stop) => Box::pin(self.close(leg, stop)).await,
            LegEnd::Asleep { wake_at, told } => {
                self.driver.journal.settle().await?;
                Ok(RunExit::Asleep { wake_at, told })
            }
            LegEnd::LetGo | LegEnd::Store(_) => Err(end.into()),
        };
        Err(rested?)
    }

    /// The end of the run, if a transfer must not be made.
    fn refused(&mut self, leg: &Leg, transfer: &Transfer) -> Option<Returned> {
        // The undo steps of this leg remain in force in later legs.
        self.recorded.undo.append(&mut leg.books.lock().undo);
        let team = &self.pinned.team;
        let bound = team.max_transfers.unwrap_or(DEFAULT_MAX_TRANSFERS);
        if leg.number >= bound {
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

fn note(text: &str) -> Message {
    Message::assistant(format!("[{text}]"))
}
