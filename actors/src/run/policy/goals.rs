//! Goals that an agent's function sets itself: a sub-goal of a tree, a step of a plan.

/// How work on a goal ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GoalEnd {
    /// The goal.
    pub goal: String,
    /// The status of the goal.
    pub status: GoalStatus,
    /// The result, or why there is none.
    pub result: String,
}

/// The status of a goal after work on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GoalStatus {
    /// The agent that worked on it says that it was reached.
    Reached,
    /// The goal was not reached.
    Missed,
    /// It was divided into sub-goals, and reached by them.
    Divided,
}

impl GoalEnd {
    /// This end of work on this goal.
    pub fn new(goal: impl Into<String>, status: GoalStatus, result: impl Into<String>) -> Self {
        let (goal, result) = (goal.into(), result.into());
        Self {
            goal,
            status,
            result,
        }
    }
}
