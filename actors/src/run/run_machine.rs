//! The state of the operations of a leg: their record in the journal, those that the function asks for, those under
//! way, waiting or done, and the items from outside for them. It decides which result comes next, where function and
//! journal part, and which operation ends by which arrival. The driver and offline replay carry it out. It has no lock,
//! no clock and no future.

mod source;
#[cfg(test)]
mod stage_tests;
#[cfg(test)]
mod tests;
mod waiting;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    task::{Poll, Waker},
};

use tokio_util::sync::CancellationToken;

use source::{Look, Source};
pub use waiting::answers;
pub(crate) use waiting::{Action, unfit};

use super::{
    call_identity::CallIdentity,
    completed::{Made, Make},
    load::{Recorded, RecordedDelivery},
    operation::{Arrival, Delivery, ErasedOperation, Reckon, Unsaved, Wait, WaitFor},
    recorded_call::{Record, RecordedCall},
    recorded_note::RecordedNote,
};
use crate::vocabulary::{
    AgentError, Begun, CallDigest, Entry, OperationId, OperationMap, QuestionKind, Resource, Spent,
    Usage,
};

/// The operations of one leg, and those of earlier legs that are still under way.
#[derive(Default)]
pub(crate) struct RunMachine {
    leg: u32,
    /// What an earlier incarnation recorded, by its place in the order of operations.
    record: OperationMap<Record>,
    /// The places of this leg for which the function has not asked in this incarnation.
    unasked: OperationMap<()>,
    /// The recorded results that the function has not got, in the order of the journal.
    due: VecDeque<RecordedDelivery>,
    /// Whether the journal records the end of the leg.
    pub(super) has_ended: bool,
    /// The error that every further operation returns. It is set once.
    pub(super) end: Option<AgentError>,
    /// Whether the function is gone. Operations that it leaves behind are not recorded as dropped.
    is_detached: bool,
    operations: OperationMap<Operation>,
    /// The address of a waker's data, and how many operations the function waits for with this waker: a function that waits
    /// for thousands at once is asked after each of their results.
    waiting_with: (usize, usize),
    /// The operations that may begin, in the order in which the function asked for them.
    to_begin: VecDeque<OperationId>,
    /// Operations that the function dropped, and that are to be broken off. Those without a call have not begun in this
    /// incarnation: an earlier one began them.
    dropped: Vec<(OperationId, Option<Call>)>,
    /// Entries for which nobody waits, and which are not written yet.
    pub(super) notes: Vec<Entry>,
    /// The operations that wait, by what ends their waiting.
    waits: BTreeSet<(Source, OperationId)>,
    /// Where something may have come to its end, in the order in which it did.
    looks: VecDeque<Look>,
    /// The operations that have waited for an item in this incarnation. A further item for one of them that is over
    /// changes nothing.
    waited: BTreeSet<OperationId>,
    /// Items of the mailbox that no operation has taken.
    items: BTreeMap<Source, VecDeque<(String, Arrival)>>,
}

/// An operation that the function asked for, until the function has its result.
struct Operation {
    /// The part of the function that waits for it.
    waker: Option<Waker>,
    stage: Stage,
}

/// How far an operation has come.
pub(super) enum Stage {
    /// Its recorded result comes in its turn.
    Recorded,
    /// It is to begin.
    Asked(ToBegin),
    UnderWay(Call),
    /// Its end is being recorded.
    Ended,
    Delivered(Delivery),
}

/// An operation that is to begin.
pub(super) struct ToBegin {
    pub(super) identity: CallIdentity,
    pub(super) resource: Option<Resource>,
    pub(super) operation: ErasedOperation,
}

/// An operation that is under way in this incarnation.
pub(crate) struct Call {
    pub(crate) identity: CallIdentity,
    pub(crate) cancelled: CancellationToken,
    /// The resource of which it consumes one.
    resource: Option<Resource>,
    /// Adds to its output what it consumed, and what the journal keeps.
    pub(crate) reckon: Reckon,
    progress: Progress,
    /// Whether its start is recorded, because it must not happen twice.
    pub(crate) once: bool,
    /// The consumption of failed attempts at a model call, charged with its end.
    pub(crate) lost: Usage,
    /// Mailbox items that its end deals with.
    pub(crate) items: Vec<String>,
    /// Its result in case its change of shared state is not made. Everything else is done by then.
    pub(crate) unsaved: Option<Unsaved<Made>>,
    /// How often another change came before its own.
    pub(crate) conflicts: u32,
}

/// The progress of an operation that is under way.
enum Progress {
    /// An act, a change of shared state, or the end of its own recording.
    Begun,
    Waiting(Wait<Made>),
    /// Its turn to end.
    Ready(Make),
}

/// What the function noted and dropped, and the error that ends its leg.
pub(super) type Noted = (
    Vec<Entry>,
    Vec<(OperationId, Option<Call>)>,
    Option<AgentError>,
);

/// The next move for a function that has done all that it can do by now.
#[derive(Debug)]
pub(crate) enum Next {
    /// It gets this recorded result.
    Deliver(RecordedDelivery),
    /// The result that is next belongs to an operation that it does not wait for.
    NotAsked,
    /// Nothing recorded is left for it.
    Live,
}

impl Call {
    /// The consumption of a call that has no result.
    pub(crate) fn charge(&self) -> Spent {
        Spent {
            usage: self.lost,
            ..self.resource.map(Spent::one).unwrap_or_default()
        }
    }

    /// Whether a person is asked if the call happened.
    pub(crate) fn is_in_doubt(&self) -> bool {
        match &self.progress {
            Progress::Waiting(wait) => match &wait.wait_for {
                WaitFor::Answer(question) => question.kind == QuestionKind::InDoubt,
                _ => false,
            },
            _ => false,
        }
    }
}

impl RunMachine {
    /// The next leg, which has this number and goes on from what is recorded, which is taken. What is under way goes on.
    pub(super) fn next_leg(self, leg: u32, recorded: &mut Recorded) -> Self {
        let record = std::mem::take(&mut recorded.record);
        let unasked = record.keys().filter(|op| op.leg == leg);
        Self {
            leg,
            unasked: unasked.map(|op| (*op, ())).collect(),
            record,
            due: std::mem::take(&mut recorded.deliveries),
            operations: self.operations,
            waits: self.waits,
            looks: self.looks,
            waited: self.waited,
            items: self.items,
            ..Self::default()
        }
    }

    /// Whether the journal knows of something after the place at which the function is.
    pub(super) fn is_past(&self) -> bool {
        self.has_ended || !self.unasked.is_empty()
    }

    /// Lets every further operation return an error: this one, unless there is one already, which is returned.
    pub(super) fn end_with(&mut self, error: AgentError) -> AgentError {
        self.end.get_or_insert(error).clone()
    }

    /// The function asks for an operation, which begins in its turn if no end of it is recorded. An input that differs from the
    /// recorded one counts as drift, if the operation may drift.
    ///
    /// # Errors
    /// The end of the leg, or that something else is recorded in this place, which ends the leg.
    pub(super) fn ask(
        &mut self,
        op: OperationId,
        identity: CallIdentity,
        may_drift: bool,
        operation: impl FnOnce() -> (Option<Resource>, ErasedOperation),
    ) -> Result<(), AgentError> {
        if let Some(end) = &self.end {
            return Err(end.clone());
        }
        self.unasked.remove(&op);
        let mut stage = None;
        match self.record.get(&op) {
            None => {}
            Some(Record::Note(note)) => {
                let error = AgentError::diverged(op, note, &identity);
                return Err(self.end_with(error));
            }
            Some(Record::Call(call)) => {
                let drifted = call.identity.digest != identity.digest;
                if !call.identity.is_call_of(&identity) || (drifted && !may_drift) {
                    let error = call.identity.diverged(op, &identity);
                    return Err(self.end_with(error));
                }
                // A call that waits to be made again has no answer to another request.
                let is_unasked = matches!(call.begun, Some(Begun::Retry(_))) && !call.completed;
                if drifted && !is_unasked {
                    self.notes.push(Entry::Drifted {
                        op,
                        recorded: call.identity.digest.get(),
                        found: identity.digest.get(),
                    });
                }
                stage = call.completed.then_some(Stage::Recorded);
            }
        }
        let stage = stage.unwrap_or_else(|| {
            self.to_begin.push_back(op);
            let (resource, operation) = operation();
            Stage::Asked(ToBegin {
                identity,
                resource,
                operation,
            })
        });
        self.operations.insert(op, Operation { waker: None, stage });
        Ok(())
    }

    /// The function makes a note. Returns whether it is a new one.
    ///
    /// # Errors
    /// That something else is recorded in this place, which ends the leg.
    pub(super) fn note(
        &mut self,
        op: OperationId,
        found: &RecordedNote,
    ) -> Result<bool, AgentError> {
        self.unasked.remove(&op);
        let recorded: &dyn fmt::Display = match self.record.get(&op) {
            None => return Ok(true),
            Some(Record::Note(recorded)) if recorded.is(found) => return Ok(false),
            Some(Record::Note(recorded)) => recorded,
            Some(Record::Call(call)) => &call.identity,
        };
        let error = AgentError::diverged(op, recorded, found);
        Err(self.end_with(error))
    }

    /// The function looks for an operation's result, which it takes, or else waits for with this waker.
    pub(super) fn poll(
        &mut self,
        op: OperationId,
        waker: &Waker,
    ) -> Poll<Result<Delivery, AgentError>> {
        let is_here = |it: &Operation| matches!(it.stage, Stage::Delivered(_));
        if self.operations.get(&op).is_some_and(is_here)
            && let Some(Operation { stage, .. }) = self.operations.remove(&op)
            && let Stage::Delivered(delivery) = stage
        {
            return Poll::Ready(Ok(delivery));
        }
        match (self.operations.get_mut(&op), &self.end) {
            (Some(waiting), None) => {
                let is_same = |own: &Waker| own.will_wake(waker);
                if !waiting.waker.as_ref().is_some_and(is_same) {
                    let before = waiting.waker.replace(waker.clone());
                    self.waiting_with.1 += usize::from(waker.data().addr() == self.waiting_with.0);
                    self.waits_no_more(before.as_ref());
                }
                Poll::Pending
            }
            (_, end) => Poll::Ready(Err(end.clone().unwrap_or(AgentError::Ended))),
        }
    }

    /// The function drops an operation. Returns its last stage, but for what is still to be broken off.
    pub(super) fn drop_operation(&mut self, op: OperationId) -> Option<Stage> {
        if self.is_detached {
            return None;
        }
        self.stop_waiting(op);
        let Operation { stage, waker } = self.operations.remove(&op)?;
        self.waits_no_more(waker.as_ref());
        let recorded = self.record.get_mut(&op).and_then(Record::call_mut);
        match stage {
            Stage::UnderWay(mut call) => {
                if let Some(recorded) = recorded {
                    recorded.dropped = true;
                }
                self.take_items(op, &mut call);
                self.dropped.push((op, Some(call)));
                return Some(Stage::Ended);
            }
            Stage::Asked(..) => {
                let is_open = |it: &&mut RecordedCall| it.begun.is_some() && !it.dropped;
                if let Some(recorded) = recorded.filter(is_open) {
                    recorded.dropped = true;
                    self.dropped.push((op, None));
                }
            }
            _ => {}
        }
        Some(stage)
    }

    /// The function is gone. Returns what it asked for and nobody carries out.
    pub(super) fn detach(&mut self) -> impl Sized + use<> {
        (self.is_detached, self.waiting_with) = (true, (0, 0));
        let rest = |_: &OperationId, it: &mut Operation| {
            it.waker = None;
            !matches!(it.stage, Stage::UnderWay(_))
        };
        let rest: Vec<_> = self.operations.extract_if(rest).collect();
        rest
    }

    /// Takes what the function noted and dropped, and why the leg ends, if there is any of it.
    pub(super) fn take_noted(&mut self) -> Option<Noted> {
        if self.notes.is_empty() && self.dropped.is_empty() && self.end.is_none() {
            return None;
        }
        let (notes, dropped) = (&mut self.notes, &mut self.dropped);
        Some((
            std::mem::take(notes),
            std::mem::take(dropped),
            self.end.clone(),
        ))
    }

    /// The journal's word on a call.
    pub(crate) fn recorded(&self, op: OperationId) -> Option<&RecordedCall> {
        self.record.get(&op)?.call()
    }

    /// Takes note of an input that differs from the recorded one. `false` if the journal says so already.
    pub(super) fn drifts(&mut self, op: OperationId, found: CallDigest) -> bool {
        let call = self.record.get_mut(&op).and_then(Record::call_mut);
        call.is_some_and(|call| call.drifted.replace(found) != Some(found))
    }

    /// The calls that an earlier incarnation began, and that have no end, in their order.
    pub(crate) fn unfinished(&self) -> Vec<(OperationId, RecordedCall)> {
        let calls = self.record.iter().filter_map(|(op, it)| {
            let call = it.call()?;
            let is_open = call.begun.is_some() && !call.completed && !call.dropped;
            is_open.then(|| (*op, call.clone()))
        });
        let mut calls: Vec<_> = calls.collect();
        calls.sort_unstable_by_key(|(op, _)| *op);
        calls
    }

    /// The next move for the function, which has done all that it can do by now. A result that it gets is taken.
    pub(super) fn next(&mut self) -> Next {
        match self.due.front().map(|next| next.op) {
            Some(op) if !self.operations.contains_key(&op) => Next::NotAsked,
            _ => self.due.pop_front().map_or(Next::Live, Next::Deliver),
        }
    }

    /// A divergence, if recorded results are left: the function did this instead of asking for the next.
    pub(super) fn missed(&self, found: &str) -> Option<AgentError> {
        let op = self.due.front()?.op;
        let recorded = self.recorded(op).map(|call| call.identity.to_string());
        Some(AgentError::diverged(
            op,
            recorded.unwrap_or_default(),
            found,
        ))
    }

    /// The operations that the function asked for and that have not begun, in the order in which it asked.
    pub(super) fn asked(&self) -> impl Iterator<Item = &CallIdentity> {
        let asked = self.to_begin.iter();
        asked.filter_map(|op| match &self.operations.get(op)?.stage {
            Stage::Asked(asked) => Some(&asked.identity),
            _ => None,
        })
    }

    /// Takes the operation that begins next.
    pub(super) fn next_to_begin(&mut self) -> Option<(OperationId, ToBegin)> {
        loop {
            let op = self.to_begin.pop_front()?;
            if let Some(Operation { stage, .. }) = self.operations.get_mut(&op)
                && let Stage::Asked(asked) = std::mem::replace(stage, Stage::Ended)
            {
                return Some((op, asked));
            }
        }
    }

    /// An operation begins, until this fires, and consumes one of this resource, as it reckons.
    pub(super) fn begin(
        &mut self,
        op: OperationId,
        identity: CallIdentity,
        (resource, reckon): (Option<Resource>, Reckon),
        cancelled: CancellationToken,
    ) {
        let before = self.recorded(op).and_then(|call| call.retry.as_ref());
        let lost = before.map(|before| before.usage).unwrap_or_default();
        if let Some(Operation { stage, .. }) = self.operations.get_mut(&op) {
            *stage = Stage::UnderWay(Call {
                identity,
                cancelled,
                resource,
                reckon,
                progress: Progress::Begun,
                once: false,
                lost,
                items: Vec::new(),
                unsaved: None,
                conflicts: 0,
            });
        }
    }

    /// An operation that is under way.
    pub(crate) fn call(&self, op: OperationId) -> Option<&Call> {
        match &self.operations.get(&op)?.stage {
            Stage::UnderWay(call) => Some(call),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(crate) fn call_mut(&mut self, op: OperationId) -> Option<&mut Call> {
        match &mut self.operations.get_mut(&op)?.stage {
            Stage::UnderWay(call) => Some(call),
            _ => None,
        }
    }

    /// An operation of an earlier incarnation begins in another way: a model call that waited for its answer waits for its
    /// provider, or the other way round.
    pub(crate) fn starts_again(&mut self, op: OperationId, begun: &Begun) {
        let recorded = self.record.get_mut(&op).and_then(Record::call_mut);
        if let Some(before) = recorded.and_then(|recorded| recorded.begun.as_mut()) {
            *before = begun.clone();
        }
    }

    /// All operations that are under way, in no order.
    fn calls(&self) -> impl Iterator<Item = (OperationId, &Call)> {
        let calls = self.operations.iter();
        calls.filter_map(|(op, it)| match &it.stage {
            Stage::UnderWay(call) => Some((*op, call)),
            _ => None,
        })
    }

    /// How many operations that are under way consume one of this resource.
    pub(super) fn consuming(&self, resource: Resource) -> u64 {
        let calls = self.calls();
        let calls = calls.filter(|(_, call)| call.resource == Some(resource));
        calls.count() as u64
    }

    /// The operations that have only their change of shared state left to do, in their order.
    pub(super) fn unsaved(&self) -> Vec<(OperationId, Unsaved<Made>)> {
        let unsaved = self.calls();
        let unsaved = unsaved.filter_map(|(op, call)| Some((op, call.unsaved.clone()?)));
        let mut unsaved: Vec<_> = unsaved.collect();
        unsaved.sort_by_key(|(op, _)| *op);
        unsaved
    }

    /// Takes all operations that are under way, in their order.
    pub(super) fn take_open(&mut self) -> Vec<(OperationId, Call)> {
        let ops: Vec<OperationId> = self.calls().map(|(op, _)| op).collect();
        let open = ops.into_iter().filter_map(|op| Some((op, self.end(op)?)));
        let mut open: Vec<_> = open.collect();
        open.sort_by_key(|(op, _)| *op);
        open
    }

    /// Takes an operation whose end is being recorded, with the items for it.
    pub(super) fn end(&mut self, op: OperationId) -> Option<Call> {
        self.call(op)?;
        self.stop_waiting(op);
        let operation = self.operations.get_mut(&op)?;
        let stage = std::mem::replace(&mut operation.stage, Stage::Ended);
        if self.is_detached || op.leg != self.leg {
            // Nobody takes its result.
            self.operations.remove(&op);
        }
        let Stage::UnderWay(mut call) = stage else {
            return None;
        };
        if let Some(recorded) = self.record.get_mut(&op).and_then(Record::call_mut) {
            // An earlier incarnation began it. Cancelling closes operations that have no end, and this one
            // has an end now.
            recorded.completed = true;
        }
        self.take_items(op, &mut call);
        Some(call)
    }

    /// Puts a result where the function finds it. Returns what is to be woken.
    pub(super) fn deliver(&mut self, op: OperationId, delivery: Delivery) -> Option<Waker> {
        let operation = self.operations.get_mut(&op)?;
        operation.stage = Stage::Delivered(delivery);
        let waker = operation.waker.take();
        self.waits_no_more(waker.as_ref());
        waker
    }

    /// How many operations the function waits for with this waker. It is known by its data, which is an `Arc` of its own:
    /// `will_wake` may deny that a waker and its clone are the same, because each may have its own copy of the table.
    pub(super) fn waits_with(&mut self, waker: &Waker) -> usize {
        let data = waker.data().addr();
        if self.waiting_with.0 != data {
            let wakers = self.operations.values().filter_map(|it| it.waker.as_ref());
            self.waiting_with = (data, wakers.filter(|own| own.data().addr() == data).count());
        }
        self.waiting_with.1
    }

    /// The function does not wait for an operation any more, for which it waited with this waker.
    fn waits_no_more(&mut self, waker: Option<&Waker>) {
        let is_counted = waker.is_some_and(|own| own.data().addr() == self.waiting_with.0);
        self.waiting_with.1 -= usize::from(is_counted);
    }
}
