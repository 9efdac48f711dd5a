//! What comes from outside.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use serde_json::Value;

use super::{Driver, LegEnd};
use crate::{
    contract::{InboxBody, InboxItem, StoreError},
    run::{
        ToolEnd, WaitFor,
        leg::{Leg, Steering},
        operation::{Arrival, ErasedProgress, ErasedWait, Made},
        operations::{changes::unsaved, outlasts_journal},
    },
    vocabulary::{
        ErrorKind, OperationError, OperationId, Question, QuestionKind, StopReason, ToolResult,
    },
};

impl Driver {
    /// Reads the inbox. `Some` when it holds the run's cancellation or cannot be read.
    pub(crate) async fn read_inbox(&mut self) -> Option<LegEnd> {
        let items = match self.ports.inbox(self.journal.run).await {
            Ok(items) => items,
            Err(error) => return Some(LegEnd::Store(error)),
        };
        for item in items {
            if !self.seen.insert(item.id.clone()) {
                continue;
            }
            if let InboxBody::Cancel { reason } = item.body {
                self.journal.strike(item.id);
                return Some(LegEnd::Cancel {
                    stop: StopReason::Cancelled(reason),
                    record: true,
                });
            }
            self.inbox.push_back(item);
        }
        None
    }

    /// What came for the run, in whatever journal it goes on, and was not dealt with.
    pub(crate) async fn unread(&mut self, leg: &Leg) -> Result<Vec<InboxItem>, StoreError> {
        let mut items = self.ports.inbox(self.journal.run).await?;
        let steering = leg.steering.lock();
        let held = self.inbox.iter().map(|item| &item.id);
        let held: HashSet<&String> = held.chain(steering.iter().map(|said| &said.item)).collect();
        items.retain(|item| {
            let unread = !self.seen.contains(&item.id) || held.contains(&item.id);
            unread && outlasts_journal(&item.body)
        });
        Ok(items)
    }

    /// Gives what is in the inbox to the operations that wait for it.
    pub(super) fn match_inbox(&mut self, leg: &Arc<Leg>) {
        let mut kept = VecDeque::new();
        while let Some(item) = self.inbox.pop_front() {
            if let Some(item) = self.match_item(leg, item) {
                kept.push_back(item);
            }
        }
        self.inbox = kept;
    }

    /// Deals with one item, or gives it back.
    pub(super) fn match_item(&mut self, leg: &Arc<Leg>, item: InboxItem) -> Option<InboxItem> {
        let (op, arrival) = match &item.body {
            InboxBody::Answer { operation, value } => {
                (Some(*operation), Arrival::Answer(value.clone()))
            }
            InboxBody::Result { operation, result } => {
                (Some(*operation), Arrival::Result(result.clone()))
            }
            InboxBody::Message { name, value } => {
                let waiting = |wait: &ErasedWait| match &wait.wait_for {
                    WaitFor::Message(wanted) => wanted == name,
                    _ => false,
                };
                let mut ops: Vec<_> = self.waits.iter().filter(|(_, w)| waiting(w)).collect();
                ops.sort_by_key(|(op, _)| **op);
                let op = ops.first().map(|(op, _)| **op);
                let Some(op) = op else { return Some(item) };
                (Some(op), Arrival::Message(value.clone()))
            }
            InboxBody::Steer(message) | InboxBody::Turn { message, .. } => {
                let turn = match &item.body {
                    InboxBody::Turn { turn, .. } => Some(turn.clone()),
                    _ => None,
                };
                let message = message.clone();
                let item = item.id;
                leg.steering.lock().push(Steering {
                    item,
                    turn,
                    message,
                });
                return None;
            }
            InboxBody::CancelCall { operation } => {
                self.cancel_call(leg, *operation, item.id);
                return None;
            }
            InboxBody::Cancel { .. } | InboxBody::Retry => {
                self.journal.strike(item.id);
                return None;
            }
        };
        let op = op?;
        let fits = self
            .waits
            .get(&op)
            .is_some_and(|wait| fits(&wait.wait_for, &arrival));
        if fits {
            self.journal.strike(item.id);
            self.arrive(leg, op, arrival);
            return None;
        }
        let over = leg
            .books
            .lock()
            .recorded
            .get(&op)
            .is_some_and(|call| call.completed);
        if over || self.waits.contains_key(&op) {
            // The question is answered already, or this is no answer to it.
            self.journal.strike(item.id);
            return None;
        }
        Some(item)
    }

    pub(super) fn arrive(&mut self, leg: &Arc<Leg>, op: OperationId, arrival: Arrival) {
        if let Some(wait) = self.waits.remove(&op) {
            let made = (wait.finish)(arrival);
            self.complete(leg, op, made);
        }
    }

    /// Ends one call from outside; the function gets an error and goes on. A `once` tool may come
    /// to a known end within its grace period, which then counts. An operation that is not under
    /// way is not there to be cancelled.
    pub(super) fn cancel_call(&mut self, leg: &Arc<Leg>, op: OperationId, item: String) {
        let Some(under) = self.under.get_mut(&op) else {
            self.journal.strike(item);
            return;
        };
        under.items.push(item);
        if under.items.len() > 1 {
            // It is being cancelled.
            return;
        }
        under.cancelled.cancel();
        if let Some(unsaved) = under.unsaved.clone() {
            // All else is done, and its end is known.
            self.complete(leg, op, unsaved(&cancelled()));
            return;
        }
        let is_tool = under.identity.kind == "tool";
        if is_tool && under.once && !self.waits.contains_key(&op) {
            let abort = self.ports.abort_tool(leg.run, op);
            self.acts.push(Box::pin(async move {
                (op, ErasedProgress::Aborted(abort.await))
            }));
            return;
        }
        if is_tool {
            self.abort_in_background(leg.run, op);
        }
        self.let_child_go(op, "this call was cancelled");
        self.complete(leg, op, Made::failed(cancelled()));
    }

    /// A `once` call that was to be cancelled can do nothing more.
    pub(super) fn aborted(&mut self, leg: &Arc<Leg>, op: OperationId, end: Option<ToolEnd>) {
        let made = match end {
            Some(ToolEnd::Result(result)) => Made::of::<ToolResult>(Ok(result)),
            // What a call changes that was to be cancelled is not wanted.
            Some(ToolEnd::Changing(result, _)) => {
                Made::of(Ok(unsaved(&result, true, &cancelled())))
            }
            Some(ToolEnd::InDoubt(why)) => {
                Made::failed(OperationError::new(ErrorKind::InDoubt, why))
            }
            _ => Made::failed(cancelled()),
        };
        self.complete(leg, op, made);
    }

    pub(super) fn fire_timer(&mut self, leg: &Arc<Leg>) {
        let now = self.journal.now();
        let Some((at, op)) = self.timers.first().copied() else {
            return;
        };
        if at > now {
            return;
        }
        self.timers.remove(&(at, op));
        match self.waits.get(&op).map(|wait| &wait.wait_for) {
            Some(WaitFor::Timer(_)) => self.arrive(leg, op, Arrival::Timer),
            Some(WaitFor::Answer(question)) => match &question.default {
                Some(default) => {
                    let answer = Arrival::Answer(default.clone());
                    self.arrive(leg, op, answer);
                }
                None => {
                    let message = format!("nobody answered in time: {}", question.prompt);
                    let error = OperationError::new(ErrorKind::Expired, message);
                    self.complete(leg, op, Made::failed(error));
                }
            },
            _ => {}
        }
    }
}

fn cancelled() -> OperationError {
    OperationError::new(ErrorKind::Cancelled, "this call was cancelled")
}

/// Whether this arrival ends this waiting.
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
        QuestionKind::Confirmation | QuestionKind::InDoubt => value.is_boolean(),
        QuestionKind::Approval => value.is_boolean() || is_decision(value),
        // What is given itself never comes here.
        QuestionKind::Authentication => {
            *value == Value::Bool(false) || value.get("given").is_some_and(|given| *given == true)
        }
        _ => true,
    }
}

/// Whether it is a decision and nothing besides: where a misspelt `arguments` were passed over,
/// what the model wrote would be approved.
fn is_decision(value: &Value) -> bool {
    let Value::Object(fields) = value else {
        return false;
    };
    let fits = |(name, value): (&String, &Value)| match name.as_str() {
        "approved" => value.is_boolean(),
        "arguments" => value.is_object() || value.is_null(),
        "remember" => value.is_boolean() || value.is_object() || value.is_null(),
        "reason" | "by" => value.is_string() || value.is_null(),
        "value" => true,
        _ => false,
    };
    fields.contains_key("approved") && fields.iter().all(fits)
}
