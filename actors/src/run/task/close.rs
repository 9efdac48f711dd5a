//! The closing of a cancelled run.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::{Carrier, Rested};
use crate::{
    contract::{ItemBody, MailboxItem, StoreError},
    run::{
        ToolEnd, ToolInvocation,
        completed::Made,
        leg::{CallIdentity, Leg},
        operations::{
            CallTool, TeamToolState, call_or_reconcile, changes::Changing, cut_short,
            still_running, tool_digest,
        },
        recorded_call::RecordedCall,
    },
    vocabulary::{
        AgentError, Begun, Effect, ErrorKind, Family, OperationError, OperationId, RunId, Spent,
        StopReason, ToolResult, ToolStatus,
    },
};

/// The leg number under which undo steps are recorded. No function has a leg of this number.
const UNDO_LEG: u32 = u32::MAX;

impl Carrier {
    /// Closes a run that is being cancelled: every open call gets its end, children end first,
    /// then the undo steps run in reverse, then the run ends. The cancellation is recorded first, since the function
    /// is not told of these ends, and so must not run again in a later incarnation.
    pub(super) async fn close(&mut self, leg: &Leg, stop: StopReason) -> Rested {
        let reason = match &stop {
            StopReason::Cancelled(reason) => reason.clone(),
            other => other.to_string(),
        };
        // In one batch with the taking of the message that asked for it, which would be lost otherwise.
        self.record_cancel(stop.clone());
        self.driver.cancelled.cancel();
        self.driver.end_unsaved(leg, &interrupted(&reason));
        let open = self.driver.take_open(leg);
        let mut recorded = leg.machine().unfinished();
        // Undo steps are handled in `undo`.
        recorded.retain(|(op, _)| op.leg != UNDO_LEG);
        let children: Vec<RunId> = self.driver.children.keys().copied().collect();
        let (tools, open): (Vec<_>, Vec<_>) = open
            .into_iter()
            .partition(|(_, call)| Family::of(&call.identity.kind).is_aborted());
        if !(recorded.is_empty() && children.is_empty() && tools.is_empty()) {
            // It is written before anyone else is told of it, and seen while they take their time.
            self.driver.journal.flush();
        }
        for (op, call) in recorded {
            self.driver.cancel_recorded_child(leg, op, &call, &reason);
            let spent = call.charge();
            let end = call.is_in_doubt().then(ToolEnd::unknown);
            self.close_call(op, &call.identity, end, &reason, spent);
        }
        for run in children {
            self.driver.cancel_child(run, &reason);
        }
        let aborts: Vec<_> = tools
            .into_iter()
            .map(|(op, call)| {
                let abort = self.driver.ports.abort_tool(self.run, op);
                async move { (op, call, abort.await) }
            })
            .collect();
        for (op, call) in open {
            self.close_call(op, &call.identity, None, &reason, call.charge());
        }
        // The grace periods of the calls run side by side.
        for (op, call, end) in join_all(aborts).await {
            let before = leg
                .machine()
                .recorded(op)
                .is_some_and(RecordedCall::is_in_doubt);
            let is_in_doubt = before || call.is_in_doubt();
            let end = end.or_else(|| is_in_doubt.then(ToolEnd::unknown));
            self.close_call(op, &call.identity, end, &reason, call.charge());
        }
        self.cancel_continuing(&reason).await?;
        self.driver.journal.flush();
        self.driver.settle_background(leg).await?;
        self.undo(leg).await?;
        let messages = self.broken_off(leg, &stop.to_string()).await?;
        let returned = match stop {
            StopReason::Expired(_) => {
                let expired = OperationError::new(ErrorKind::Expired, stop.to_string());
                Err(AgentError::Operation(expired))
            }
            stop => Ok(self.closed(leg, stop).await?),
        };
        self.end(leg, returned, messages).await
    }

    /// Cancels the children that outlive this run's end, but not its cancellation. They are trees
    /// of their own, so the command goes through their mailboxes. A repetition after a crash changes
    /// nothing.
    async fn cancel_continuing(&mut self, reason: &str) -> Result<(), StoreError> {
        let continuing = std::mem::take(&mut self.driver.continuing);
        if continuing.is_empty() {
            return Ok(());
        }
        // A child whose record is not durable yet has no mailbox.
        self.driver.journal.settle().await?;
        for run in continuing {
            let (reason, stop) = (reason.to_owned(), None);
            let body = ItemBody::Cancel { reason, stop };
            let item = MailboxItem::new("cancel", self.driver.journal.now(), body);
            match self.driver.ports.post(run, item).await {
                // A child that has ended is not there any more.
                Err(error) if error.kind != ErrorKind::NotFound => {
                    // This run does not end either, and its next incarnation tells the child again.
                    return Err(StoreError::Io {
                        place: format!("the cancellation of run {run}"),
                        reason: error.message,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Records the end of a call, of which `end` is what is known.
    fn close_call(
        &mut self,
        op: OperationId,
        identity: &CallIdentity,
        end: Option<ToolEnd>,
        reason: &str,
        spent: Spent,
    ) {
        let result = match end {
            Some(ToolEnd::StillRunning) => Err(still_running(identity.name(), reason)),
            end => cut_short(end, interrupted(reason)),
        };
        let mut made = result.map(|result| Made::new(result, spent));
        let journal = &mut self.driver.journal;
        // An end that cannot be encoded is recorded as an error that says so.
        let _ = journal.append_completed(op, identity.clone(), &mut made, spent, None);
        self.driver.ledger.charge(spent);
    }

    /// Calls the undo steps, the latest first.
    async fn undo(&mut self, leg: &Leg) -> Result<(), StoreError> {
        let mut steps = std::mem::take(&mut self.recorded.undo);
        steps.append(&mut leg.books.lock().undo);
        for (number, (agent, call)) in steps.into_iter().rev().enumerate() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let op = OperationId {
                leg: UNDO_LEG,
                lane: 0,
                number,
            };
            let recorded = leg.machine().recorded(op).cloned();
            let started = recorded.is_some();
            let done = recorded.is_some_and(|call| call.completed);
            let top = self.start.top();
            let Some(agent) = self.pinned.agent(&agent, top).filter(|_| !done) else {
                continue;
            };
            let Some(definition) = self.pinned.tool(&agent.name, &call.name).cloned() else {
                continue;
            };
            if self.start.dry_run && definition.effect != Effect::Read {
                // There is nothing to undo.
                continue;
            }
            let effect = definition.effect;
            let once = effect == Effect::Once;
            let digest = tool_digest(&call.name, call.arguments.text());
            let identity = CallIdentity::new("tool", &call.name, digest, None);
            let mut invocation = ToolInvocation {
                run: self.run,
                root: self.start.root,
                operation: op,
                agent: agent.name.clone(),
                origin: leg.origin.clone(),
                previews: leg.previews(&*self.driver.ports),
                code: self.code.tool_of(&agent, &call.name),
                call: Arc::new(call.clone()),
                definition,
                deadline: None,
                credential: None,
                continued: None,
                kept: TeamToolState::shared(leg, &self.driver.ports),
                slot: None,
                cancelled: CancellationToken::new(),
            };
            if !started {
                invocation.slot = Some(self.driver.ports.slot(&invocation).await);
                let entry = identity.clone().started(op, Begun::Effect);
                self.driver.journal.append(entry);
            }
            self.driver.journal.settle().await?;
            let durable = self.driver.journal.durable.clone();
            durable.confirm().await?;
            let ports = &*self.driver.ports;
            let asks = started && once;
            let invocation = Arc::new(invocation);
            let end = call_or_reconcile(ports, (leg, &durable), &invocation, asks).await?;
            let end = match end {
                ToolEnd::Changing(result, changes) => {
                    let changing = Changing::of(op, leg, &self.driver.ports, effect);
                    let write = changing.write(result, changes).map(Made::by::<CallTool>);
                    self.driver
                        .record_write(leg, (op, &identity), write)
                        .await?;
                    continue;
                }
                ToolEnd::Later
                | ToolEnd::Continues(_)
                | ToolEnd::DidNotHappen
                | ToolEnd::StillRunning => ToolEnd::Result(ToolResult::new(
                    &call,
                    ToolStatus::Unknown,
                    "no end was heard",
                )),
                end => end,
            };
            self.driver.write_emissions(leg, op);
            let spent = Family::of(&identity.kind).consumed();
            self.close_call(op, &identity, Some(end), "undo", spent);
        }
        Ok(())
    }
}

fn interrupted(reason: &str) -> OperationError {
    OperationError::new(ErrorKind::Cancelled, format!("interrupted: {reason}"))
}
