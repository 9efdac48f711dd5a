//! The bounds of a loop.

use ghostlight_actors::run::RunContext;

/// The bounds of a [`AgentLoop`](super::AgentLoop). Reaching one is a typed stop with what there is by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopLimits {
    /// The most steps: model calls with their tool calls.
    pub steps: u32,
    /// The most turns in a row that lead to nothing: empty ones, and those without the
    /// finishing tool where [`FinishMode::Tool`](super::FinishMode::Tool) asks for it.
    pub empty_turns: u32,
    /// The most turns in a row that cannot be read, or that end in a call that was cut off.
    pub unreadable_turns: u32,
    /// How often an answer that does not fit its schema is given back to be mended.
    pub repairs: u32,
}

impl LoopLimits {
    /// The steps of a loop for which nobody sets a bound.
    pub const DEFAULT_STEPS: u32 = 40;

    /// The usual bounds, with this one on steps.
    pub fn of_steps(steps: u32) -> Self {
        Self {
            steps,
            ..Self::default()
        }
    }

    /// The usual bounds, with the one on steps that a behavior's settings, or else its agent, set.
    pub(crate) fn of(cx: &RunContext, own: Option<u32>) -> Self {
        let steps = own.or(cx.spec().max_steps);
        Self::of_steps(steps.unwrap_or(Self::DEFAULT_STEPS))
    }
}

impl Default for LoopLimits {
    fn default() -> Self {
        Self {
            steps: Self::DEFAULT_STEPS,
            empty_turns: 3,
            unreadable_turns: 3,
            repairs: 3,
        }
    }
}
