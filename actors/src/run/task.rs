//! A run from where its journal ends to its own end: leg after leg.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    ChildNews, ChildResult, ChildStart, Command, News, Ports, Registry, RunContext, ToolEnd,
    ToolInvocation,
    driver::{Driver, LegEnd, ParentDoor},
    journal::JournalWriter,
    leg::{Books, CallIdentity, Leg},
    load::Recorded,
};
use crate::{
    contract::{Append, Batch, Claim, Line, RunRow, RunStatus, StoreError},
    definition::Pinned,
    vocabulary::{
        AgentError, Answer, Begun, Entry, ErrorKind, JournalId, Message, OperationError,
        OperationId, Outcome, RunEnd, RunId, RunStart, SessionId, Spent, StopReason, Timestamp,
        ToolResult, ToolStatus, Transcript, Transfer, TurnEnd,
    },
};

/// The reason of a cancellation that the clock asked for.
pub(crate) const DEADLINE: &str = "deadline";

/// The bound on transfers where a team sets none.
const DEFAULT_MAX_TRANSFERS: u32 = 16;

/// All that a run needs to go on.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunTask {
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
    /// The session's history, as far as it belongs to this run.
    pub history: Transcript,
    /// The code behind the names.
    pub registry: Arc<Registry>,
    /// The doors to the world.
    pub ports: Arc<dyn Ports>,
    /// Where the run is told things.
    pub door: (News, mpsc::UnboundedReceiver<Command>),
    /// Fires when an ancestor is cancelled.
    pub cancelled: CancellationToken,
    /// The parent's door, for a child.
    pub parent: Option<ParentDoor>,
    /// The session's journal, for a root run of a session: its entries are written with the
    /// run's last.
    pub session: Option<SessionTail>,
    /// Why the run must end without being run, if it must.
    pub give_up: Option<AgentError>,
    /// Why the run is to be cancelled although its own journal does not say so.
    pub cancel: Option<String>,
    /// Whether this process or actor takes the run up after another.
    pub taken_up: bool,
    /// How long a root run that waits for the outside stays in memory.
    pub linger: Duration,
    /// The bound on the journal's entries.
    pub max_entries: u64,
}

/// Where a session's journal ends.
#[derive(Clone, Debug)]
pub struct SessionTail {
    /// The session.
    pub session: SessionId,
    /// Ownership of its journal.
    pub claim: Claim,
}

/// How a run came to rest.
#[derive(Debug)]
#[non_exhaustive]
pub enum Rest {
    /// It ended, and its end is durable or handed to the parent.
    Ended {
        /// Its outcome.
        outcome: Result<Outcome, AgentError>,
        /// The agent that carried its last leg.
        agent: String,
        /// What was said in it, as the session keeps it.
        messages: Vec<Arc<Message>>,
    },
    /// It goes on in this run's journal.
    Continued(RunId),
    /// All that it waits for is outside.
    Asleep {
        /// When it must be woken.
        wake_at: Option<Timestamp>,
    },
    /// It waits until somebody retries, forks or cancels it.
    Parked(AgentError),
    /// It was told to let go.
    LetGo,
    /// The store failed, or somebody else owns the run.
    Store(StoreError),
}

impl RunTask {
    /// A run that goes on from what is recorded.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        row: RunRow,
        claim: Claim,
        recorded: Recorded,
        pinned: Arc<Pinned>,
        history: Transcript,
        registry: Arc<Registry>,
        ports: Arc<dyn Ports>,
        door: (News, mpsc::UnboundedReceiver<Command>),
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
            taken_up: false,
            linger: Duration::ZERO,
            max_entries: 100_000,
        }
    }

    /// Carries the run until it comes to rest.
    pub async fn carry(self) -> Rest {
        match Carrier::new(self) {
            Ok(carrier) => carrier.carry().await,
            Err(rest) => rest,
        }
    }
}

/// The first entry of a child run, and its row.
pub(crate) fn first_entry(child: &ChildStart, now: Timestamp) -> (Line, RunRow) {
    let mut start = RunStart::clone(&child.start);
    start.at = now;
    let row = row_of(child.run, &start);
    (Line::encode(now, &Entry::RunStarted(Box::new(start))), row)
}

/// The row of a run that begins now.
pub fn row_of(run: RunId, start: &RunStart) -> RunRow {
    let mut row = RunRow::new(run, start.team.clone(), start.agent.clone());
    row.root = start.root;
    row.parent = start.parent.map(|(parent, _)| parent);
    row.session.clone_from(&start.session);
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
    taken_up: bool,
    /// What the run consumed before the current leg.
    spent: Spent,
    transfers: u32,
}

impl Carrier {
    fn new(mut task: RunTask) -> Result<Self, Rest> {
        let Some(start) = task.recorded.start.clone() else {
            return Err(Rest::Store(StoreError::Damaged {
                place: format!("run {}", task.run),
                reason: "its journal does not begin with the run's start".to_owned(),
            }));
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
            team.durability,
            linger,
            task.max_entries,
            team.park_on_drift,
        );
        let wall_time = start
            .budget
            .wall_time()
            .map(|wall_time| start.at.after(wall_time));
        driver.deadline = start.deadline.into_iter().chain(wall_time).min();
        driver.parent = task.parent;
        driver.replay = std::mem::take(&mut task.recorded.deliveries);
        Ok(Self {
            run: task.run,
            start,
            pinned: task.pinned,
            history: task.history,
            registry: task.registry,
            spent: task.recorded.spent,
            transfers: task.recorded.leg,
            recorded: task.recorded,
            driver,
            session: task.session,
            give_up: task.give_up,
            cancel: task.cancel.or(cancelled_above),
            taken_up: task.taken_up,
        })
    }

    async fn carry(mut self) -> Rest {
        if self.recorded.end.is_some() {
            return self.ended_before();
        }
        if self.taken_up {
            let epoch = self.driver.journal.epoch();
            self.driver.journal.append(&Entry::Activated { epoch });
            self.driver
                .journal
                .change_row(|row| row.status = RunStatus::Running);
        }
        let mut number = self.recorded.leg;
        let mut agent = self.recorded.agent.clone();
        let mut request = self.recorded.request.take();
        let mut said = std::mem::take(&mut self.recorded.messages);
        loop {
            let leg = match self.leg(number, &agent, request.take(), &said) {
                Ok(leg) => leg,
                Err(error) => return self.park(error).await,
            };
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
            let cx = RunContext::new(leg.clone());
            let function = Box::pin(async move { behavior.run(cx).await });
            let end = self.driver.drive(&leg, function).await;
            let transfer = match self.leg_ended(&leg, end).await {
                Ok(transfer) => transfer,
                Err(rest) => return *rest,
            };
            number += 1;
            said = leg.said();
            said.extend(transfer.messages);
            agent = transfer.to;
            request = transfer.request;
            let entry = Entry::LegStarted {
                leg: number,
                agent: agent.clone(),
                request: request.clone(),
                messages: said.clone(),
                spent: self.spent,
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
        said: &[Arc<Message>],
    ) -> Result<Arc<Leg>, AgentError> {
        let Some(pinned) = self.pinned.agent(agent) else {
            let message = format!("the pinned team {} has no agent {agent}", self.start.team);
            return Err(AgentError::Failed(message));
        };
        let mut conversation = self.history.clone();
        let history = conversation.len();
        if said.is_empty() {
            conversation.push(self.start.input.clone());
        } else {
            conversation.extend(said.iter().cloned());
        }
        if let Some(request) = &request {
            let text = format!("[You have taken over this conversation. {request}]");
            conversation.push(Message::user(text));
        }
        let books = Books {
            recorded: std::mem::take(&mut self.recorded.calls),
            noted: std::mem::take(&mut self.recorded.noted),
            branches: 1,
            spent: self.spent,
            ..Books::default()
        };
        Ok(Arc::new(Leg {
            run: self.run,
            number,
            start: self.start.clone(),
            agent_name: pinned.spec.name.as_str().into(),
            agent: pinned,
            conversation,
            history,
            request,
            books: Mutex::new(books),
            steering: Mutex::default(),
            taken: Mutex::default(),
            news: self.driver.news.clone(),
        }))
    }

    /// What waits in the inbox, and the children that nobody begins again by replay.
    async fn before_leg(&mut self, leg: &Arc<Leg>) -> Result<(), Rest> {
        match self.driver.read_inbox().await {
            None => {}
            Some(LegEnd::Cancel { reason, .. }) => self.record_cancel(reason),
            Some(LegEnd::Store(error)) => return Err(Rest::Store(error)),
            Some(_) => return Err(Rest::LetGo),
        }
        let cancelling = self.cancelling().is_some();
        let unwanted = std::mem::take(&mut self.recorded.unwanted);
        let beside = std::mem::take(&mut self.recorded.children);
        let all = unwanted.into_iter().map(|child| (child, true));
        for (child, unwanted) in all.chain(beside.into_iter().map(|child| (child, false))) {
            let op = child.op;
            let begun_by_replay = leg.books.lock().recorded.get(&op).is_some_and(|call| {
                call.kind == "delegate" && !call.completed && op.leg == leg.number
            });
            if begun_by_replay && !cancelling && !unwanted {
                continue;
            }
            let cancel = (unwanted || cancelling).then(|| "no longer wanted".to_owned());
            self.driver.take_up_child(leg, child, cancel, &self.pinned);
        }
        Ok(())
    }

    fn cancelling(&self) -> Option<&String> {
        self.recorded.cancel.as_ref().or(self.cancel.as_ref())
    }

    fn record_cancel(&mut self, reason: String) {
        if self.cancelling().is_none() {
            self.driver.journal.append(&Entry::CancelRequested {
                reason: reason.clone(),
            });
            self.driver
                .journal
                .change_row(|row| row.status = RunStatus::Cancelling);
            self.driver.journal.flush();
        }
        self.recorded.cancel.get_or_insert(reason);
    }

    /// Ends a run that is being cancelled or given up, without running its function.
    async fn end_without_running(&mut self, leg: &Arc<Leg>) -> Option<Rest> {
        if let Some(reason) = self.cancelling().cloned() {
            return Some(self.close(leg, reason).await);
        }
        let error = self.give_up.take()?;
        if let Err(end) = self.driver.settle_background(leg).await {
            return Some(rest_of(end));
        }
        let spent = self.recorded.spent_in_all();
        Some(self.end(leg, Err(error), spent, Vec::new()).await)
    }

    /// What to do when a leg came to rest: go on with the next one, or rest.
    async fn leg_ended(&mut self, leg: &Arc<Leg>, end: LegEnd) -> Result<Transfer, Box<Rest>> {
        match end {
            LegEnd::Returned(Ok(Outcome::Transfer(transfer))) => {
                self.spent = leg.books.lock().spent;
                self.transfers += 1;
                let bound = self
                    .pinned
                    .team
                    .max_transfers
                    .unwrap_or(DEFAULT_MAX_TRANSFERS);
                if self.transfers > bound {
                    let outcome = Outcome::stopped(StopReason::TransferLimit(bound));
                    return Err(Box::new(self.finish(leg, Ok(outcome)).await));
                }
                if self.pinned.team.find(&transfer.to).is_none() {
                    let message = format!(
                        "agent {} transfers to {:?}, which is not in the team",
                        leg.agent_name, transfer.to
                    );
                    let error = AgentError::Failed(message);
                    return Err(Box::new(self.finish(leg, Err(error)).await));
                }
                Ok(transfer)
            }
            LegEnd::Returned(returned) => Err(Box::new(self.finish(leg, returned).await)),
            LegEnd::Diverged(error) => Err(Box::new(self.park(error).await)),
            LegEnd::Cancel { reason, record } => {
                if record {
                    self.record_cancel(reason.clone());
                }
                Err(Box::new(self.close(leg, reason).await))
            }
            LegEnd::Asleep { wake_at } => {
                self.driver.journal.flush();
                let entries = self.driver.journal.entries();
                match self.driver.journal.durable.reached(entries).await {
                    Ok(()) => Err(Box::new(Rest::Asleep { wake_at })),
                    Err(error) => Err(Box::new(Rest::Store(error))),
                }
            }
            LegEnd::LetGo => Err(Box::new(Rest::LetGo)),
            LegEnd::Store(error) => Err(Box::new(Rest::Store(error))),
        }
    }

    /// Ends a run whose function returned.
    async fn finish(&mut self, leg: &Arc<Leg>, returned: Result<Outcome, AgentError>) -> Rest {
        if let Err(end) = self.driver.settle_background(leg).await {
            return rest_of(end);
        }
        let spent = leg.books.lock().spent;
        let mut messages = leg.said();
        match &returned {
            Ok(outcome) => {
                if outcome.messages().is_empty() && !outcome.text().is_empty() {
                    let answer = Message::assistant(outcome.text()).by(&*leg.agent_name);
                    messages.push(Arc::new(answer));
                }
                messages.extend(outcome.messages().iter().cloned());
            }
            Err(error) => messages.push(Arc::new(note(&format!("failed: {error}")))),
        }
        self.end(leg, returned, spent, messages).await
    }

    /// Writes the run's last entry, and the session's.
    async fn end(
        &mut self,
        leg: &Arc<Leg>,
        outcome: Result<Outcome, AgentError>,
        spent: Spent,
        mut messages: Vec<Arc<Message>>,
    ) -> Rest {
        if messages.is_empty() {
            messages = leg.said();
            messages.push(Arc::new(note("ended without an answer")));
        }
        if let Ok(Outcome::ContinueAs(input)) = outcome {
            return self.continue_as(*input, spent, &leg.agent_name).await;
        }
        let end = run_end(&outcome, spent);
        self.driver.journal.append(&Entry::RunEnded(Box::new(end)));
        let status = status_of(&outcome);
        self.driver.journal.change_row(|row| {
            (row.status, row.wake_at) = (status, None);
        });
        let mut batch = self.driver.journal.take().unwrap_or_default();
        let result = ChildResult::new(self.run, outcome.clone(), spent);
        if let Some(parent) = self.driver.parent.take() {
            let append = batch.appends.pop().map(Box::new);
            // What the batch takes off the inbox stays there: the run is over, nobody reads it.
            let news = ChildNews::Ended {
                append,
                result: Box::new(result),
            };
            if !parent.tell(self.run, news) {
                return Rest::LetGo;
            }
        } else {
            if let Some(tail) = self.session.take() {
                let mut turn = TurnEnd::new(self.run, &*leg.agent_name, messages.clone());
                turn.spent = spent;
                let entry = Entry::TurnEnded(Box::new(turn));
                let line = Line::encode(self.driver.journal.now(), &entry);
                let journal = JournalId::Session(tail.session);
                let Claim { entries, epoch } = tail.claim;
                let append = Append::new(journal, entries, epoch, vec![line]);
                batch.appends.push(append);
            }
            if let Err(rest) = self.commit_last(batch).await {
                return rest;
            }
        }
        let agent = leg.agent_name.to_string();
        Rest::Ended {
            outcome,
            agent,
            messages,
        }
    }

    async fn continue_as(&mut self, input: Message, spent: Spent, agent: &str) -> Rest {
        let next = self.run.next();
        let now = self.driver.journal.now();
        let mut start = RunStart::clone(&self.start);
        start.input = Arc::new(input);
        start.at = now;
        start.agent = agent.to_owned();
        let row = row_of(next, &start);
        let line = Line::encode(now, &Entry::RunStarted(Box::new(start)));
        let end = RunEnd::Continued { next, spent };
        self.driver.journal.append(&Entry::RunEnded(Box::new(end)));
        self.driver.journal.change_row(|row| {
            (row.status, row.wake_at) = (RunStatus::Continued, None);
        });
        let mut batch = self.driver.journal.take().unwrap_or_default();
        batch
            .appends
            .push(Append::new(next, 0, 1, vec![line]).row(row));
        match self.commit_last(batch).await {
            Ok(()) => Rest::Continued(next),
            Err(rest) => rest,
        }
    }

    async fn commit_last(&mut self, batch: Batch) -> Result<(), Rest> {
        self.driver.journal.commit(batch);
        let entries = self.driver.journal.entries();
        self.driver
            .journal
            .durable
            .reached(entries)
            .await
            .map_err(Rest::Store)
    }

    async fn park(&mut self, reason: AgentError) -> Rest {
        self.driver.journal.append(&Entry::Parked {
            reason: reason.clone(),
        });
        self.driver
            .journal
            .change_row(|row| row.status = RunStatus::Parked);
        self.driver.journal.flush();
        let entries = self.driver.journal.entries();
        match self.driver.journal.durable.reached(entries).await {
            Ok(()) => Rest::Parked(reason),
            Err(error) => Rest::Store(error),
        }
    }

    /// Closes a run that is being cancelled: every open call gets its end, children end first,
    /// then the undo steps run in reverse, then the run ends.
    async fn close(&mut self, leg: &Arc<Leg>, reason: String) -> Rest {
        self.driver.cancelled.cancel();
        self.driver.journal.flush();
        let mut open = self.driver.take_open();
        let recorded: Vec<_> = {
            let books = leg.books.lock();
            let unfinished = books
                .recorded
                .iter()
                .filter(|(_, call)| !call.completed && !call.dropped && call.begun.is_some());
            unfinished.map(|(op, call)| (*op, call.clone())).collect()
        };
        for (op, call) in recorded {
            if open.iter().any(|(id, _)| *id == op) {
                continue;
            }
            let in_doubt = matches!(call.begun, Some(Begun::Effect));
            let error = if in_doubt {
                OperationError::new(
                    ErrorKind::InDoubt,
                    "its start is recorded, its end was never heard of",
                )
            } else {
                interrupted(&reason)
            };
            let identity = CallIdentity {
                kind: "recorded",
                name: call.name,
                digest: call.digest,
            };
            self.close_call(op, identity, call.kind.into(), &error);
        }
        for run in self.driver.children.keys() {
            self.driver.ports.cancel_child(*run, reason.clone());
        }
        let tools = open.extract_if(.., |(_, identity)| identity.kind == "tool");
        let aborts: Vec<_> = tools
            .map(|(op, identity)| (op, identity, self.driver.ports.abort_tool(self.run, op)))
            .collect();
        for (op, identity) in open {
            let kind = identity.kind.into();
            self.close_call(op, identity, kind, &interrupted(&reason));
        }
        for (op, identity, abort) in aborts {
            let end = abort.await;
            self.close_tool(op, identity, end, &reason);
        }
        self.driver.journal.flush();
        if let Err(end) = self.driver.settle_background(leg).await {
            return rest_of(end);
        }
        self.undo(leg).await;
        let spent = if leg.books.lock().spent == Spent::default() {
            self.recorded.spent_in_all()
        } else {
            leg.books.lock().spent
        };
        let mut messages = leg.said();
        let stop = if reason == DEADLINE {
            StopReason::Deadline
        } else {
            StopReason::Cancelled(reason)
        };
        messages.push(Arc::new(note(&stop.to_string())));
        self.end(leg, Ok(Outcome::stopped(stop)), spent, messages)
            .await
    }

    fn close_call(
        &mut self,
        op: OperationId,
        identity: CallIdentity,
        kind: std::borrow::Cow<'static, str>,
        error: &OperationError,
    ) {
        let result: Result<(), &OperationError> = Err(error);
        if let Ok(result) = serde_json::value::to_raw_value(&result) {
            let CallIdentity { name, digest, .. } = identity;
            self.driver.journal.append(&Entry::Completed {
                op,
                kind,
                name,
                digest,
                result,
            });
        }
    }

    fn close_tool(
        &mut self,
        op: OperationId,
        identity: CallIdentity,
        end: Option<ToolEnd>,
        reason: &str,
    ) {
        let result: Result<ToolResult, OperationError> = match end {
            Some(ToolEnd::Result(result)) => Ok(result),
            Some(ToolEnd::InDoubt(why)) => Err(OperationError::new(ErrorKind::InDoubt, why)),
            _ => Err(interrupted(reason)),
        };
        if let Ok(result) = serde_json::value::to_raw_value(&result) {
            let CallIdentity { kind, name, digest } = identity;
            let entry = Entry::Completed {
                op,
                kind: kind.into(),
                name,
                digest,
                result,
            };
            self.driver.journal.append(&entry);
        }
    }

    /// Calls the tools that undo what was done, the latest first.
    async fn undo(&mut self, leg: &Arc<Leg>) {
        let mut steps = std::mem::take(&mut self.recorded.undo);
        steps.append(&mut leg.books.lock().undo);
        for (number, (_, call)) in steps.into_iter().rev().enumerate() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let op = OperationId {
                leg: u32::MAX,
                branch: 0,
                number,
            };
            let done = leg
                .books
                .lock()
                .recorded
                .get(&op)
                .is_some_and(|call| call.completed);
            let Some(definition) = self.pinned.tools.get(&call.name).filter(|_| !done).cloned()
            else {
                continue;
            };
            let digest = super::operations::tool_digest(&call.name, call.arguments.text()).into();
            let (kind, name) = ("tool", call.name.clone());
            let begun = Begun::Effect;
            let started = Entry::Started {
                op,
                kind: kind.into(),
                name,
                digest,
                begun,
            };
            self.driver.journal.append(&started);
            self.driver.journal.flush();
            let entries = self.driver.journal.entries();
            if self.driver.journal.durable.reached(entries).await.is_err() {
                return;
            }
            let invocation = ToolInvocation {
                run: self.run,
                root: self.start.root,
                operation: op,
                agent: leg.agent_name.clone(),
                call: call.clone(),
                definition,
                deadline: None,
            };
            let end = match self.driver.ports.tool(invocation).await {
                ToolEnd::Result(result) => ToolEnd::Result(result),
                ToolEnd::InDoubt(why) => ToolEnd::InDoubt(why),
                ToolEnd::Later | ToolEnd::DidNotHappen => ToolEnd::Result(ToolResult::new(
                    &call,
                    ToolStatus::Unknown,
                    "no end was heard",
                )),
            };
            let identity = CallIdentity {
                kind,
                name: call.name,
                digest,
            };
            self.close_tool(op, identity, Some(end), "undo");
        }
    }

    fn ended_before(&mut self) -> Rest {
        let agent = self.recorded.agent.clone();
        let end = self.recorded.end.take();
        match end {
            Some(RunEnd::Continued { next, .. }) => Rest::Continued(next),
            Some(end) => {
                let spent = end.spent();
                let outcome = end
                    .outcome()
                    .unwrap_or_else(|| Err(AgentError::Failed("the run has no outcome".into())));
                if let Some(parent) = self.driver.parent.take() {
                    let result = ChildResult::new(self.run, outcome.clone(), spent);
                    let news = ChildNews::Ended {
                        append: None,
                        result: Box::new(result),
                    };
                    parent.tell(self.run, news);
                }
                Rest::Ended {
                    outcome,
                    agent,
                    messages: Vec::new(),
                }
            }
            None => Rest::LetGo,
        }
    }
}

fn rest_of(end: LegEnd) -> Rest {
    match end {
        LegEnd::Store(error) => Rest::Store(error),
        _ => Rest::LetGo,
    }
}

fn interrupted(reason: &str) -> OperationError {
    OperationError::new(ErrorKind::Cancelled, format!("interrupted: {reason}"))
}

fn note(text: &str) -> Message {
    Message::assistant(format!("[{text}]"))
}

fn status_of(outcome: &Result<Outcome, AgentError>) -> RunStatus {
    match outcome {
        Ok(Outcome::Stopped {
            reason: StopReason::Cancelled(_),
            ..
        }) => RunStatus::Cancelled,
        Ok(Outcome::Stopped { .. }) => RunStatus::Stopped,
        Ok(_) => RunStatus::Answered,
        Err(_) => RunStatus::Failed,
    }
}

fn run_end(outcome: &Result<Outcome, AgentError>, spent: Spent) -> RunEnd {
    match outcome {
        Ok(Outcome::Answer(answer)) => RunEnd::Answered {
            answer: answer.clone(),
            spent,
        },
        Ok(Outcome::Stopped { reason, partial }) => RunEnd::Stopped {
            reason: reason.clone(),
            partial: partial.clone(),
            spent,
        },
        Ok(other) => RunEnd::Answered {
            answer: Answer::text(other.text()),
            spent,
        },
        Err(error) => RunEnd::Failed {
            error: error.clone(),
            spent,
        },
    }
}
