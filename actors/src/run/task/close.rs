//! How a cancelled run is closed.

use std::{borrow::Cow, sync::Arc};

use super::{Carrier, DEADLINE, Rest, note, rest_of};
use crate::{
    contract::StoreError,
    run::{
        ToolEnd, ToolInvocation,
        leg::{CallIdentity, Leg},
        operations,
    },
    vocabulary::{
        Begun, Effect, Entry, ErrorKind, OperationError, OperationId, Outcome, RunId, StopReason,
        ToolResult, ToolStatus,
    },
};

/// The leg in whose name undo steps are recorded, beyond all legs that a function has.
const UNDO_LEG: u32 = u32::MAX;

impl Carrier {
    /// Closes a run that is being cancelled: every open call gets its end, children end first,
    /// then the undo steps run in reverse, then the run ends.
    ///
    /// `ran` says whether the function was run in this life.
    pub(super) async fn close(&mut self, leg: &Arc<Leg>, reason: String, ran: bool) -> Rest {
        self.driver.cancelled.cancel();
        self.driver.journal.flush();
        let mut open = self.driver.take_open();
        let mut recorded: Vec<_> = {
            let books = leg.books.lock();
            let unfinished = books
                .recorded
                .iter()
                .filter(|(_, call)| !call.completed && !call.dropped && call.begun.is_some());
            // Undo steps are dealt with where they are made.
            let unfinished = unfinished.filter(|(op, _)| op.leg != UNDO_LEG);
            unfinished.map(|(op, call)| (*op, call.clone())).collect()
        };
        recorded.sort_unstable_by_key(|(op, _)| *op);
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
        let children: Vec<RunId> = self.driver.children.keys().copied().collect();
        for run in children {
            self.driver.cancel_child(run, &reason);
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
        if let Err(error) = self.undo(leg).await {
            return Rest::Store(error);
        }
        let spent = if ran {
            leg.books.lock().spent
        } else {
            self.spent_before
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
    pub(super) async fn undo(&mut self, leg: &Arc<Leg>) -> Result<(), StoreError> {
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
            let started = recorded.is_some();
            let done = recorded.is_some_and(|call| call.completed);
            let Some(definition) = self.pinned.tools.get(&call.name).filter(|_| !done).cloned()
            else {
                continue;
            };
            if self.start.dry_run && definition.effect != Effect::Read {
                // Nothing was done that it could undo.
                continue;
            }
            let digest = operations::tool_digest(&call.name, call.arguments.text()).into();
            let (kind, name) = ("tool", call.name.clone());
            if !started {
                let begun = Begun::Effect;
                let entry = Entry::Started {
                    op,
                    kind: kind.into(),
                    name,
                    digest,
                    begun,
                };
                self.driver.journal.append(&entry);
            }
            self.driver.journal.flush();
            let entries = self.driver.journal.entries();
            self.driver.journal.durable.reached(entries).await?;
            let once = definition.effect == Effect::Once;
            let invocation = ToolInvocation {
                run: self.run,
                root: self.start.root,
                operation: op,
                agent: leg.agent.name.clone(),
                call: call.clone(),
                definition,
                deadline: None,
                credential: None,
            };
            let ports = &self.driver.ports;
            let end = if started && once {
                // It began in an earlier life, and is not repeated unless the tool says that it
                // did not happen.
                match ports.reconcile(invocation.clone()).await {
                    ToolEnd::DidNotHappen => ports.tool(invocation).await,
                    end => end,
                }
            } else {
                ports.tool(invocation).await
            };
            let end = match end {
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
        Ok(())
    }
}

fn interrupted(reason: &str) -> OperationError {
    OperationError::new(ErrorKind::Cancelled, format!("interrupted: {reason}"))
}
