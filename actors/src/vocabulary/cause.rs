//! Which answer of a model asked for something.

use serde::{Deserialize, Serialize};

use super::{OperationId, RunId};

/// The call of a model for which something was done: the place of the call in the answer of a model operation of the
/// same run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedBy {
    /// The model operation.
    pub model: OperationId,
    /// The place among the calls of its answer, from 0.
    pub index: u32,
}

/// Where a call comes from. The engine writes it on each call of a model's answer when it delivers the answer, and it
/// stays with the copies of the call, so that the operation which carries the call out can name it. It is not written
/// down with the call, and two calls that differ in it alone are equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cause(Option<(RunId, AskedBy)>);

impl Cause {
    /// This call of an answer in this run.
    pub(crate) fn new(run: RunId, model: OperationId, index: u32) -> Self {
        Self(Some((run, AskedBy { model, index })))
    }

    /// The call, if a model operation of this run asked for it. A call from an earlier turn of the session, and one that
    /// the code made itself, has none.
    pub fn within(&self, run: RunId) -> Option<AskedBy> {
        let (of, asked_by) = self.0?;
        (of == run).then_some(asked_by)
    }
}

impl PartialEq for Cause {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Cause {}
