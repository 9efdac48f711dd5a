//! Delivery: the loop that polls an agent's function, begins its operations, and gives it their
//! results one at a time, in the journal's order, live and in replay alike.

mod begin;
mod charging;
mod children;
mod commands;
mod dropping;
mod idling;
mod mailbox;
mod patience;
pub(super) mod waker;
mod writing;

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

pub(super) use patience::not_asked;
use waker::{Function, FunctionWaker, Step, step_back};

use super::{
    AgentFunction, ChildStart, Command, Idleness, ParentSender, Ports, Returned, RunCommands,
    RunSender, ToolEnd,
    completed::{End, Made},
    future_set::FutureSet,
    journal::JournalWriter,
    ledger::Ledger,
    leg::{About, Leg},
    load::{Recorded, RecordedDelivery},
    operation::{Attempt, Begin, Changes, Delivery},
    ports::StateLock,
    run_machine::{Call, Next},
};
use crate::{
    contract::{BoxFuture, StoreError, pause_until},
    definition::TeamSpec,
    vocabulary::{
        AgentError, Digest, Entry, Family, JournalId, OperationError, OperationId, RunId, RunStart,
        Spent, StopReason, Timestamp,
    },
};

/// How many rounds of the loop a run makes in a row before it lets other tasks run.
const ROUNDS: u32 = 64;

/// How a leg's function came to rest.
pub(crate) enum LegEnd {
    /// It returned.
    Returned(Returned),
    /// All that the run waits for is outside, and nothing came for a while.
    Asleep {
        wake_at: Option<Timestamp>,
        told: u64,
    },
    /// It asked for another operation than the recorded one.
    Diverged(AgentError),
    /// It is to be cancelled, with this reason as its end.
    Cancel(StopReason),
    /// The host told the run to stop in this process, without an end.
    LetGo,
    /// The store failed, or somebody else owns the run.
    Store(StoreError),
}

/// A child run that is not known to have ended.
pub(crate) struct LiveChild {
    op: OperationId,
    /// How long it waits for the outside, if it does nothing else.
    idle: Option<Idleness>,
    /// Why it is being cancelled, if it is.
    cancel: Option<String>,
    /// Whether it hears what people say to this run.
    hears: bool,
}

impl LiveChild {
    fn new(op: OperationId, cancel: Option<String>) -> Self {
        Self {
            op,
            idle: None,
            cancel,
            hears: false,
        }
    }
}

/// Drives one run. It outlives the legs.
pub(crate) struct Driver {
    pub(crate) journal: JournalWriter,
    pub(crate) ports: Arc<dyn Ports>,
    pub(crate) sender: RunSender,
    pub(crate) commands: RunCommands,
    /// Fires when the run or an ancestor is cancelled.
    pub(crate) cancelled: CancellationToken,
    /// A token below that one, which gives up its room for the tokens of operations when none is left below it.
    _below: CancellationToken,
    pub(crate) deadline: Option<Timestamp>,
    /// The books of the run's budget.
    pub(crate) ledger: Ledger,
    /// The shares of a bound, in percent, at which observers are warned.
    warn_at: Vec<u8>,
    /// When the next warning about wall time is due.
    wall_time_warning: Option<Timestamp>,
    /// Children that outlive this run's end, but not its cancellation.
    pub(crate) continuing: Vec<RunId>,
    /// How many of the last entries need not be durable when something outside begins.
    window: u64,
    /// How long a run that waits for the outside stays in memory. `None` is for ever, as for a
    /// child, whose root decides.
    linger: Option<Duration>,
    max_entries: u64,
    park_on_drift: bool,
    /// The parent's sender, for a child.
    pub(crate) parent: Option<ParentSender>,
    pub(crate) children: BTreeMap<RunId, LiveChild>,
    acts: FutureSet<Acting>,
    /// The ends of calls whose results are not wanted any more, and the children that begin as soon as their record
    /// is durable. The run waits for them, even when it is cancelled.
    background: FutureSet<BoxFuture<'static, Option<Box<ChildStart>>>>,
    /// The mailboxes that it reads, each with the mark of the last item that was read there.
    read: Vec<(JournalId, u64)>,
    /// The turns that were sent to the run while it was under way, and that it heard.
    pub(crate) heard: Vec<String>,
    /// How long the run waits for the outside, as the parent and the index know it. `None` means that the run is at work.
    told_idle: Option<Idleness>,
}

/// A future that the driver polls beside the function, for this operation.
struct Acting(OperationId, Work);

enum Work {
    Act(BoxFuture<'static, Option<Begin<Made>>>),
    Other(BoxFuture<'static, ActEvent>),
}

impl Future for Acting {
    type Output = (OperationId, ActEvent);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let event = match &mut self.1 {
            Work::Act(act) => {
                ready!(act.poll_unpin(cx)).map_or(ActEvent::Cancelled, ActEvent::Over)
            }
            Work::Other(other) => ready!(other.poll_unpin(cx)),
        };
        Poll::Ready((self.0, event))
    }
}

/// Its news.
enum ActEvent {
    /// An act is over, and its operation goes on.
    Over(Begin<Made>),
    /// An attempt to change shared state, and how to make another.
    Attempted(Box<Attempted>, Attempt<Made>, StateLock),
    /// A cancelled tool call can do nothing more.
    Aborted(Option<ToolEnd>),
    /// The act was cancelled, and nobody waits for it.
    Cancelled,
}

/// A decided change of shared state, with the end of its operation.
type Attempted = Result<(Made, Changes), OperationError>;

/// The cause of a round of the loop.
enum WakeReason {
    Woken,
    Act(OperationId, ActEvent),
    Background(Option<Box<ChildStart>>),
    Command(Option<Command>),
    Timer,
    WallTimeWarning,
    Deadline,
    Linger,
    Failed(StoreError),
}

impl Driver {
    /// A driver that goes on from what earlier lives of the run recorded.
    pub(crate) fn new(
        journal: JournalWriter,
        (sender, commands): (RunSender, RunCommands),
        (cancelled, parent): (CancellationToken, Option<ParentSender>),
        (linger, max_entries): (Option<Duration>, u64),
        team: &TeamSpec,
        recorded: &mut Recorded,
        start: &RunStart,
    ) -> Self {
        let warn_at = team.budget_warnings().to_vec();
        let ledger = std::mem::take(&mut recorded.ledger);
        Self {
            ports: journal.ports.clone(),
            read: journal.mailboxes.iter().map(|it| (it.clone(), 0)).collect(),
            journal,
            sender,
            commands,
            _below: cancelled.child_token(),
            cancelled,
            deadline: start.ends_by(),
            wall_time_warning: ledger.wall_time_warning(&warn_at, start.at),
            ledger,
            warn_at,
            continuing: std::mem::take(&mut recorded.continuing),
            window: team.durability.window(),
            linger,
            max_entries,
            park_on_drift: team.park_on_drift,
            parent,
            children: BTreeMap::new(),
            acts: FutureSet::default(),
            background: FutureSet::default(),
            heard: std::mem::take(&mut recorded.heard),
            told_idle: None,
        }
    }

    /// Drives one leg's function until it comes to rest.
    pub(crate) async fn drive(&mut self, leg: &Arc<Leg>, function: AgentFunction) -> LegEnd {
        let mut function = Function::new(function);
        let (Ok(end) | Err(end)) = self.drive_on(leg, &mut function).await;
        self.tell_at_work();
        // The engine drops the function here, so the operations that it drops are not recorded.
        let left = leg.machine().detach();
        drop((function, left));
        end
    }

    /// Drives the function until it returns. An end of the leg before that is an error.
    async fn drive_on(
        &mut self,
        leg: &Arc<Leg>,
        function: &mut Function,
    ) -> Result<LegEnd, LegEnd> {
        let waker = function.waker();
        let mut rounds: u32 = 0;
        loop {
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(ROUNDS) {
                step_back().await;
            }
            if self.cancelled.is_cancelled() {
                return Box::pin(self.hear_of_cancelling(leg)).await;
            }
            if waker.is_woken() && function.may_go_on(leg) {
                // A call that blocks its thread may be next on it. Another thread takes this task
                // then, before the function can yield to that call.
                step_back().await;
            }
            match function.step(leg, || self.after_poll(leg)).await? {
                Step::Again => continue,
                Step::Returned(returned) => return Ok(LegEnd::Returned(returned)),
                Step::Diverged(error) => return Err(LegEnd::Diverged(error)),
                Step::Rests(Next::Deliver(next)) => {
                    self.deliver_recorded(leg, next).await?;
                    continue;
                }
                Step::Rests(Next::NotAsked) => {
                    let may_go_on = function.may_go_on(leg);
                    Box::pin(self.bear_with(leg, &waker, may_go_on)).await?;
                    continue;
                }
                Step::Rests(Next::Live) => {}
            }
            self.warn_of_entries();
            self.begin_all(leg).await;
            self.overdue(leg)?;
            if self.end_next(leg) || waker.comes_first() {
                continue;
            }
            let idle = self.settle_idle(leg);
            let wake = self.next_wake(leg, &waker, idle).await;
            self.handle_wake(leg, wake).await?;
        }
    }

    /// Writes the function's notes and dropped operations. An error when the function diverged.
    fn after_poll(&mut self, leg: &Leg) -> Result<(), LegEnd> {
        let Some((notes, dropped, end)) = leg.machine().take_noted() else {
            return Ok(());
        };
        for (op, call) in dropped {
            self.drop_operation(leg, op, call);
        }
        for note in notes {
            match &note {
                Entry::Drifted {
                    op,
                    recorded,
                    found,
                } => {
                    if self.park_on_drift {
                        let recorded = format!("a model request with digest {recorded}");
                        let found = format!("one with digest {found}");
                        return Err(LegEnd::Diverged(AgentError::diverged(*op, recorded, found)));
                    }
                    if !leg.machine().drifts(*op, *found) {
                        continue;
                    }
                }
                Entry::CallAnswered {
                    op, result, call, ..
                } => {
                    leg.tell_unattempted(self.journal.now(), *op, result, call);
                }
                Entry::Heard { op, .. } => self.acknowledge_heard(leg, *op, true),
                _ => {}
            }
            self.journal.append(note);
        }
        match end {
            Some(error @ AgentError::Diverged { .. }) => Err(LegEnd::Diverged(error)),
            _ => Ok(()),
        }
    }

    /// Gives the function a recorded result.
    async fn deliver_recorded(&mut self, leg: &Leg, next: RecordedDelivery) -> Result<(), LegEnd> {
        if let Some(digest) = leg.content_of(&next) {
            bring_content(self.ports.clone(), leg, next.op, digest).await?;
        }
        leg.deliver(next.op, Delivery::Recorded(next.result));
        Ok(())
    }

    /// Records an operation's end and gives it to the function.
    fn complete(&mut self, leg: &Leg, op: OperationId, made: End) {
        self.complete_with(leg, op, made, None);
    }

    /// Records the end of an operation that consumed this much, or else as much as its output says. Without either its
    /// consumption is not known.
    fn complete_with(&mut self, leg: &Leg, op: OperationId, mut made: End, spent: Option<Spent>) {
        let Some(call) = self.end(leg, op) else {
            return;
        };
        if let Ok(made) = &mut made {
            if Family::of(&call.identity.kind) == Family::Model
                && let Some(answer) = made.output_mut()
            {
                leg.add_words(op, answer);
            }
            (call.reckon)(made);
        }
        let made_of = made.as_ref().ok().map(|made| made.spent);
        let spent = spent.or(made_of).unwrap_or_else(|| call.charge());
        let About { told, report } = leg.take_about(op);
        told.into_iter()
            .for_each(|entry| self.journal.append(entry));
        let recorded = self
            .journal
            .append_completed(op, call.identity, &mut made, spent, report);
        self.acknowledge_heard(leg, op, recorded.is_ok());
        self.charge(spent);
        leg.deliver(op, delivery(recorded, made));
    }

    /// Takes an operation whose end is being recorded.
    fn end(&mut self, leg: &Leg, op: OperationId) -> Option<Call> {
        let mut call = leg.machine().end(op)?;
        self.acknowledge_items(op, &mut call);
        self.goes_on();
        Some(call)
    }

    /// Acknowledges the mailbox items with which the end of an operation deals.
    fn acknowledge_items(&mut self, op: OperationId, call: &mut Call) {
        for item in call.items.drain(..) {
            self.journal.acknowledge(item);
        }
        self.journal.asks_no_more(op);
    }

    /// Writes the emissions of interceptors about a call, before its end.
    pub(crate) fn write_emissions(&mut self, leg: &Leg, op: OperationId) {
        let told = leg.take_emissions(op);
        told.into_iter()
            .for_each(|entry| self.journal.append(entry));
    }

    /// Handles an event. An error when it ends the leg.
    async fn handle_wake(&mut self, leg: &Leg, reason: WakeReason) -> Result<(), LegEnd> {
        match reason {
            WakeReason::Woken | WakeReason::Background(None) => {}
            WakeReason::Background(Some(start)) => self.start_child(*start),
            WakeReason::Act(op, event) => self.act_event(leg, op, event).await?,
            WakeReason::Timer => {
                let clock = self.ports.clock();
                let due = leg.machine().alarm(clock.now(), clock.forward());
                if let Some(action) = due {
                    self.carry_out(leg, action);
                }
            }
            WakeReason::WallTimeWarning => self.warn_of_wall_time(leg.start.at),
            WakeReason::Deadline => self.overdue(leg)?,
            WakeReason::Linger => self.falls_asleep(leg)?,
            WakeReason::Failed(error) => return Err(LegEnd::Store(error)),
            // Few runs get commands, and those that get none keep no room for them.
            WakeReason::Command(command) => Box::pin(self.command(leg, command)).await?,
        }
        Ok(())
    }

    /// Waits for the next event. An event that is ready is taken before anything is committed, so
    /// entries gather while the run need not wait.
    async fn next_wake(&mut self, leg: &Leg, waker: &FunctionWaker, idle: bool) -> WakeReason {
        let ready = std::future::poll_fn(|cx| Poll::Ready(self.poll_wake(cx, waker))).await;
        if let Poll::Ready(reason) = ready {
            return reason;
        }
        self.journal.flush();
        let clock = self.ports.clock();
        let linger = self.lingers().filter(|_| idle);
        let linger = linger.map(|linger| clock.sleep(linger));
        let (timer, pause) = leg.machine().first_times();
        let pause = pause.map(|at| pause_until(&**clock, at));
        let alarm = |at: Option<Timestamp>| at.map(|at| clock.sleep_until(at));
        let mut deadline = alarm(self.deadline);
        let mut alarms = [alarm(timer), pause, alarm(self.wall_time_warning), linger];
        std::future::poll_fn(|cx| {
            if let Poll::Ready(error) = self.journal.durable.poll_failed(cx) {
                return Poll::Ready(WakeReason::Failed(error));
            }
            // An operation that ends at the deadline comes too late: a child and a call have the
            // same deadline as the run, and their ends must not let the function go on.
            if rings(&mut deadline, cx) {
                return Poll::Ready(WakeReason::Deadline);
            }
            if let Poll::Ready(wake) = self.poll_wake(cx, waker) {
                return Poll::Ready(wake);
            }
            for (alarm, reason) in alarms.iter_mut().zip([
                WakeReason::Timer,
                WakeReason::Timer,
                WakeReason::WallTimeWarning,
                WakeReason::Linger,
            ]) {
                if rings(alarm, cx) {
                    return Poll::Ready(reason);
                }
            }
            match waker.is_woken() {
                true => Poll::Ready(WakeReason::Woken),
                false => Poll::Pending,
            }
        })
        .await
    }

    fn poll_wake(&mut self, cx: &mut Context<'_>, waker: &FunctionWaker) -> Poll<WakeReason> {
        let reason = self.poll_news(cx, waker);
        if reason.is_ready() {
            // The driver is awake, so a result that wakes the function need not wake the driver: a
            // task that is woken while it runs is run once more for nothing, by another thread.
            waker.driver.take();
        }
        reason
    }

    fn poll_news(&mut self, cx: &mut Context<'_>, waker: &FunctionWaker) -> Poll<WakeReason> {
        if let Poll::Ready(error) = self.journal.durable.poll_failed(cx) {
            return Poll::Ready(WakeReason::Failed(error));
        }
        if let Poll::Ready(command) = self.commands.poll_next(cx) {
            return Poll::Ready(WakeReason::Command(command));
        }
        waker.driver.register(cx.waker());
        if waker.comes_first() {
            return Poll::Ready(WakeReason::Woken);
        }
        if let Poll::Ready((op, event)) = self.acts.poll(cx) {
            return Poll::Ready(WakeReason::Act(op, event));
        }
        // Acts come first: the driver lets a call go before the call is aborted.
        self.background.poll(cx).map(WakeReason::Background)
    }

    async fn act_event(
        &mut self,
        leg: &Leg,
        op: OperationId,
        event: ActEvent,
    ) -> Result<(), LegEnd> {
        match event {
            // Its result is not wanted any more.
            _ if leg.machine().call(op).is_none() => {}
            ActEvent::Cancelled => {}
            ActEvent::Aborted(end) => self.aborted(leg, op, end),
            ActEvent::Attempted(attempted, attempt, lock) => {
                Box::pin(self.write(leg, op, *attempted, (attempt, lock))).await?;
            }
            ActEvent::Over(Begin::Ready(Err(error))) if Self::passes(&error) => {
                return Err(LegEnd::Store(self.unfinished(op, error)));
            }
            ActEvent::Over(Begin::Ready(made)) => self.complete(leg, op, made),
            ActEvent::Over(Begin::Deferred(deferred)) => {
                self.complete(leg, op, (deferred.make)());
            }
            ActEvent::Over(begin) => {
                if matches!(begin, Begin::Wait(_)) {
                    // The end that would write them may come much later, in another incarnation of the run.
                    self.write_emissions(leg, op);
                }
                self.go_on(leg, op, begin, leg.begun(op));
            }
        }
        Ok(())
    }
}

/// Whether the time of this alarm has come.
fn rings(alarm: &mut Option<BoxFuture<'_, ()>>, cx: &mut Context<'_>) -> bool {
    let alarm = alarm.as_mut();
    alarm.is_some_and(|alarm| alarm.poll_unpin(cx).is_ready())
}

/// The delivery of a completed operation to the function.
fn delivery(recorded: Result<(), OperationError>, made: End) -> Delivery {
    Delivery::Live(recorded.and(made).map(Made::into_output))
}

/// Puts the content to which a recorded result refers where the function finds it.
async fn bring_content(
    ports: Arc<dyn Ports>,
    leg: &Leg,
    op: OperationId,
    digest: Digest,
) -> Result<(), LegEnd> {
    match ports.store().blob(digest).await.map_err(LegEnd::Store)? {
        Some(content) => {
            leg.books.lock().contents.insert(op, content);
            Ok(())
        }
        None => Err(LegEnd::Store(StoreError::Damaged {
            place: format!("operation {op} of run {}", leg.run),
            reason: format!("the blob {digest}, which it loaded, is not there"),
        })),
    }
}
