//! The bounds of a loop.

use ghostlight_actors::run::RunContext;

/// The limits of an [`AgentLoop`](super::AgentLoop). A loop that reaches one stops with a typed
/// reason and its partial answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopOptions {
    /// The most steps: model calls with their tool calls.
    pub max_steps: u32,
    /// The most turns in a row without progress: empty turns, and turns without the finishing tool
    /// if [`FinishMode::Tool`](super::FinishMode::Tool) requires it.
    pub max_empty_turns: u32,
    /// The most turns in a row that cannot be parsed, or that end in a call that was cut off.
    pub max_unreadable_turns: u32,
    /// How often an answer that does not fit its schema is returned for correction.
    pub max_repairs: u32,
}

impl LoopOptions {
    /// The default limit on steps.
    pub const DEFAULT_STEPS: u32 = 40;

    /// The default limits, with this limit on steps.
    pub fn of_steps(steps: u32) -> Self {
        Self {
            max_steps: steps,
            ..Self::default()
        }
    }

    /// The default limits, with the limit on steps of the behavior's settings, or else of its
    /// agent.
    pub(crate) fn of(cx: &RunContext, own: Option<u32>) -> Self {
        let steps = own.or(cx.spec().max_steps);
        Self::of_steps(steps.unwrap_or(Self::DEFAULT_STEPS))
    }
}

impl Default for LoopOptions {
    fn default() -> Self {
        Self {
            max_steps: Self::DEFAULT_STEPS,
            max_empty_turns: 3,
            max_unreadable_turns: 3,
            max_repairs: 3,
        }
    }
}

ghostlight_actors::setters!(LoopOptions {
    max_steps: u32,
    max_empty_turns: u32,
    max_unreadable_turns: u32,
    max_repairs: u32,
});
