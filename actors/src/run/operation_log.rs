//! Which operation of a run was asked for by whom, and what is open, as the run's journal tells.

use crate::vocabulary::{AskedBy, Begun, Entry, Family, OperationError, OperationId, ToolCall};

/// The operations of one run, as its entries tell of them so far. It holds what is open, and forgets what has ended.
#[derive(Debug, Default)]
pub(crate) struct OperationLog {
    asks: Vec<(OperationId, u64)>,
    /// The model calls that are suspended or wait for their provider.
    suspended: Vec<OperationId>,
    /// How many steps have begun.
    begun: u32,
    pub(super) steps: Vec<OpenStep>,
}

/// A model operation that asked for calls, until the next one in its lane, or until each call has its result.
#[derive(Debug)]
pub(super) struct OpenStep {
    /// The number of the step in its run, from 1.
    pub(super) number: u32,
    pub(super) model: OperationId,
    pub(super) calls: Vec<OpenCall>,
}

/// A call that a model asked for.
#[derive(Debug)]
pub(super) struct OpenCall {
    pub(super) call: ToolCall,
    pub(super) is_answered: bool,
    /// The error with which its tool ended, which the function may turn into a result.
    pub(super) error: Option<OperationError>,
}

impl OperationLog {
    /// A run of which nothing is known yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Takes note of the run's entry of this sequence number, in their order. Returns the call of a model to which the entry belongs, if any.
    pub(crate) fn add(&mut self, sequence: u64, entry: &Entry) -> Option<AskedBy> {
        match entry {
            Entry::Started {
                op,
                begun: Begun::Question(_),
                ..
            } => self.asks.push((*op, sequence)),
            Entry::Started {
                op,
                kind,
                begun: Begun::Ticket | Begun::Retry(_),
                ..
            } if Family::of(kind) == Family::Model => self.suspended.push(*op),
            Entry::Completed { op, .. } | Entry::Dropped { op, .. } => {
                self.asks.retain(|(asked, _)| asked != op);
                self.suspended.retain(|suspended| suspended != op);
            }
            Entry::RunEnded(_) => {
                self.asks.clear();
                self.suspended.clear();
            }
            _ => {}
        }
        match entry {
            Entry::Started { asked_by, .. }
            | Entry::Completed { asked_by, .. }
            | Entry::CallAnswered { asked_by, .. } => *asked_by,
            _ => None,
        }
    }

    /// The questions that wait for their answers, each with the sequence number of its entry, the oldest first.
    pub(crate) fn asks(&self) -> &[(OperationId, u64)] {
        &self.asks
    }

    /// Whether the run waits for the answer to a suspended model call, or for its model's provider.
    pub(crate) fn awaits_model(&self) -> bool {
        !self.suspended.is_empty()
    }

    /// Takes note of the calls for which a model operation asked. Returns the number of the step.
    pub(super) fn asked(&mut self, model: OperationId, calls: &[ToolCall]) -> u32 {
        self.begun = self.begun.saturating_add(1);
        let open = |call: &ToolCall| OpenCall {
            call: call.clone(),
            is_answered: false,
            error: None,
        };
        let calls = calls.iter().map(open).collect();
        let number = self.begun;
        self.steps.push(OpenStep {
            number,
            model,
            calls,
        });
        number
    }

    /// A call of an open step.
    pub(super) fn call(&mut self, asked_by: AskedBy) -> Option<&mut OpenCall> {
        let mut steps = self.steps.iter_mut();
        let step = steps.find(|step| step.model == asked_by.model)?;
        step.calls.get_mut(asked_by.index as usize)
    }
}
