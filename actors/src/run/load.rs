//! A run's journal, folded into the state from which its driver goes on.

use std::{collections::VecDeque, sync::Arc};

use serde_json::value::RawValue;

use super::{
    call_identity::CallIdentity,
    ledger::{Allowance, Ledger},
    leg_start::LegStart,
    recorded_call::{Record, RecordedCall},
    recorded_change::recorded_change_of,
    recorded_note::{RecordedNote, Versions},
    recorded_result::is_error,
    steering::HeardAt,
    temp::Temp,
};
use crate::{
    contract::{StoreError, StoredLine},
    vocabulary::{
        AgentError, Begun, Budget, Entry, Family, Message, OperationId, OperationMap, ParentPolicy,
        RunEnd, RunId, RunStart, Scope, StopReason, ToolCall,
    },
};

/// The content of a journal about a run.
#[derive(Debug, Default)]
pub struct Recorded {
    /// How the run began.
    pub start: Option<Arc<RunStart>>,
    /// How it ended.
    pub end: Option<RunEnd>,
    /// Why it is parked, if nothing came after that.
    pub parked: Option<AgentError>,
    /// The reason of its end, when it is being cancelled.
    pub cancel: Option<StopReason>,
    /// How its last leg began.
    pub(crate) leg: LegStart,
    /// The turns that were sent to the run while it was under way, and that it heard.
    pub(crate) heard: Vec<String>,
    /// The books of its budget.
    pub(crate) ledger: Ledger,
    /// The leg's results in the order in which they were delivered.
    pub(crate) deliveries: VecDeque<RecordedDelivery>,
    /// The leg's operations and notes, by their places.
    pub(crate) record: OperationMap<Record>,
    /// The words of people that the leg's function heard before a model request.
    pub(crate) words: HeardAt,
    /// The words of people that children have heard instead of the leg's function.
    pub(crate) heard_below: Vec<Arc<Message>>,
    /// Children of all legs whose end this journal does not know.
    pub(crate) children: Vec<RecordedChild>,
    /// Children whose operation the function dropped, and whose end this journal does not know.
    pub(crate) unwanted: Vec<RecordedChild>,
    /// Children that outlive this run's end, but not its cancellation.
    pub(crate) continuing: Vec<RunId>,
    /// All children that outlive this run's end, including those that outlive its cancellation.
    pub(crate) outliving: Vec<RunId>,
    pub(crate) undo: Vec<(String, ToolCall)>,
    /// The run's temporary state.
    pub(crate) temp: Temp,
    /// The variants of changed code that the run uses.
    pub(crate) versions: Versions,
    /// How often the function was lost since anything else was recorded.
    pub(crate) crashes: u32,
    /// The process that took the run over, and how often it was interrupted by then, if nothing but crashes was
    /// recorded after it.
    pub(crate) taken_over: Option<(u32, u32)>,
    /// The operation that received a message, if nothing but crashes was recorded after it.
    pub(crate) received: Option<OperationId>,
}

/// A child run whose start is recorded.
#[derive(Clone, Debug)]
pub(crate) struct RecordedChild {
    pub(crate) op: OperationId,
    pub(crate) run: RunId,
    pub(crate) agent: String,
}

/// A result that is recorded.
#[derive(Debug)]
pub(crate) struct RecordedDelivery {
    pub(crate) op: OperationId,
    pub(crate) result: Box<RawValue>,
}

impl Recorded {
    /// The journal of a run that has just begun.
    pub fn begun(start: impl Into<Arc<RunStart>>) -> Self {
        let mut recorded = Self::default();
        recorded.begin(start.into());
        recorded
    }

    fn begin(&mut self, start: Arc<RunStart>) {
        self.leg.agent.clone_from(&start.agent);
        self.ledger = Ledger::of(&start);
        self.start = Some(start);
    }

    /// The start of this run, with which its journal begins.
    pub(crate) fn started(&self, run: RunId) -> Result<Arc<RunStart>, StoreError> {
        self.start.clone().ok_or_else(|| StoreError::Damaged {
            place: format!("run {run}"),
            reason: "its journal does not begin with the run's start".to_owned(),
        })
    }

    /// Folds a journal.
    ///
    /// # Errors
    /// [`StoreError::Newer`] for an entry of a later program, [`StoreError::Damaged`] for one that
    /// does not read.
    pub fn fold(lines: &[StoredLine], run: RunId) -> Result<Self, StoreError> {
        let mut recorded = Self::default();
        recorded.extend(lines, run)?;
        Ok(recorded)
    }

    /// Folds further entries.
    ///
    /// # Errors
    /// As [`fold`](Self::fold).
    pub(crate) fn extend(&mut self, lines: &[StoredLine], run: RunId) -> Result<(), StoreError> {
        for stored in lines {
            self.add(stored.sequence, stored.decode(&run.into())?);
        }
        Ok(())
    }

    /// Folds further entries of a run whose [`allowance`](Self::allowance) alone is wanted. Of what
    /// its operations came to nothing is kept.
    ///
    /// # Errors
    /// As [`fold`](Self::fold).
    pub fn reckon(&mut self, lines: &[StoredLine], run: RunId) -> Result<(), StoreError> {
        for stored in lines {
            self.add(stored.sequence, stored.decode(&run.into())?);
            self.deliveries.clear();
            self.record.clear();
            self.words.clear();
        }
        Ok(())
    }

    /// Folds the next entry.
    pub(crate) fn add(&mut self, sequence: u64, entry: Entry) {
        if let Some(changed) = recorded_change_of(&entry, &Scope::Temp) {
            self.temp.record(changed);
        }
        match &entry {
            Entry::Restarted { .. } => self.crashes += 1,
            Entry::Activated {
                process,
                interrupted,
                ..
            } => self.taken_over = Some((*process, *interrupted)),
            _ => {
                self.crashes = 0;
                self.taken_over = None;
                self.received = match &entry {
                    Entry::Completed { op, kind, .. } if Family::of(kind) == Family::Receive => {
                        Some(*op)
                    }
                    _ => None,
                };
            }
        }
        match entry {
            Entry::RunStarted(start) => self.begin(Arc::from(start)),
            Entry::LegStarted {
                leg,
                agent,
                request,
                messages,
                callers,
                returned_by,
                heard,
                ..
            } => {
                self.leg = LegStart {
                    number: leg,
                    agent,
                    request,
                    said: messages,
                    heard,
                    callers,
                    returned_by,
                };
                self.deliveries.clear();
                self.record.clear();
                self.words.clear();
                self.heard_below.clear();
            }
            Entry::Heard { place, message, .. } if place == Entry::HEARD_BELOW => {
                self.heard_below.push(Arc::from(message));
            }
            Entry::Heard { op, place, message } => {
                let here = self.words.entry((op.lane, place)).or_default();
                here.push(*message);
            }
            Entry::TurnHeard { turn, .. } => self.heard.push(turn),
            Entry::Started {
                op,
                kind,
                name,
                digest,
                begun,
                asked_by,
            } => {
                if let Begun::Child(run) = begun {
                    let agent = name.clone();
                    self.ledger.reserve(op, Budget::default());
                    self.children.push(RecordedChild { op, run, agent });
                }
                let identity = CallIdentity::new(kind, name, digest, asked_by);
                self.record_call(op, identity, Some(begun), false);
            }
            Entry::Completed {
                op,
                kind,
                name,
                digest,
                result,
                spent,
                asked_by,
                ..
            } => {
                self.ledger.charge(spent);
                let begun = self.call(op).and_then(|call| call.begun.take());
                if Family::of(&kind) == Family::Delegate {
                    let ended = self.take_children(op);
                    if is_error(&result) {
                        // Nobody waits for the child, but this journal does not hold its end.
                        self.unwanted.extend(ended);
                    } else {
                        self.ledger.settle(op);
                    }
                }
                let identity = CallIdentity::new(kind, name, digest, asked_by);
                self.record_call(op, identity, begun, true);
                self.deliveries.push_back(RecordedDelivery { op, result });
            }
            Entry::Dropped { op, spent } => {
                self.ledger.charge(spent);
                let unwanted = self.take_children(op);
                self.unwanted.extend(unwanted);
                if let Some(call) = self.call(op) {
                    call.dropped = true;
                }
            }
            Entry::Granted {
                op,
                budget,
                when_parent_ends,
            } => {
                if when_parent_ends.outlives() {
                    // The child is a tree of its own, which is recovered by itself once it has
                    // begun.
                    let children = self.take_children(op).into_iter();
                    let runs: Vec<RunId> = children.map(|child| child.run).collect();
                    if when_parent_ends == ParentPolicy::Continue {
                        self.continuing.extend(&runs);
                    }
                    self.outliving.extend(runs);
                    self.ledger.give(op, &budget);
                } else {
                    self.ledger.reserve(op, budget);
                }
            }
            Entry::Settled { op, spent } => {
                self.unwanted.retain(|child| child.op != op);
                self.children.retain(|child| child.op != op);
                if self.ledger.settle(op) {
                    self.ledger.charge(spent);
                }
            }
            Entry::BudgetWarned {
                resource, percent, ..
            } => self.ledger.warned(resource, percent),
            // An interceptor's emission has the id of the call that it is about, and stands before
            // the call's end.
            Entry::Emitted { op, .. } if self.call(op).is_some() => {}
            Entry::Emitted { .. } | Entry::CallAnswered { .. } => self.record_note(&entry),
            Entry::VersionChosen { name, version } => self.versions.record(name, version),
            Entry::Drifted { op, found, .. } => {
                if let Some(call) = self.call(op) {
                    call.drifted = Some(found);
                }
            }
            Entry::UndoRegistered { ref call, .. } => {
                self.record_note(&entry);
                // The undo steps of another run are made by that run.
                let forked = self.start.as_ref().and_then(|start| start.forked);
                if forked.is_none_or(|forked| sequence >= forked.copied) {
                    self.undo.push((self.leg.agent.clone(), call.clone()));
                }
            }
            Entry::Parked { reason } => self.parked = Some(reason),
            Entry::Activated { .. } | Entry::Restarted { .. } => self.parked = None,
            Entry::Quarantined { op, .. } => self.forget(op),
            Entry::CancelRequested { reason, stop } => {
                self.cancel = Some(stop.unwrap_or(StopReason::Cancelled(reason)));
            }
            Entry::RunEnded(end) => self.end = Some(*end),
            Entry::Changed { .. }
            | Entry::TurnStarted(_)
            | Entry::TurnEnded(_)
            | Entry::TurnContinued { .. }
            | Entry::TurnQuarantined { .. }
            | Entry::SessionRewound { .. }
            | Entry::SessionForked { .. } => {}
        }
    }

    fn record_call(
        &mut self,
        op: OperationId,
        identity: CallIdentity,
        begun: Option<Begun>,
        completed: bool,
    ) {
        let retry = match &begun {
            Some(Begun::Retry(retry)) => Some(retry.clone()),
            _ => self.call(op).and_then(|call| call.retry.take()),
        };
        let call = RecordedCall {
            identity,
            begun,
            retry,
            completed,
            dropped: false,
            drifted: None,
        };
        self.record.insert(op, Record::Call(call));
    }

    fn record_note(&mut self, entry: &Entry) {
        let note = RecordedNote::of(entry);
        self.record
            .extend(note.map(|(op, note)| (op, Record::Note(note))));
    }

    fn call(&mut self, op: OperationId) -> Option<&mut RecordedCall> {
        self.record.get_mut(&op)?.call_mut()
    }

    /// Forgets an operation, so that the function does it again.
    pub(super) fn forget(&mut self, op: OperationId) {
        self.record.remove(&op);
        self.deliveries.retain(|delivery| delivery.op != op);
    }

    /// Takes the children out that an operation began.
    fn take_children(&mut self, op: OperationId) -> Vec<RecordedChild> {
        let begun = self.children.extract_if(.., |child| child.op == op);
        begun.collect()
    }

    /// The run's bounds, consumption and deadline.
    pub fn allowance(&self) -> Allowance {
        self.ledger.allowance()
    }
}
