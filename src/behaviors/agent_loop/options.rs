//! The bounds of a loop.

use ghostlight_actors::run::RunContext;

/// The limits of an [`AgentLoop`](super::AgentLoop). A loop that reaches one stops with a typed
/// reason and its partial answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopOptions {
    /// The most steps: model calls with their tool calls.
    pub steps: u32,
    /// The most turns in a row without progress: empty turns, and turns without the finishing tool
    /// if [`FinishMode::Tool`](super::FinishMode::Tool) requires it.
    pub empty_turns: u32,
    /// The most turns in a row that cannot be parsed, or that end in a call that was cut off.
    pub unreadable_turns: u32,
    /// How often an answer that does not fit its schema is returned for correction.
    pub repairs: u32,
}

impl LoopOptions {
    /// The default limit on steps.
    pub const DEFAULT_STEPS: u32 = 40;

    /// The default limits, with this limit on steps.
    pub fn of_steps(steps: u32) -> Self {
        Self {
            steps,
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
            steps: Self::DEFAULT_STEPS,
            empty_turns: 3,
            unreadable_turns: 3,
            repairs: 3,
        }
    }
}
