//! How a cancelled run is closed.

use std::{borrow::Cow, sync::Arc};

use super::{Carrier, DEADLINE, Rest, note, rest_of};
use crate::{
    run::{
        ToolEnd, ToolInvocation,
        leg::{CallIdentity, Leg},
        operations,
    },
    vocabulary::{
        Begun, Entry, ErrorKind, OperationError, OperationId, Outcome, Spent, StopReason,
        ToolResult, ToolStatus,
    },
};

impl Carrier {
    /// Closes a run that is being cancelled: every open call gets its end, children end first,
    /// then the undo steps run in reverse, then the run ends.
    pub(super) async fn close(&mut self, leg: &Arc<Leg>, reason: String) -> Rest {
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

    pub(super) fn close_call(
        &mut self,
        op: OperationId,
        identity: CallIdentity,
        kind: Cow<'static, str>,
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

    pub(super) fn close_tool(
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
    pub(super) async fn undo(&mut self, leg: &Arc<Leg>) {
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
            let digest = operations::tool_digest(&call.name, call.arguments.text()).into();
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
}

fn interrupted(reason: &str) -> OperationError {
    OperationError::new(ErrorKind::Cancelled, format!("interrupted: {reason}"))
}
