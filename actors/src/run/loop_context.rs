//! The context of a loop.

use std::ops::Deref;

use super::RunContext;

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
