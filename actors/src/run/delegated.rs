//! Tasks that are given to other agents, and their results.

use futures_util::future::WeakShared;

use crate::{
    contract::BoxFuture,
    vocabulary::{AgentError, OperationId, Outcome, ParentPolicy, RunId, Spent},
};

/// A child run beside the function.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Spawned {
    /// The child run.
    pub run: RunId,
    /// The agent that carries it.
    pub agent: String,
    /// The operation that began it.
    pub operation: OperationId,
    /// The fate of the child when the run that began it ends first.
    #[serde(default)]
    pub when_parent_ends: ParentPolicy,
}

/// The result of a delegated task.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Delegated {
    /// The child run.
    pub run: RunId,
    /// The answer's text, or the partial answer's.
    pub text: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The consumption of the child and its own children.
    pub spent: Spent,
}

pub(super) type Work = BoxFuture<'static, Result<Delegated, AgentError>>;

/// A made agent that is at work. A second request for the same agent waits for it too.
pub(crate) struct MadeAgent(pub(super) WeakShared<Work>);

/// A made agent that works beside its maker's run.
pub(crate) struct InBackground {
    pub(super) child: Spawned,
    pub(super) has_tools: bool,
}
