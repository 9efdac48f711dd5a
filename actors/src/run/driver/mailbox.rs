//! Mailbox items: messages, answers and results from outside.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::{ActEvent, Driver, LegEnd};
use crate::{
    contract::{ItemBody, MailboxItem},
    run::{
        ToolEnd, WaitFor,
        leg::Leg,
        operation::{Arrival, Made},
        operations::{CallTool, cut_short, outlasts_journal, schema_fault},
        words::Said,
    },
    vocabulary::{
        Entry, ErrorKind, Family, JournalId, OperationError, OperationId, OperationMap, Question,
        QuestionKind, StopReason,
    },
};

/// Items that came for a run and are not handled yet. Each item is read once in an incarnation of the run,
/// and found by its receiver, however many items wait.
#[derive(Default)]
pub(super) struct Mailbox {
    /// The mailboxes from which they come, each with the mark of the last item that was read there.
    read: Vec<(JournalId, u64)>,
    /// Items that were read and not looked at.
    new: VecDeque<MailboxItem>,
    /// What people said to the run, on its way to the leg.
    pub(super) said: Vec<Said>,
    /// Messages that no operation has received, by their names.
    messages: HashMap<String, VecDeque<(String, Value)>>,
    /// Items for operations that do not wait for them yet.
    for_operations: OperationMap<VecDeque<(String, Arrival)>>,
    /// Operations that began to wait since the items were last matched.
    awaited: VecDeque<OperationId>,
}

impl Mailbox {
    /// What came into these mailboxes.
    pub(super) fn of(mailboxes: &[JournalId]) -> Self {
        let read = mailboxes.iter().map(|mailbox| (mailbox.clone(), 0));
        Self {
            read: read.collect(),
            ..Self::default()
        }
    }

    /// Notes that an operation waits from now on. Its item may be here already.
    pub(super) fn awaited(&mut self, op: OperationId) {
        self.awaited.push_back(op);
    }

    /// The oldest message of this name.
    fn message(&mut self, name: &str) -> Option<(String, Value)> {
        let messages = self.messages.get_mut(name)?;
        let oldest = messages.pop_front();
        if messages.is_empty() {
            self.messages.remove(name);
        }
        oldest
    }
}

impl Driver {
    /// Reads what is new in the mailbox.
    ///
    /// # Errors
    /// It holds the run's cancellation, or cannot be read.
    pub(crate) async fn read_mailbox(&mut self) -> Result<(), LegEnd> {
        let own = JournalId::Run(self.journal.run());
        for (mailbox, read) in &mut self.mailbox.read {
            let items = self.ports.store().mailbox_after(mailbox.clone(), *read);
            for (mark, item) in items.await.map_err(LegEnd::Store)? {
                *read = mark.max(*read);
                if *mailbox != own && !outlasts_journal(&item.body) {
                    // It is for another journal of the run, or for the session's agent.
                    continue;
                }
                let (turn, message) = match item.body {
                    ItemBody::Cancel { reason, stop } => {
                        self.journal.acknowledge(item.id);
                        let stop = stop.unwrap_or(StopReason::Cancelled(reason));
                        return Err(LegEnd::Cancel(stop));
                    }
                    ItemBody::Steer(message) => (None, message),
                    ItemBody::Turn { turn, message, .. } => (Some(turn), message),
                    body => {
                        self.mailbox.new.push_back(MailboxItem { body, ..item });
                        continue;
                    }
                };
                self.mailbox.said.push(Said {
                    item: item.id,
                    at: item.at,
                    turn,
                    message,
                });
            }
        }
        self.mailbox.said.sort_by_key(|said| said.at);
        Ok(())
    }

    /// Gives an item of the mailbox to an operation that waits for it, one at a time: the function
    /// goes on with each result before it gets the next, as in replay. `true` when an operation
    /// ended.
    pub(super) fn match_mailbox(&mut self, leg: &Leg) -> bool {
        while let Some(op) = self.mailbox.awaited.front().copied() {
            let ended = match self.waits.of(op) {
                Some(WaitFor::Message(name)) => {
                    let name = name.clone();
                    self.match_message(leg, &name)
                }
                _ => self.match_operation(leg, op),
            };
            if ended {
                return true;
            }
            self.mailbox.awaited.pop_front();
        }
        while let Some(item) = self.mailbox.new.pop_front() {
            if self.match_item(leg, item) {
                return true;
            }
        }
        false
    }

    /// Deals with one item, or keeps it. `true` when an operation ended.
    fn match_item(&mut self, leg: &Leg, item: MailboxItem) -> bool {
        let MailboxItem { id, body, .. } = item;
        match body {
            ItemBody::Answer { operation, value } => {
                self.keep_for(leg, operation, (id, Arrival::Answer(value)))
            }
            ItemBody::Result { operation, result } => {
                self.keep_for(leg, operation, (id, Arrival::Result(result)))
            }
            ItemBody::Message { name, value } => {
                let messages = self.mailbox.messages.entry(name.clone()).or_default();
                messages.push_back((id, value));
                self.match_message(leg, &name)
            }
            ItemBody::CancelCall { operation } => self.cancel_call(leg, operation, id),
            ItemBody::Cancel { .. } | ItemBody::Retry => {
                self.journal.acknowledge(id);
                false
            }
            // What people said was taken out when it was read. The others are for the processes that
            // post and begin turns.
            ItemBody::Steer(_)
            | ItemBody::Turn { .. }
            | ItemBody::Begin(_)
            | ItemBody::Begun { .. } => false,
        }
    }

    fn keep_for(&mut self, leg: &Leg, op: OperationId, item: (String, Arrival)) -> bool {
        let items = self.mailbox.for_operations.entry(op).or_default();
        items.push_back(item);
        self.match_operation(leg, op)
    }

    /// Gives the oldest message of this name that has the right form to the first operation that waits for one.
    fn match_message(&mut self, leg: &Leg, name: &str) -> bool {
        let Some(op) = self.waits.receiver(name) else {
            return false;
        };
        while let Some((id, value)) = self.mailbox.message(name) {
            self.journal.acknowledge(id);
            let Some(fault) = self.waits.misread(op, &value) else {
                self.arrive(leg, op, Arrival::Message(value));
                return true;
            };
            // Whoever sent it does not end an agent by it.
            let fault = crate::safety::sanitize_line(&fault, 500);
            let message =
                format!("the message {name:?} does not have the form that is received: {fault}");
            let reason = OperationError::new(ErrorKind::Malformed, message).into();
            self.journal.append(Entry::Quarantined { op, reason });
        }
        false
    }

    /// Gives an operation the items that came for it, if it waits. Items that do not end its
    /// waiting are struck off, and so are items for an operation that has ended.
    fn match_operation(&mut self, leg: &Leg, op: OperationId) -> bool {
        let Some(mut items) = self.mailbox.for_operations.remove(&op) else {
            return false;
        };
        let Some(wait_for) = self.waits.of(op) else {
            if leg.recorded(op).is_some_and(|call| call.completed) {
                items
                    .into_iter()
                    .for_each(|(id, _)| self.journal.acknowledge(id));
            } else {
                // It has not begun yet in this incarnation, or does not wait yet.
                self.mailbox.for_operations.insert(op, items);
            }
            return false;
        };
        let answer = items.iter().position(|(_, came)| fits(wait_for, came));
        let answer = answer.and_then(|place| items.remove(place));
        items
            .into_iter()
            .for_each(|(id, _)| self.journal.acknowledge(id));
        let Some((id, arrival)) = answer else {
            return false;
        };
        self.journal.acknowledge(id);
        self.arrive(leg, op, arrival);
        true
    }

    /// Strikes off the messages that the function has just got, with this operation or before it. If
    /// that could not be recorded, the messages stay for the next time.
    pub(super) fn acknowledge_heard(&mut self, leg: &Leg, op: OperationId, recorded: bool) {
        let heard = leg.words.take_taken();
        if !recorded {
            return leg.words.give_back(heard);
        }
        for said in heard {
            self.journal.acknowledge(said.item);
            if let Some(turn) = said.turn {
                self.heard.push(turn.clone());
                self.journal.append(Entry::TurnHeard { op, turn });
            }
        }
    }

    /// Strikes off the items for an operation that has ended.
    pub(super) fn acknowledge_items_for(&mut self, op: OperationId) {
        let items = self.mailbox.for_operations.remove(&op);
        for (id, _) in items.into_iter().flatten() {
            self.journal.acknowledge(id);
        }
    }

    pub(super) fn arrive(&mut self, leg: &Leg, op: OperationId, arrival: Arrival) {
        if let Some(wait) = self.waits.remove(op) {
            let made = (wait.finish)(arrival);
            self.complete(leg, op, made);
        }
    }

    /// Cancels one call from outside. The function gets an error and goes on. If a `once` tool
    /// comes to a known end within its grace period, that end counts. An operation that is not
    /// under way cannot be cancelled. `true` when the call has ended.
    fn cancel_call(&mut self, leg: &Leg, op: OperationId, item: String) -> bool {
        let Some(under) = self.under.get_mut(&op) else {
            self.journal.acknowledge(item);
            return false;
        };
        under.items.push(item);
        if under.items.len() > 1 {
            // The call is being cancelled already.
            return false;
        }
        under.cancelled.cancel();
        if let Some(unsaved) = under.unsaved.clone() {
            // Everything but the change of state is done, so the end is known.
            self.complete(leg, op, Ok(unsaved(&cancelled())));
            return true;
        }
        let is_aborted = Family::of(&under.identity.kind).is_aborted();
        if is_aborted && under.once && self.waits.of(op).is_none() {
            let abort = self.ports.abort_tool(leg.run, op);
            self.acts.push(Box::pin(
                async move { (op, ActEvent::Aborted(abort.await)) },
            ));
            return false;
        }
        if is_aborted {
            self.abort_in_background(leg.run, op);
        }
        self.let_child_go(op, "this call was cancelled");
        self.complete(leg, op, Err(cancelled()));
        true
    }

    /// Records the end of a cancelled `once` call that can do nothing more.
    pub(super) fn aborted(&mut self, leg: &Leg, op: OperationId, end: Option<ToolEnd>) {
        let result = cut_short(end, cancelled());
        let made = result.map(Made::by::<CallTool>);
        self.complete_with(leg, op, made, None);
    }

    pub(super) fn fire_timer(&mut self, leg: &Leg) {
        let clock = self.ports.clock();
        let Some(op) = self.waits.due(clock.now(), clock.forward()) else {
            return;
        };
        match self.waits.of(op) {
            Some(WaitFor::Timer(_)) => self.arrive(leg, op, Arrival::Timer),
            Some(WaitFor::Answer(question)) => match &question.default {
                Some(default) => {
                    let answer = Arrival::Answer(default.clone());
                    self.arrive(leg, op, answer);
                }
                None => {
                    let message = format!("nobody answered in time: {}", question.prompt);
                    let error = OperationError::new(ErrorKind::Expired, message);
                    self.complete(leg, op, Err(error));
                }
            },
            _ => drop(self.waits.remove(op)),
        }
    }
}

fn cancelled() -> OperationError {
    OperationError::new(ErrorKind::Cancelled, "this call was cancelled")
}

/// Whether this arrival ends this wait.
fn fits(wait_for: &WaitFor, arrival: &Arrival) -> bool {
    match (wait_for, arrival) {
        (WaitFor::Answer(question), Arrival::Answer(value)) => answers(question, value),
        (WaitFor::Result, Arrival::Result(_)) | (WaitFor::Message(_), Arrival::Message(_)) => true,
        _ => false,
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
