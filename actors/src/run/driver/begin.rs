//! How operations begin.

use std::{mem::discriminant, pin::pin, sync::Arc};

use tokio_util::sync::CancellationToken;

use super::{ActEvent, Driver, InFlight, LiveChild};
use crate::{
    definition::Pinned,
    run::{
        ChildStart, WaitFor,
        ledger::Part,
        leg::{CallIdentity, Leg},
        load::RecordedChild,
        operation::{
            Act, Arrival, Begin, Child, ErasedOperation, Gate, Made, OperationContext, Wait, Write,
        },
        task,
    },
    vocabulary::{
        Begun, Budget, Entry, ErrorKind, Family, OperationError, OperationId, ParentPolicy,
        Resource, RunId, RunStart, StopReason,
    },
};

/// One of the equal parts of the remaining budget. The children that begin together share it, and
/// so does the function if it goes on beside them.
fn equal_part(leg: &Leg, awaited: bool) -> Part {
    let books = leg.books.lock();
    let calls = books.to_begin.iter().map(|(_, identity, ..)| identity);
    let beside = calls.filter(|call| Family::of(&call.kind).has_child());
    Part::Equal(1 + beside.count() as u64 + u64::from(!awaited))
}

impl Driver {
    pub(super) async fn begin_all(&mut self, leg: &Arc<Leg>) {
        let overdue = self.overdue(leg).is_err();
        loop {
            if self.cancelled.is_cancelled() {
                // Nothing new starts: the command that cancels the run is on its way.
                break;
            }
            let next = leg.books.lock().to_begin.pop_front();
            let Some((op, identity, resource, operation)) = next else {
                break;
            };
            // Past the deadline nothing new starts. A child that exists must still be known, so
            // that it can be ended.
            if overdue && !matches!(leg.begun(op), Some(Begun::Child(_))) {
                continue;
            }
            let over = match resource {
                Some(resource) => self.over_budget(resource),
                // An operation that has begun must be known, so that it can come to its end.
                None => self.full().filter(|_| leg.begun(op).is_none()),
            };
            if let Some(over) = over {
                let message = format!("{}", StopReason::BudgetExhausted(over));
                let error = OperationError::new(ErrorKind::Budget(over), message);
                let cancelled = CancellationToken::new();
                self.under
                    .insert(op, InFlight::new(identity, cancelled, None));
                self.ready.push_back((op, Box::new(|| Err(error))));
                continue;
            }
            self.begin(leg, op, (identity, resource), operation);
        }
    }

    /// `Some` when the journal has as many entries as it may have.
    fn full(&self) -> Option<Resource> {
        (self.journal.entries() >= self.max_entries).then_some(Resource::Entries)
    }

    pub(super) fn over_budget(&self, resource: Resource) -> Option<Resource> {
        if let Some(full) = self.full() {
            return Some(full);
        }
        // Calls that are under way count as made.
        let under_way = self.under.values().filter(|u| u.resource == Some(resource));
        self.ledger.exhausted(resource, under_way.count() as u64)
    }

    pub(super) fn begin(
        &mut self,
        leg: &Arc<Leg>,
        op: OperationId,
        (identity, resource): (CallIdentity, Option<Resource>),
        operation: ErasedOperation,
    ) {
        self.commands.begins_after(self.journal.entries());
        let cancelled = self.cancelled.child_token();
        let started = leg.begun(op);
        let cx = OperationContext {
            id: op,
            run: leg.run,
            digest: identity.digest.clone(),
            ports: self.ports.clone(),
            cancelled: cancelled.clone(),
            started: started.clone(),
            allowance: self.ledger.allowance(),
            durable: self.journal.durable.clone(),
            leg: leg.clone(),
        };
        let under = InFlight::new(identity, cancelled.clone(), resource);
        self.under.insert(op, under);
        self.go_on(leg, op, operation(cx), started);
    }

    /// Lets an operation go on, which an earlier incarnation may have begun already.
    pub(super) fn go_on(
        &mut self,
        leg: &Leg,
        op: OperationId,
        begin: Begin<Made>,
        started: Option<Begun>,
    ) {
        match begin {
            Begin::Ready(result) => self.ready.push_back((op, Box::new(|| result))),
            Begin::Deferred(make) => self.ready.push_back((op, make)),
            Begin::Act(act) => self.begin_act(op, act, started == Some(Begun::Effect)),
            Begin::Wait(wait) => self.begin_wait(op, wait, started),
            Begin::Write(write) => self.attempt(op, write),
            Begin::Child(child) => {
                let equal = || equal_part(leg, child.awaited);
                let part = child.share.map_or_else(equal, Part::Percent);
                self.begin_child(op, child, part, started);
            }
        }
    }

    pub(super) fn record_start(&mut self, op: OperationId, begun: Begun) {
        let Some(under) = self.under.get(&op) else {
            return;
        };
        if matches!(begun, Begun::Question(_)) {
            self.journal.asks(op);
        }
        let entry = under.identity.clone().started(op, begun);
        self.journal.append(entry);
    }

    /// Begins an act outside of the process.
    fn begin_act(&mut self, op: OperationId, act: Act<Made>, started: bool) {
        let (record_start, gate, future) = (act.record_start, act.gate, act.future);
        let Some(under) = self.under.get_mut(&op) else {
            return;
        };
        under.once = record_start;
        let cancelled = under.cancelled.clone();
        if record_start && !started {
            self.record_start(op, Begun::Effect);
        }
        let window = if record_start { 0 } else { self.window };
        if gate == Gate::After {
            // The entries for which its result waits are committed while the act is under way.
            self.journal.flush();
        }
        let durable = self.journal.durable.clone();
        let mark = self.journal.entries().saturating_sub(window);
        self.acts.push(Box::pin(async move {
            // Pinned here: what is moved into another future has its room twice.
            let gated = pin!(async move {
                if gate == Gate::Before {
                    durable.passed(mark).await;
                    if durable.confirm().await.is_err() {
                        // The driver hears of the failure by itself and ends everything.
                        return std::future::pending().await;
                    }
                }
                let begin = future.await;
                if gate == Gate::After {
                    durable.passed(mark).await;
                }
                begin
            });
            let over = cancelled.run_until_cancelled(gated).await;
            (op, over.map_or(ActEvent::Cancelled, ActEvent::Over))
        }));
    }

    fn attempt(&mut self, op: OperationId, write: Write<Made>) {
        if let Some(under) = self.under.get_mut(&op) {
            under.unsaved = write.unsaved;
        }
        let (scope, key) = write.place;
        let turn = self.ports.state_turn(scope, key);
        self.make_attempt(op, write.attempt, turn);
    }

    fn begin_wait(&mut self, op: OperationId, wait: Wait<Made>, started: Option<Begun>) {
        let (begun, timer) = match &wait.wait_for {
            WaitFor::Answer(question) => {
                (Some(Begun::Question(question.clone())), question.expires)
            }
            WaitFor::Result => (Some(Begun::Ticket), None),
            WaitFor::Timer(at) => (Some(Begun::Timer(*at)), Some(*at)),
            WaitFor::Message(_) => (None, None),
            WaitFor::Child { run, .. } if !self.children.contains_key(run) => {
                let run = *run;
                return self.join_ended(op, run, wait);
            }
            WaitFor::Child { .. } => (None, None),
        };
        // A wait that follows an effect is recorded too. The same wait is recorded only once.
        if let Some(begun) = begun
            && started.is_none_or(|started| discriminant(&started) != discriminant(&begun))
        {
            self.record_start(op, begun);
        }
        self.waits.insert(op, wait, timer);
        self.mailbox.awaited(op);
    }

    /// Waits for a child that has ended. The child's journal holds its outcome.
    fn join_ended(&mut self, op: OperationId, run: RunId, wait: Wait<Made>) {
        let outcome = self.ports.outcome(run);
        // If the child ended just now, its end becomes durable with this run's record of it.
        let (durable, mark) = (self.journal.durable.clone(), self.journal.entries());
        self.acts.push(Box::pin(async move {
            durable.passed(mark).await;
            let arrival = outcome.await.map(|end| Arrival::Child(Box::new(end)));
            let made = arrival.and_then(wait.finish);
            (op, ActEvent::Over(Begin::Ready(made)))
        }));
    }

    fn begin_child(
        &mut self,
        op: OperationId,
        child: Child<Made>,
        part: Part,
        started: Option<Begun>,
    ) {
        let (mut start, finish) = (child.start, child.finish);
        let run = start.run;
        let policy = start.start.when_parent_ends;
        let finish = if child.awaited {
            Some(finish)
        } else {
            self.ready
                .push_back((op, Box::new(move || finish(run, None))));
            None
        };
        let recovered = self.children.get_mut(&run);
        if let Some(child) = recovered {
            child.finish = finish;
            return;
        }
        if !policy.outlives() {
            let live = LiveChild::new(op, finish, None);
            self.children.insert(run, live);
        }
        if started.is_some() {
            if policy.outlives() {
                // The child is a tree of its own, and this incarnation has announced it already.
                return;
            }
            self.ports.child(ChildStart {
                fresh: false,
                ..start
            });
            return;
        }
        self.record_start(op, Begun::Child(run));
        let budget = self.ledger.grant(&start.start.budget, part);
        self.record_terms(op, budget, policy, run);
        let mut first = RunStart::clone(&start.start);
        (first.budget, first.at) = (budget, self.journal.now());
        start.start = Arc::new(first);
        let first = task::first_entries(run, &start.start, self.journal.row.version);
        if let Some(mut batch) = self.journal.take() {
            batch.appends.extend(first);
            let definition = start.definition.take();
            let definition = definition.map(|bytes| (start.start.definition, bytes));
            batch.blobs.extend(definition);
            self.journal.commit(batch);
        }
        self.start_when_durable(start);
    }

    /// Lets a child begin once all that is recorded so far is durable.
    fn start_when_durable(&mut self, start: ChildStart) {
        let (durable, mark) = (self.journal.durable.clone(), self.journal.entries());
        self.background.push(Box::pin(async move {
            durable.passed(mark).await;
            Some(Box::new(start))
        }));
    }

    /// Begins a child whose record is durable. One that was cancelled meanwhile begins only to be
    /// ended.
    pub(super) fn start_child(&mut self, start: ChildStart) {
        if start.start.when_parent_ends.outlives() {
            self.ports.tree(start.parent, start.run);
        } else if let Some(child) = self.children.get(&start.run) {
            let cancel = child.cancel.clone();
            self.ports.child(ChildStart { cancel, ..start });
        }
    }

    /// Sets aside or gives away the budget of a child, in the commit that begins the child.
    fn record_terms(
        &mut self,
        op: OperationId,
        budget: Budget,
        when_parent_ends: ParentPolicy,
        run: RunId,
    ) {
        if when_parent_ends == ParentPolicy::Continue {
            self.continuing.push(run);
        }
        if when_parent_ends.outlives() {
            self.ledger.give(op, &budget);
        } else {
            self.ledger.reserve(op, budget);
        }
        let is_bounded = |resource: &Resource| budget.bound(*resource).is_some();
        if when_parent_ends.outlives() || Resource::COUNTED.iter().any(is_bounded) {
            self.journal.append(Entry::Granted {
                op,
                budget,
                when_parent_ends,
            });
        }
    }

    /// Recovers a child that no replay begins again.
    pub(crate) fn recover_child(
        &mut self,
        leg: &Leg,
        child: RecordedChild,
        cancel: Option<String>,
        pinned: &Arc<Pinned>,
    ) {
        let RecordedChild { op, run, agent } = child;
        let child = LiveChild::new(op, None, cancel.clone());
        self.children.insert(run, child);
        let start = leg.start.clone();
        let (pinned, sender) = (pinned.clone(), self.sender.clone());
        let child = ChildStart {
            run,
            parent: leg.run,
            epoch: self.journal.epoch(),
            agent,
            start,
            pinned,
            definition: None,
            fresh: false,
            operation: op,
            cancel,
            sender,
        };
        self.ports.child(child);
    }
}
