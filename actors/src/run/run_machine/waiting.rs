//! The waits of operations, and what comes from outside for them.

use ghostlight_safety::sanitize_line;
use serde_json::Value;

use super::{
    Call, Progress, RunMachine,
    source::{Look, Source},
};
use crate::{
    contract::ItemBody,
    run::{
        WaitFor,
        completed::{Made, Make},
        operation::{Arrival, Begin, Finish, Wait},
        operations::schema_fault,
    },
    vocabulary::{ErrorKind, OperationError, OperationId, Question, QuestionKind, Timestamp},
};

/// What is to be done next for operations.
pub(crate) enum Action {
    /// Record that an operation ends with what this makes, and acknowledge this item.
    Complete(OperationId, Option<String>, Make),
    /// Let an operation go on, for which this item came, as this says.
    GoOn(OperationId, Option<String>, GoOn),
    /// Acknowledge an item that changes nothing.
    Acknowledge(String),
    /// Put a message aside that this operation cannot read, for this reason.
    Quarantine(OperationId, String, String),
    /// Cancel a call, as this item asks.
    Cancel(OperationId, String),
}

/// Says how an operation goes on after what came for it.
type GoOn = Box<dyn FnOnce() -> Begin<Made> + Send>;

/// The first of all operations.
const FIRST: OperationId = OperationId {
    leg: 0,
    lane: 0,
    number: 0,
};

/// What ends the wait of an operation, and the time at which it ends of itself.
fn sources(op: OperationId, wait_for: &WaitFor) -> (Source, Option<Source>) {
    match wait_for {
        WaitFor::Timer(at) => (Source::Pause(*at), None),
        WaitFor::Retry(retry) => (Source::Pause(retry.at), None),
        WaitFor::Message(name) => (Source::Message(name.clone()), None),
        WaitFor::Child { begun_by, .. } => (Source::Child(*begun_by), None),
        WaitFor::Answer(question) => (Source::Item(op), question.expires.map(Source::Time)),
        WaitFor::Result => (Source::Item(op), None),
    }
}

/// Whether this arrival ends this wait. The error says that it does not, and why not where a message has another form
/// than the one that is received.
fn ends(wait: &Wait<Made>, arrival: &Arrival) -> Result<(), Option<String>> {
    match (&wait.wait_for, arrival) {
        (WaitFor::Answer(question), Arrival::Answer(value)) if answers(question, value) => Ok(()),
        (WaitFor::Result, Arrival::Result(_)) => Ok(()),
        (WaitFor::Message(name), Arrival::Message(value)) => {
            let read = wait.reads.map_or(Ok(()), |reads| reads(value));
            read.map_err(|fault| {
                let fault = sanitize_line(&fault, 500);
                Some(format!(
                    "the message {name:?} does not have the form that is received: {fault}"
                ))
            })
        }
        _ => Err(None),
    }
}

impl RunMachine {
    /// An operation waits for something from outside, which may be here already.
    pub(crate) fn wait(&mut self, op: OperationId, wait: Wait<Made>) {
        if let Some(call) = self.call_mut(op) {
            let (source, expires) = sources(op, &wait.wait_for);
            call.progress = Progress::Waiting(wait);
            if matches!(source, Source::Item(_)) {
                self.waited.insert(op);
            }
            self.looks.push_back(Look::At(source.clone()));
            let sources = [source].into_iter().chain(expires);
            self.waits.extend(sources.map(|source| (source, op)));
        }
    }

    /// An operation ends in its turn, with what this makes. It is not called if the result is not wanted any more.
    pub(crate) fn ready(&mut self, op: OperationId, make: Make) {
        if let Some(call) = self.call_mut(op) {
            call.progress = Progress::Ready(make);
            self.looks.push_back(Look::Ready(op));
        }
    }

    /// The wait of an operation that waits for something from outside.
    pub(crate) fn wait_of(&self, op: OperationId) -> Option<&Wait<Made>> {
        match &self.call(op)?.progress {
            Progress::Waiting(wait) => Some(wait),
            _ => None,
        }
    }

    /// Whether any operation waits for something from outside.
    pub(crate) fn has_waits(&self) -> bool {
        !self.waits.is_empty()
    }

    /// Whether no operation waits for anything but a model's provider, or a child.
    pub(crate) fn waits_for_providers(&self) -> bool {
        let mut waits = self.waits.iter().filter_map(|(_, op)| self.wait_of(*op));
        waits.all(|wait| matches!(wait.wait_for, WaitFor::Retry(_) | WaitFor::Child { .. }))
    }

    /// Takes an operation out of the index of those that wait.
    pub(super) fn stop_waiting(&mut self, op: OperationId) {
        if let Some(wait) = self.wait_of(op) {
            let (source, expires) = sources(op, &wait.wait_for);
            for source in [source].into_iter().chain(expires) {
                self.waits.remove(&(source, op));
            }
        }
    }

    /// Takes what an operation that is under way waits for.
    fn take_progress(&mut self, op: OperationId) -> Option<Progress> {
        self.stop_waiting(op);
        let progress = &mut self.call_mut(op)?.progress;
        Some(std::mem::replace(progress, Progress::Begun))
    }

    /// The operations that wait from this source on.
    fn waits_from(&self, source: Source) -> impl Iterator<Item = &(Source, OperationId)> {
        self.waits.range((source, FIRST)..)
    }

    /// The operations that wait for this, in their order.
    fn waiting_for(&self, source: &Source) -> impl Iterator<Item = OperationId> {
        let waits = self.waits_from(source.clone());
        let waits = waits.take_while(move |(found, _)| found == source);
        waits.map(|(_, op)| *op)
    }

    /// The first times at which a wait ends: by the wall clock, and by the clock that is never set back.
    pub(crate) fn first_times(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        let first = |from| self.waits_from(from).next().map(|(source, _)| source);
        let time = match first(Source::Time(Timestamp(0))) {
            Some(Source::Time(at)) => Some(*at),
            _ => None,
        };
        match first(Source::Pause(Timestamp(0))) {
            Some(Source::Pause(at)) => (time, Some(*at)),
            _ => (time, None),
        }
    }

    /// These are the times of the wall clock and of the clock that is never set back.
    pub(crate) fn alarm(&mut self, now: Timestamp, forward: Timestamp) -> Option<Action> {
        let due = match self.first_times() {
            (Some(at), _) if at <= now => Source::Time(at),
            (_, Some(at)) if at <= forward => Source::Pause(at),
            _ => return None,
        };
        let op = self.waiting_for(&due).next()?;
        let WaitFor::Answer(question) = &self.wait_of(op)?.wait_for else {
            return self.arrive(op, None, Arrival::Timer);
        };
        if let Some(default) = question.default.clone() {
            return self.arrive(op, None, Arrival::Answer(default));
        }
        let message = format!("nobody answered in time: {}", question.prompt);
        let error = OperationError::new(ErrorKind::Expired, message);
        Some(Action::Complete(op, None, Box::new(|| Err(error))))
    }

    /// The child ends that this operation began. Those that joined it end in their turn. Returns the end of the operation
    /// itself, if it waits for the child.
    pub(crate) fn child_ended(
        &mut self,
        begun_by: OperationId,
        arrival: impl Fn() -> Arrival,
    ) -> Option<Make> {
        let mut own = None;
        let joined: Vec<_> = self.waiting_for(&Source::Child(begun_by)).collect();
        for op in joined {
            match self.arrive(op, None, arrival()) {
                Some(Action::Complete(_, _, make)) if op == begun_by => own = Some(make),
                Some(Action::Complete(_, _, make)) => self.ready(op, make),
                _ => {}
            }
        }
        own
    }

    /// An item of the mailbox comes.
    pub(crate) fn arrived(&mut self, item: String, body: ItemBody) {
        let (source, arrival) = match body {
            ItemBody::Answer { operation, value } => {
                (Source::Item(operation), Arrival::Answer(value))
            }
            ItemBody::Result { operation, result } => {
                (Source::Item(operation), Arrival::Result(result))
            }
            ItemBody::Message { name, value } => {
                (Source::Message(name.into()), Arrival::Message(value))
            }
            ItemBody::CancelCall { operation } => {
                return self.looks.push_back(Look::Cancel(operation, item));
            }
            // The others are for the function, or for the processes that post and begin turns.
            _ => return,
        };
        let kept = self.items.entry(source.clone()).or_default();
        kept.push_back((item, arrival));
        self.looks.push_back(Look::At(source));
    }

    /// Moves the items for an operation that has ended to what its end deals with.
    pub(super) fn take_items(&mut self, op: OperationId, call: &mut Call) {
        let items = self.items.remove(&Source::Item(op)).into_iter().flatten();
        call.items.extend(items.map(|(item, _)| item));
    }

    /// What is to be done next, one thing at a time: the function continues with each result before another operation
    /// ends, as in replay.
    pub(crate) fn next_action(&mut self) -> Option<Action> {
        loop {
            let action = match self.looks.pop_front()? {
                Look::Cancel(op, item) => Some(Action::Cancel(op, item)),
                Look::At(source) => self.look_at(source),
                Look::Ready(op) => match self.take_progress(op) {
                    Some(Progress::Ready(make)) => Some(Action::Complete(op, None, make)),
                    _ => None,
                },
            };
            if action.is_some() {
                return action;
            }
        }
    }

    /// Gives the oldest item of this source to the first operation that waits for it. An item that does not end its waiting
    /// goes, and so does one for an operation that has ended.
    fn look_at(&mut self, source: Source) -> Option<Action> {
        let waits = self.waiting_for(&source).next();
        let has_ended = match source {
            Source::Item(op) => {
                let recorded = self.recorded(op);
                let is_closed = recorded.is_some_and(|call| call.completed || call.dropped);
                is_closed || (self.waited.contains(&op) && self.call(op).is_none())
            }
            _ => false,
        };
        if waits.is_none() && !has_ended {
            // The operation has not begun yet in this incarnation, or does not wait yet.
            return None;
        }
        let kept = self.items.get_mut(&source)?;
        let Some((item, arrival)) = kept.pop_front() else {
            self.items.remove(&source);
            return None;
        };
        let wait = waits.and_then(|op| Some((op, self.wait_of(op)?)));
        let action = match wait.map(|(op, wait)| (op, ends(wait, &arrival))) {
            Some((op, Ok(()))) => return self.arrive(op, Some(item), arrival),
            // Whoever sent it does not end an agent by it.
            Some((op, Err(Some(fault)))) => Action::Quarantine(op, item, fault),
            _ => Action::Acknowledge(item),
        };
        self.looks.push_front(Look::At(source));
        Some(action)
    }

    /// Ends the waiting of an operation by what has come, with this item.
    fn arrive(
        &mut self,
        op: OperationId,
        item: Option<String>,
        arrival: Arrival,
    ) -> Option<Action> {
        match self.take_progress(op)? {
            Progress::Waiting(wait) => Some(match wait.finish {
                Finish::Ends(finish) => {
                    Action::Complete(op, item, Box::new(move || finish(arrival)))
                }
                Finish::GoesOn(go_on) => Action::GoOn(op, item, Box::new(move || go_on(arrival))),
            }),
            _ => None,
        }
    }
}

/// Whether a value is an answer to this question at all.
pub fn answers(question: &Question, value: &Value) -> bool {
    match question.kind {
        QuestionKind::Choice => value
            .as_str()
            .is_some_and(|choice| question.options.iter().any(|o| o == choice)),
        QuestionKind::Form => value.is_object() && unfit(question, value).is_none(),
        QuestionKind::Confirmation | QuestionKind::InDoubt => value.is_boolean(),
        QuestionKind::Approval => value.is_boolean() || is_decision(value),
        // The credential itself never comes here.
        QuestionKind::Authentication => {
            *value == Value::Bool(false) || value.get("given").is_some_and(|given| *given == true)
        }
        _ => true,
    }
}

/// Why an object does not fit the schema of a form.
pub(crate) fn unfit(question: &Question, value: &Value) -> Option<String> {
    let schema = question.schema.as_ref()?;
    let validator = jsonschema::validator_for(schema).ok()?;
    let fault = validator.iter_errors(value).next()?;
    Some(schema_fault(&fault))
}

/// Whether a value is a decision without unknown fields. If a misspelt `arguments` were ignored,
/// the model's own arguments would be approved.
fn is_decision(value: &Value) -> bool {
    let Value::Object(fields) = value else {
        return false;
    };
    let fits = |(name, value): (&String, &Value)| match name.as_str() {
        "approved" => value.is_boolean(),
        "arguments" => value.is_object() || value.is_null(),
        "remember" => value.is_boolean() || value.is_object() || value.is_null(),
        "reason" | "by" | "digest" => value.is_string() || value.is_null(),
        "value" => true,
        _ => false,
    };
    fields.contains_key("approved") && fields.iter().all(fits)
}
