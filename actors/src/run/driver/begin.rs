//! How operations begin.

use std::{mem::discriminant, sync::Arc};

use tokio_util::sync::CancellationToken;

use super::{Acting, Driver, LiveChild, Work};
use crate::{
    definition::Pinned,
    run::{
        ChildStart, WaitFor,
        completed::Made,
        gate::{Gate, Gating},
        ledger::Part,
        leg::Leg,
        load::RecordedChild,
        operation::{Act, Arrival, Begin, Child, ErasedOperation, OperationContext, Wait, Write},
        run_machine::ToBegin,
        task,
    },
    vocabulary::{
        Begun, Budget, Entry, ErrorKind, Family, OperationError, OperationId, ParentPolicy,
        Resource, RunId, RunStart, StopReason,
    },
};

impl Driver {
    /// One of the equal parts of the remaining budget. The children that begin together share it, and
    /// so does the function if it goes on beside them.
    fn equal_part(&self, leg: &Leg, awaited: bool) -> Part {
        if !self.ledger.is_bounded() {
            return Part::Equal(1);
        }
        let machine = leg.machine();
        let beside = machine
            .asked()
            .filter(|call| Family::of(&call.kind).has_child());
        Part::Equal(1 + beside.count() as u64 + u64::from(!awaited))
    }

    pub(super) async fn begin_all(&mut self, leg: &Arc<Leg>) {
        let overdue = self.overdue(leg).is_err();
        loop {
            if self.cancelled.is_cancelled() {
                // Nothing new starts: the command that cancels the run is on its way.
                break;
            }
            let next = leg.machine().next_to_begin();
            let Some((op, asked)) = next else {
                break;
            };
            let begun = leg.begun(op);
            // Past the deadline nothing new starts. A child that exists must still be known, so
            // that it can be ended.
            if overdue && !matches!(begun, Some(Begun::Child(_))) {
                continue;
            }
            // An operation that has begun comes to its end. Only a model whose provider was down would be asked once more.
            let over = match begun {
                None | Some(Begun::Retry(_)) => self.over_budget(leg, asked.resource),
                Some(_) => None,
            };
            if let Some(over) = over {
                let message = format!("{}", StopReason::BudgetExhausted(over));
                let error = OperationError::new(ErrorKind::Budget(over), message);
                // Nothing is charged for a call that was never made.
                let resource = asked.resource.filter(|_| begun.is_some());
                let books = (resource, asked.operation.reckon);
                let mut machine = leg.machine();
                machine.begin(op, asked.identity, books, CancellationToken::new());
                machine.ready(op, Box::new(|| Err(error)));
                continue;
            }
            self.begin(leg, op, asked, begun);
        }
    }

    /// The bound that forbids an operation which consumes one of this resource.
    fn over_budget(&self, leg: &Leg, resource: Option<Resource>) -> Option<Resource> {
        if self.journal.entries() >= self.max_entries {
            return Some(Resource::Entries);
        }
        let resource = resource?;
        // Calls that are under way count as made.
        self.ledger
            .exhausted(resource, || leg.machine().consuming(resource))
    }

    fn begin(&mut self, leg: &Arc<Leg>, op: OperationId, asked: ToBegin, started: Option<Begun>) {
        self.commands.begins_after(self.journal.entries());
        let cancelled = self.cancelled.child_token();
        let cx = OperationContext {
            id: op,
            run: leg.run,
            digest: asked.identity.digest.clone(),
            ports: self.ports.clone(),
            cancelled: cancelled.clone(),
            started: started.clone(),
            allowance: self.ledger.allowance(),
            durable: self.journal.durable.clone(),
            leg: leg.clone(),
        };
        let ErasedOperation { begin, reckon } = asked.operation;
        let books = (asked.resource, reckon);
        leg.machine().begin(op, asked.identity, books, cancelled);
        self.go_on(leg, op, begin(cx), started);
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
            Begin::Ready(result) => leg.machine().ready(op, Box::new(|| result)),
            Begin::Deferred(deferred) => leg.machine().ready(op, deferred.make),
            Begin::Act(act) => self.begin_act(leg, op, act, started == Some(Begun::Effect)),
            Begin::Wait(wait) => self.begin_wait(leg, op, wait, started),
            Begin::Write(write) => self.attempt(leg, op, write),
            Begin::Child(child) => {
                let equal = || self.equal_part(leg, child.awaited);
                let part = child.share.map_or_else(equal, Part::Percent);
                self.begin_child(leg, op, child, part, started);
            }
        }
    }

    fn record_start(&mut self, leg: &Leg, op: OperationId, begun: Begun) {
        let mut machine = leg.machine();
        machine.starts_again(op, &begun);
        // A request that differs from the first keeps the digest of the first, until it is answered.
        let recorded = machine.recorded(op).map(|call| call.identity.clone());
        let identity = machine.call(op).map(|call| call.identity.clone());
        let Some(identity) = recorded.or(identity) else {
            return;
        };
        drop(machine);
        if matches!(begun, Begun::Question(_)) {
            self.journal.asks(op);
            tracing::info!(run = %self.journal.run(), operation = %op, "the run waits for an answer to a question");
        }
        self.journal.append(identity.started(op, begun));
    }

    /// Begins an act outside of the process.
    fn begin_act(&mut self, leg: &Leg, op: OperationId, act: Act<Made>, started: bool) {
        let (record_start, gate, future) = (act.record_start, act.gate, act.future);
        let begun = leg.machine().call_mut(op).map(|call| {
            call.once = record_start;
            call.cancelled.clone()
        });
        let Some(cancelled) = begun else {
            return;
        };
        if record_start && !started {
            self.record_start(leg, op, Begun::Effect);
        }
        let window = if record_start { 0 } else { self.window };
        if gate == Gate::After {
            // The entries for which its result waits are committed while the act is under way.
            self.journal.flush();
        }
        let durable = self.journal.durable.clone();
        let mark = self.journal.entries().saturating_sub(window);
        let act = future.gate(Gating {
            gate,
            durable,
            mark,
            cancelled,
        });
        self.acts.push(Acting(op, Work::Act(act)));
    }

    fn attempt(&mut self, leg: &Leg, op: OperationId, write: Write<Made>) {
        if let Some(call) = leg.machine().call_mut(op) {
            call.unsaved = write.unsaved;
        }
        let (scope, key) = write.place;
        let turn = self.ports.lock_state(scope, key);
        self.make_attempt(op, write.attempt, turn);
    }

    fn begin_wait(&mut self, leg: &Leg, op: OperationId, wait: Wait<Made>, started: Option<Begun>) {
        let begun = match &wait.wait_for {
            WaitFor::Answer(question) => Some(Begun::Question(question.clone())),
            WaitFor::Result => Some(Begun::Ticket),
            WaitFor::Timer(at) => Some(Begun::Timer(*at)),
            WaitFor::Retry(retry) => Some(Begun::Retry(retry.clone())),
            WaitFor::Child { run, .. } if !self.children.contains_key(run) => {
                let run = *run;
                return self.join_ended(op, run, wait);
            }
            WaitFor::Message(_) | WaitFor::Child { .. } => None,
        };
        // A wait that follows an effect is recorded too. The same wait is recorded only once.
        let is_same = |started: &Begun, begun: &Begun| match (started, begun) {
            (Begun::Retry(started), Begun::Retry(begun)) => started == begun,
            _ => discriminant(started) == discriminant(begun),
        };
        if let Some(begun) = begun
            && started.is_none_or(|started| !is_same(&started, &begun))
        {
            self.record_start(leg, op, begun);
        }
        leg.machine().wait(op, wait);
    }

    /// Waits for a child that has ended. The child's journal holds its outcome.
    fn join_ended(&mut self, op: OperationId, run: RunId, wait: Wait<Made>) {
        let outcome = self.ports.outcome(run);
        // If the child ended just now, its end becomes durable with this run's record of it.
        let (durable, mark) = (self.journal.durable.clone(), self.journal.entries());
        let joined = Box::pin(async move {
            durable.passed(mark).await;
            let arrival = outcome.await.map(|end| Arrival::Child(Box::new(end)));
            Some(match arrival {
                Ok(arrival) => wait.arrived(arrival),
                Err(error) => Begin::Ready(Err(error)),
            })
        });
        self.acts.push(Acting(op, Work::Act(joined)));
    }

    fn begin_child(
        &mut self,
        leg: &Leg,
        op: OperationId,
        child: Child<Made>,
        part: Part,
        started: Option<Begun>,
    ) {
        let (mut start, finish) = (child.start, child.finish);
        let run = start.run;
        let policy = start.start.when_parent_ends;
        if child.awaited {
            let wait_for = WaitFor::Child { begun_by: op, run };
            let wait = Wait::new(wait_for, move |arrival| match arrival {
                Arrival::Child(end) => finish(run, Some(*end)),
                _ => finish(run, None),
            });
            leg.machine().wait(op, wait);
        } else {
            let make = move || finish(run, None);
            leg.machine().ready(op, Box::new(make));
        }
        if self.children.contains_key(&run) {
            // It was recovered.
            return;
        }
        if !policy.outlives() {
            let mut child = LiveChild::new(op, None);
            child.hears = start.hears;
            self.children.insert(run, child);
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
        self.record_start(leg, op, Begun::Child(run));
        let under_way = |resource| leg.machine().consuming(resource);
        let budget = self.ledger.grant(&start.start.budget, part, under_way);
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
        let child = LiveChild::new(op, cancel.clone());
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
            hears: false,
            sender,
        };
        self.ports.child(child);
    }
}
