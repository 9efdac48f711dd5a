//! How a cancelled run is closed.

use std::{borrow::Cow, sync::Arc};

use super::{Carrier, DEADLINE, Rest, note, rest_of};
use crate::{
    contract::StoreError,
    run::{
        Ports, ToolEnd, ToolInvocation,
        leg::{CallIdentity, Leg},
        operations,
    },
    vocabulary::{
        Begun, CallDigest, Entry, ErrorKind, OperationError, OperationId, Outcome, Spent,
        StopReason, ToolResult, ToolStatus,
    },
};

/// The leg under which undo steps stand: no function has it.
const UNDO_LEG: u32 = u32::MAX;

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
                // An undo step that was begun is dealt with where undo steps are.
                .filter(|(op, _)| op.leg != UNDO_LEG)
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
                leg: UNDO_LEG,
                branch: 0,
                number,
            };
            let recorded = leg.books.lock().recorded.get(&op).cloned();
            let (begun, done) = recorded.map_or((false, false), |call| (true, call.completed));
            let Some(definition) = self.pinned.tools.get(&call.name).filter(|_| !done).cloned()
            else {
                continue;
            };
            let digest = operations::tool_digest(&call.name, call.arguments.text()).into();
            let kind = "tool";
            if !begun && self.undo_begins(op, &call.name, digest).await.is_err() {
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
            let end = call_undo(self.driver.ports.clone(), invocation, begun).await;
            let identity = CallIdentity {
                kind,
                name: call.name,
                digest,
            };
            self.close_tool(op, identity, Some(end), "undo");
        }
    }

    /// Makes the start of an undo step durable.
    async fn undo_begins(
        &mut self,
        op: OperationId,
        tool: &str,
        digest: CallDigest,
    ) -> Result<(), StoreError> {
        self.driver.journal.append(&Entry::Started {
            op,
            kind: "tool".into(),
            name: tool.to_owned(),
            digest,
            begun: Begun::Effect,
        });
        self.driver.journal.flush();
        let entries = self.driver.journal.entries();
        self.driver.journal.durable.reached(entries).await
    }
}

/// Calls an undo step's tool. One that an earlier life began is not called again, unless its tool
/// knows that it did not happen.
async fn call_undo(ports: Arc<dyn Ports>, invocation: ToolInvocation, begun: bool) -> ToolEnd {
    let call = invocation.call.clone();
    let end = if begun {
        match ports.reconcile(invocation.clone()).await {
            ToolEnd::DidNotHappen => ports.tool(invocation).await,
            end => end,
        }
    } else {
        ports.tool(invocation).await
    };
    match end {
        ToolEnd::Later | ToolEnd::DidNotHappen => {
            let text = "no end was heard";
            ToolEnd::Result(ToolResult::new(&call, ToolStatus::Unknown, text))
        }
        end => end,
    }
}

fn interrupted(reason: &str) -> OperationError {
    OperationError::new(ErrorKind::Cancelled, format!("interrupted: {reason}"))
}
