//! What a run may consume, and what it has.

use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Usage;

/// The bounds of a run and of all its child runs together. `None` is without bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// How many model calls.
    pub model_calls: Option<u64>,
    /// How many tool calls.
    pub tool_calls: Option<u64>,
    /// How many tokens, of requests and responses together.
    pub tokens: Option<u64>,
    /// How much money, in millionths of the currency of the model's prices.
    pub cost_micros: Option<u64>,
    /// How long the run may take from its start, sleep included, in milliseconds.
    pub wall_time_ms: Option<u64>,
}

impl Budget {
    /// The bound on wall time.
    pub fn wall_time(&self) -> Option<Duration> {
        self.wall_time_ms.map(Duration::from_millis)
    }
}

/// One of the things that a budget bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Resource {
    /// Model calls.
    ModelCalls,
    /// Tool calls.
    ToolCalls,
    /// Tokens.
    Tokens,
    /// Money.
    Cost,
    /// Wall time.
    WallTime,
    /// Entries of the run's journal.
    Entries,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ModelCalls => "model calls",
            Self::ToolCalls => "tool calls",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::WallTime => "wall time",
            Self::Entries => "journal entries",
        })
    }
}

/// What a run has consumed. It is folded from the journal, so replay charges nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    /// Model calls that were recorded.
    pub model_calls: u64,
    /// Tool calls that were recorded.
    pub tool_calls: u64,
    /// Tokens and money.
    pub usage: Usage,
}

impl Spent {
    /// The first bound that is reached, asked before the act of this kind.
    pub fn exhausted(&self, budget: &Budget, next: Resource) -> Option<Resource> {
        let reached = |have: u64, bound: Option<u64>| bound.is_some_and(|bound| have >= bound);
        let tests = [
            (next == Resource::ModelCalls && reached(self.model_calls, budget.model_calls))
                .then_some(Resource::ModelCalls),
            (next == Resource::ToolCalls && reached(self.tool_calls, budget.tool_calls))
                .then_some(Resource::ToolCalls),
            (next == Resource::ModelCalls && reached(self.usage.total_tokens(), budget.tokens))
                .then_some(Resource::Tokens),
            (next == Resource::ModelCalls && reached(self.usage.cost_micros, budget.cost_micros))
                .then_some(Resource::Cost),
        ];
        tests.into_iter().flatten().next()
    }
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.model_calls = self.model_calls.saturating_add(other.model_calls);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.usage += other.usage;
    }
}
