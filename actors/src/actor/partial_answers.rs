//! The words that models are saying at the moment.

use std::collections::BTreeMap;

use crate::vocabulary::{Delta, Event, EventRecord, OperationId, Preview, RunId};

/// The answers that models of this process are giving, as far as they were streamed.
#[derive(Debug, Default)]
pub(super) struct PartialAnswers(BTreeMap<RunId, Vec<PartialAnswer>>);

/// An answer in the making.
#[derive(Debug)]
struct PartialAnswer {
    root: RunId,
    operation: OperationId,
    attempt: u32,
    /// How many entries the run had written when the attempt began.
    entries: u64,
    /// The preview with which the attempt began.
    began: EventRecord,
    text: String,
    /// Whether nobody waits for the answer any more.
    is_dropped: bool,
}

impl PartialAnswers {
    /// An attempt begins, and the text of an earlier one is void.
    pub(super) fn begin(&mut self, root: RunId, entries: u64, began: &EventRecord) {
        let Event::Preview(Preview::ModelStarted {
            operation, attempt, ..
        }) = &began.event
        else {
            return;
        };
        let partial_answers = self.0.entry(began.run).or_default();
        partial_answers.retain(|saying| saying.operation != *operation && !saying.is_dropped);
        partial_answers.push(PartialAnswer {
            root,
            operation: *operation,
            attempt: *attempt,
            entries,
            began: began.clone(),
            text: String::new(),
            is_dropped: false,
        });
    }

    /// Adds what was said.
    pub(super) fn add(&mut self, run: RunId, preview: &Preview) {
        let (of, more) = match preview {
            Preview::Delta {
                operation,
                attempt,
                delta: Delta::Text(more),
            } => ((*operation, *attempt), Some(more)),
            Preview::ModelRetry {
                operation, attempt, ..
            } => ((*operation, *attempt), None),
            _ => return,
        };
        let mut partial_answers = self.0.get_mut(&run).into_iter().flatten();
        let Some(saying) = partial_answers.find(|saying| (saying.operation, saying.attempt) == of)
        else {
            return;
        };
        match more {
            Some(more) => saying.text.push_str(more),
            None => saying.text.clear(),
        }
    }

    /// The answer is whole, or there is none.
    pub(super) fn end(&mut self, run: RunId, operation: OperationId) {
        if let Some(partial_answers) = self.0.get_mut(&run) {
            partial_answers.retain(|saying| saying.operation != operation);
            if partial_answers.is_empty() {
                self.0.remove(&run);
            }
        }
    }

    /// Nobody waits for the answer any more. The text is kept for a run that ends by that.
    pub(super) fn drop_answer(&mut self, run: RunId, operation: OperationId) {
        let mut partial_answers = self.0.get_mut(&run).into_iter().flatten();
        if let Some(saying) = partial_answers.find(|saying| saying.operation == operation) {
            saying.is_dropped = true;
        }
    }

    pub(super) fn forget(&mut self, run: RunId) {
        self.0.remove(&run);
    }

    pub(super) fn forget_tree(&mut self, root: RunId) {
        self.0
            .retain(|_, partial_answers| partial_answers.iter().all(|saying| saying.root != root));
    }

    /// The text that the run's model said last and has not ended.
    pub(super) fn text(&self, run: RunId) -> Option<String> {
        let partial_answers = self.0.get(&run)?.iter().rev();
        let mut texts = partial_answers.map(|saying| &saying.text);
        texts.find(|text| !text.trim().is_empty()).cloned()
    }

    /// The previews of a tree's answers in the making, each with how many entries its run had written.
    pub(super) fn previews(&self, root: RunId) -> impl Iterator<Item = (u64, EventRecord)> {
        let all = self.0.values().flatten();
        let of_tree = all.filter(move |saying| saying.root == root && !saying.is_dropped);
        of_tree.flat_map(|saying| {
            let mut so_far = saying.began.clone();
            so_far.event = Event::Preview(Preview::Delta {
                operation: saying.operation,
                attempt: saying.attempt,
                delta: Delta::Text(saying.text.clone()),
            });
            let has_text = !saying.text.is_empty();
            let began = (saying.entries, saying.began.clone());
            std::iter::once(began).chain(has_text.then_some((saying.entries, so_far)))
        })
    }
}
