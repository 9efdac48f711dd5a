//! The context of a loop.

use std::ops::Deref;

use super::RunContext;
use crate::vocabulary::{AgentError, ToolCall, ToolResult};

/// A [`RunContext`] for the author of a loop: one that keeps a conversation of its own, asks a model at each step and runs the
/// calls of its answer. A loop tells the policies of its agent at which point it is, adds their messages to its conversation,
/// and lets them judge its answer. Functions without a loop need none of this: [`RunContext::model`] and
/// [`RunContext::tools`] do it for them.
#[derive(Clone, Copy, Debug)]
pub struct LoopContext<'a>(&'a RunContext);

impl Deref for LoopContext<'_> {
    type Target = RunContext;

    fn deref(&self) -> &RunContext {
        self.0
    }
}

impl RunContext {
    /// The context for the author of a loop.
    pub fn loop_context(&self) -> LoopContext<'_> {
        LoopContext(self)
    }
}

/// The hooks of a loop on the calls of a step; see [`LoopContext::tools_at`]. By default every call
/// runs, and the first failure for which the run must stop ends the step.
#[expect(unused_variables, reason = "by default the calls are not looked at")]
pub trait Answering: Send {
    /// The result of a call that may not be made now. Policies are not asked about such a call.
    fn refuse(&mut self, call: &ToolCall) -> Option<ToolResult> {
        None
    }

    /// The result of a call that the loop itself answers, after the policies have let it run.
    fn answer(&mut self, call: &ToolCall) -> Option<ToolResult> {
        None
    }

    /// The result of a call whose failure would stop the run.
    ///
    /// # Errors
    /// The failure, if it ends the step. Calls that are under way are cancelled then.
    fn failed(&mut self, call: &ToolCall, error: AgentError) -> Result<ToolResult, AgentError> {
        Err(error)
    }
}

impl Answering for () {}
