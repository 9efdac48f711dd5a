//! What the journal holds of a leg, what the leg's function asks for, and where the two part. It decides which recorded
//! result the function gets next. The driver and offline replay carry it out. It has no lock, no clock and no future.

use std::{collections::VecDeque, fmt};

use super::{
    call_identity::CallIdentity,
    load::{Recorded, RecordedDelivery},
    notes::RecordedNote,
};
use crate::vocabulary::{AgentError, Begun, CallDigest, OperationId, OperationMap};

/// One leg, with a slot of the executor's for each operation that the function waits for.
pub(crate) struct RunMachine<S> {
    /// What is recorded, and what the function waits for.
    places: OperationMap<Place<S>>,
    /// The recorded results that the function has not got, in the order of the journal.
    due: VecDeque<RecordedDelivery>,
    /// How many recorded operations and notes of this leg the function has not asked for in this incarnation.
    unasked: usize,
    /// Whether the journal records the end of the leg.
    pub(super) has_ended: bool,
    /// The error that every further operation returns. It is set once.
    pub(super) end: Option<AgentError>,
}

/// What is known of one place in the order of operations: the call or the note that an earlier incarnation recorded
/// there, if any, and what this one asks.
struct Place<S> {
    call: Option<RecordedCall>,
    note: Option<RecordedNote>,
    /// Whether it counts as asked for in this incarnation.
    is_asked: bool,
    slot: Option<S>,
}

/// What the journal says about a call.
#[derive(Clone, Debug)]
pub(crate) struct RecordedCall {
    pub(crate) identity: CallIdentity,
    /// The last start that is recorded.
    pub(crate) begun: Option<Begun>,
    /// Whether its end is recorded.
    pub(crate) completed: bool,
    /// Whether the journal records that the function dropped it.
    pub(crate) dropped: bool,
    /// The digest of the last recorded input that differed from the first.
    pub(crate) drifted: Option<CallDigest>,
}

/// What an operation is that the function asks for.
#[derive(Debug, PartialEq)]
pub(crate) struct Asked {
    /// Whether it is to begin: no end of it is recorded.
    pub(crate) begins: bool,
    /// The recorded digest of its input, if that is another one.
    pub(crate) drifted_from: Option<CallDigest>,
}

/// What comes next for a function that has done all that it can do by now.
#[derive(Debug)]
pub(crate) enum Next {
    /// It gets this recorded result.
    Deliver(RecordedDelivery),
    /// The result that is next belongs to an operation that it does not wait for.
    NotAsked,
    /// Nothing recorded is left for it.
    Live,
}

impl<S> Place<S> {
    fn new(call: Option<RecordedCall>, note: Option<RecordedNote>, is_asked: bool) -> Self {
        Self {
            call,
            note,
            is_asked,
            slot: None,
        }
    }
}

impl<S> Default for RunMachine<S> {
    fn default() -> Self {
        Self::new(0, &mut Recorded::default())
    }
}

impl<S> RunMachine<S> {
    /// A leg of this number that goes on from what is recorded, which is taken.
    pub(super) fn new(leg: u32, recorded: &mut Recorded) -> Self {
        let calls = std::mem::take(&mut recorded.calls).into_iter();
        let notes = std::mem::take(&mut recorded.noted).into_iter();
        let calls = calls.map(|(op, call)| (op, Place::new(Some(call), None, op.leg != leg)));
        let notes = notes.map(|(op, note)| (op, Place::new(None, Some(note), op.leg != leg)));
        let places: OperationMap<Place<S>> = notes.chain(calls).collect();
        Self {
            unasked: places.values().filter(|place| !place.is_asked).count(),
            places,
            due: std::mem::take(&mut recorded.deliveries),
            has_ended: false,
            end: None,
        }
    }

    /// Whether the journal knows of something after the place at which the function is.
    pub(super) fn is_past(&self) -> bool {
        self.has_ended || self.unasked > 0
    }

    /// Lets every further operation return an error: this one, unless there is one already, which is returned.
    pub(super) fn end_with(&mut self, error: AgentError) -> AgentError {
        self.end.get_or_insert(error).clone()
    }

    /// The function asks for an operation, and waits for its result in this slot. An input that differs from the
    /// recorded one counts as drift, if the operation may drift.
    ///
    /// # Errors
    /// The end of the leg, or that something else is recorded in this place, which ends the leg.
    pub(super) fn ask(
        &mut self,
        op: OperationId,
        identity: &CallIdentity,
        may_drift: bool,
        slot: S,
    ) -> Result<Asked, AgentError> {
        if let Some(end) = &self.end {
            return Err(end.clone());
        }
        let place = self.place(op);
        let call = place.call.as_ref();
        // Where nothing is recorded, no digest is computed.
        let drifted_from = call.filter(|call| call.identity.digest != identity.digest);
        let drifted_from = drifted_from.map(|call| call.identity.digest.get());
        let fits = |call: &RecordedCall| {
            call.identity.is_call_of(identity) && (may_drift || drifted_from.is_none())
        };
        let error = match (&place.note, call) {
            (Some(note), _) => AgentError::diverged(op, note, identity),
            (None, Some(call)) if !fits(call) => call.identity.diverged(op, identity),
            _ => {
                let begins = !call.is_some_and(|call| call.completed);
                place.slot = Some(slot);
                return Ok(Asked {
                    begins,
                    drifted_from,
                });
            }
        };
        Err(self.end_with(error))
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
        if !self.places.contains_key(&op) {
            return Ok(true);
        }
        let place = self.place(op);
        let recorded: &dyn fmt::Display = match (&place.note, &place.call) {
            (Some(recorded), _) if recorded.is(found) => return Ok(false),
            (Some(recorded), _) => recorded,
            (None, Some(call)) => &call.identity,
            (None, None) => return Ok(true),
        };
        let error = AgentError::diverged(op, recorded, found);
        Err(self.end_with(error))
    }

    /// A place for which the function asks.
    fn place(&mut self, op: OperationId) -> &mut Place<S> {
        let fresh = || Place::new(None, None, true);
        let place = self.places.entry(op).or_insert_with(fresh);
        if !std::mem::replace(&mut place.is_asked, true) {
            self.unasked -= 1;
        }
        place
    }

    /// The slot of an operation for which the function waits, or of whose result it has not taken.
    pub(super) fn slot(&mut self, op: OperationId) -> Option<&mut S> {
        self.places.get_mut(&op)?.slot.as_mut()
    }

    /// The slots of all operations.
    pub(super) fn slots(&mut self) -> impl Iterator<Item = &mut S> {
        self.places
            .values_mut()
            .filter_map(|place| place.slot.as_mut())
    }

    /// Takes the slot of an operation that the function does not wait for any more.
    pub(super) fn take_slot(&mut self, op: OperationId) -> Option<S> {
        let place = self.places.get_mut(&op)?;
        let slot = place.slot.take();
        if place.call.is_none() && place.note.is_none() {
            self.places.remove(&op);
        }
        slot
    }

    /// What the journal says about a call.
    pub(crate) fn call(&self, op: OperationId) -> Option<&RecordedCall> {
        self.places.get(&op)?.call.as_ref()
    }

    /// The same, to be changed.
    pub(crate) fn call_mut(&mut self, op: OperationId) -> Option<&mut RecordedCall> {
        self.places.get_mut(&op)?.call.as_mut()
    }

    /// All calls that an earlier incarnation recorded, in no order.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (OperationId, &RecordedCall)> {
        let places = self.places.iter();
        places.filter_map(|(op, place)| Some((*op, place.call.as_ref()?)))
    }

    /// What comes next for the function, which has done all that it can do by now. A result that it gets is taken.
    pub(super) fn next(&mut self) -> Next {
        match self.due.front().map(|next| next.op) {
            Some(op) if self.slot(op).is_none() => Next::NotAsked,
            _ => self.due.pop_front().map_or(Next::Live, Next::Deliver),
        }
    }

    /// A divergence, if recorded results are left: the function did this instead of asking for the next.
    pub(super) fn missed(&self, found: &str) -> Option<AgentError> {
        let op = self.due.front()?.op;
        let recorded = self.call(op).map(|call| call.identity.to_string());
        Some(AgentError::diverged(
            op,
            recorded.unwrap_or_default(),
            found,
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    fn op(number: u32) -> OperationId {
        OperationId {
            leg: 0,
            lane: 0,
            number,
        }
    }

    fn call(name: &str, digest: u64) -> CallIdentity {
        CallIdentity {
            kind: "tool".into(),
            name: name.to_owned(),
            digest: CallDigest(digest).into(),
            asked_by: None,
        }
    }

    /// A leg with the recorded calls `a` and `b`, which ended in the other order, and a note between them.
    fn machine() -> RunMachine<()> {
        let mut recorded = Recorded::default();
        for (number, name, completed) in [(0, "a", true), (2, "b", true), (3, "c", false)] {
            let call = RecordedCall {
                identity: call(name, 7),
                begun: None,
                completed,
                dropped: false,
                drifted: None,
            };
            recorded.calls.insert(op(number), call);
        }
        let note = RecordedNote::Emitted("said".to_owned());
        recorded.noted.insert(op(1), note);
        for number in [2, 0] {
            let result = to_raw_value("").unwrap();
            let op = op(number);
            recorded
                .deliveries
                .push_back(RecordedDelivery { op, result });
        }
        RunMachine::new(0, &mut recorded)
    }

    #[test]
    fn recorded_results_come_in_the_journals_order_and_then_everything_is_new() {
        let mut machine = machine();
        let said = RecordedNote::Emitted("said".to_owned());
        assert!(
            machine
                .ask(op(0), &call("a", 7), false, ())
                .is_ok_and(|a| !a.begins)
        );
        assert!(matches!(machine.next(), Next::NotAsked));
        assert_eq!(machine.note(op(1), &said), Ok(false));
        assert!(
            machine
                .ask(op(2), &call("b", 7), false, ())
                .is_ok_and(|a| !a.begins)
        );
        assert!(machine.is_past());
        for number in [2, 0] {
            assert!(matches!(machine.next(), Next::Deliver(next) if next.op == op(number)));
            assert_eq!(machine.take_slot(op(number)), Some(()));
        }
        // What began and has no end begins again.
        assert!(
            machine
                .ask(op(3), &call("c", 7), false, ())
                .is_ok_and(|a| a.begins)
        );
        assert!(!machine.is_past());
        assert!(matches!(machine.next(), Next::Live));
        assert!(
            machine
                .ask(op(4), &call("d", 1), false, ())
                .is_ok_and(|a| a.begins)
        );
        assert_eq!(machine.note(op(5), &said), Ok(true));
        assert!(machine.missed("the end").is_none());
    }

    #[test]
    fn something_else_in_a_place_ends_the_leg_for_every_further_operation() {
        let other = RecordedNote::Emitted("other".to_owned());
        let errors = [
            machine().ask(op(0), &call("x", 7), true, ()).unwrap_err(),
            machine().ask(op(0), &call("a", 8), false, ()).unwrap_err(),
            machine().ask(op(1), &call("a", 7), false, ()).unwrap_err(),
            machine().note(op(0), &other).unwrap_err(),
            machine().note(op(1), &other).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, AgentError::Diverged { .. }), "{error}");
        }
        let mut machine = machine();
        let drifted = machine.ask(op(0), &call("a", 8), true, ()).unwrap();
        assert_eq!(drifted.drifted_from, Some(CallDigest(7)));
        let error = machine.ask(op(2), &call("x", 7), true, ()).unwrap_err();
        assert_eq!(machine.ask(op(9), &call("d", 1), true, ()), Err(error));
    }

    #[test]
    fn a_place_without_a_record_is_forgotten_when_its_result_is_taken() {
        let mut machine = RunMachine::<()>::default();
        machine.ask(op(0), &call("a", 7), false, ()).unwrap();
        assert!(machine.slot(op(0)).is_some());
        machine.take_slot(op(0));
        assert!(machine.places.is_empty());
    }
}
