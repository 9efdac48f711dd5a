//! The bounds of a run and its consumption.

use std::{fmt, time::Duration};

use ghostlight_supervisor::seconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Usage;

/// The bounds of a run and of all its child runs together. `None` is without bound.
///
/// Each bound is checked before the act: a call that would go beyond a number of calls is not
/// made, and no model is asked once the tokens or the money are used up. What a call costs is
/// known when it has ended, so tokens and money can be overspent by the calls that were under
/// way when they ran out.
///
/// A step is one model call with the tool calls that it asks for, so `model_calls` bounds the
/// steps of the whole tree; an agent's `max_steps` bounds those of one leg.
///
/// ```
/// use std::time::Duration;
/// use ghostlight_actors::vocabulary::Budget;
///
/// let budget = Budget::default().model_calls(20).wall_time(Duration::from_secs(60));
/// assert_eq!((budget.model_calls, budget.tool_calls), (Some(20), None));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// How many model calls.
    pub model_calls: Option<u64>,
    /// How many tool calls.
    pub tool_calls: Option<u64>,
    /// How many tokens, of requests and responses together.
    pub tokens: Option<u64>,
    /// How many tokens of requests.
    pub input_tokens: Option<u64>,
    /// How many tokens of responses, reasoning included.
    pub output_tokens: Option<u64>,
    /// How much money, in millionths of the currency of the model's prices.
    pub cost_micros: Option<u64>,
    /// How long the run may take from its start, sleep included.
    #[serde(rename = "wall_time_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub wall_time: Option<Duration>,
}

crate::setters!(Budget {} or none {
    model_calls: u64, tool_calls: u64, tokens: u64, input_tokens: u64, output_tokens: u64, cost_micros: u64,
    wall_time: Duration,
});

impl Budget {
    /// The bound on a resource, on wall time in milliseconds; `None` where there is none.
    pub fn bound(&self, resource: Resource) -> Option<u64> {
        match resource {
            Resource::ModelCalls => self.model_calls,
            Resource::ToolCalls => self.tool_calls,
            Resource::Tokens => self.tokens,
            Resource::InputTokens => self.input_tokens,
            Resource::OutputTokens => self.output_tokens,
            Resource::CostMicros => self.cost_micros,
            Resource::WallTime => self.wall_time.map(millis),
            Resource::Entries => None,
        }
    }

    /// The budget with the bounds that this function returns. Journal entries have no bound in it.
    pub fn from_bounds(mut bound: impl FnMut(Resource) -> Option<u64>) -> Self {
        Self {
            model_calls: bound(Resource::ModelCalls),
            tool_calls: bound(Resource::ToolCalls),
            tokens: bound(Resource::Tokens),
            input_tokens: bound(Resource::InputTokens),
            output_tokens: bound(Resource::OutputTokens),
            cost_micros: bound(Resource::CostMicros),
            wall_time: bound(Resource::WallTime).map(Duration::from_millis),
        }
    }

    /// The narrower of the two bounds on each resource.
    #[must_use]
    pub fn narrowed(&self, other: &Self) -> Self {
        let narrower = |resource| {
            let bounds = [self.bound(resource), other.bound(resource)];
            bounds.into_iter().flatten().min()
        };
        Self::from_bounds(narrower)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// One of the things that a budget bounds.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Resource {
    /// Model calls: [`Budget::model_calls`].
    ModelCalls,
    /// Tool calls: [`Budget::tool_calls`].
    ToolCalls,
    /// Tokens of requests and responses: [`Budget::tokens`].
    Tokens,
    /// Tokens of requests: [`Budget::input_tokens`].
    InputTokens,
    /// Tokens of responses: [`Budget::output_tokens`].
    OutputTokens,
    /// Money: [`Budget::cost_micros`]. Journals call it `cost`.
    #[serde(rename = "cost")]
    CostMicros,
    /// Wall time: [`Budget::wall_time`].
    WallTime,
    /// Entries of the run's journal.
    Entries,
}

impl Resource {
    /// The resources that are counted, in the order in which a model call is checked. Wall time is not counted,
    /// because it is a deadline; a journal's entries are bounded by the System.
    pub const COUNTED: [Self; 6] = [
        Self::ModelCalls,
        Self::ToolCalls,
        Self::Tokens,
        Self::InputTokens,
        Self::OutputTokens,
        Self::CostMicros,
    ];
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ModelCalls => "model calls",
            Self::ToolCalls => "tool calls",
            Self::Tokens => "tokens",
            Self::InputTokens => "input tokens",
            Self::OutputTokens => "output tokens",
            Self::CostMicros => "cost",
            Self::WallTime => "wall time",
            Self::Entries => "journal entries",
        })
    }
}

/// The consumption of a run. It is computed from the journal, so replay charges nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    /// Model calls whose end was recorded, failed and dropped ones included.
    pub model_calls: u64,
    /// Tool calls, likewise.
    pub tool_calls: u64,
    /// Tokens and money.
    pub usage: Usage,
    /// The shares that were granted to child runs that outlive this one. They count as used, whether those runs
    /// consume them or not.
    pub given: Amounts,
}

/// Amounts of the counted resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Amounts {
    /// Model calls.
    pub model_calls: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// Tokens of requests and responses together.
    pub tokens: u64,
    /// Tokens of requests.
    pub input_tokens: u64,
    /// Tokens of responses.
    pub output_tokens: u64,
    /// Money, in millionths of the currency of the model's prices.
    pub cost_micros: u64,
}

impl Amounts {
    /// The amount of a resource; 0 for one that is not counted.
    pub fn of(&self, resource: Resource) -> u64 {
        match resource {
            Resource::ModelCalls => self.model_calls,
            Resource::ToolCalls => self.tool_calls,
            Resource::Tokens => self.tokens,
            Resource::InputTokens => self.input_tokens,
            Resource::OutputTokens => self.output_tokens,
            Resource::CostMicros => self.cost_micros,
            Resource::WallTime | Resource::Entries => 0,
        }
    }

    /// The bounds of a budget as amounts; 0 where there is no bound.
    pub fn bounded(budget: &Budget) -> Self {
        let bound = |resource| budget.bound(resource).unwrap_or(0);
        Self {
            model_calls: bound(Resource::ModelCalls),
            tool_calls: bound(Resource::ToolCalls),
            tokens: bound(Resource::Tokens),
            input_tokens: bound(Resource::InputTokens),
            output_tokens: bound(Resource::OutputTokens),
            cost_micros: bound(Resource::CostMicros),
        }
    }

    fn zip(self, other: Self, add: fn(u64, u64) -> u64) -> Self {
        Self {
            model_calls: add(self.model_calls, other.model_calls),
            tool_calls: add(self.tool_calls, other.tool_calls),
            tokens: add(self.tokens, other.tokens),
            input_tokens: add(self.input_tokens, other.input_tokens),
            output_tokens: add(self.output_tokens, other.output_tokens),
            cost_micros: add(self.cost_micros, other.cost_micros),
        }
    }
}

impl std::ops::AddAssign for Amounts {
    fn add_assign(&mut self, other: Self) {
        *self = self.zip(other, u64::saturating_add);
    }
}

impl std::ops::SubAssign for Amounts {
    fn sub_assign(&mut self, other: Self) {
        *self = self.zip(other, u64::saturating_sub);
    }
}

impl Spent {
    /// One call that consumes this resource.
    pub fn one(resource: Resource) -> Self {
        Self {
            model_calls: u64::from(resource == Resource::ModelCalls),
            tool_calls: u64::from(resource == Resource::ToolCalls),
            ..Self::default()
        }
    }

    /// How much of a resource counts as consumed, including the shares in `given`.
    pub fn used(&self, resource: Resource) -> u64 {
        let consumed = match resource {
            Resource::ModelCalls => self.model_calls,
            Resource::ToolCalls => self.tool_calls,
            Resource::Tokens => self.usage.total_tokens(),
            Resource::InputTokens => self.usage.input_tokens,
            Resource::OutputTokens => self.usage.output_tokens,
            Resource::CostMicros => self.usage.cost_micros,
            Resource::WallTime | Resource::Entries => 0,
        };
        consumed.saturating_add(self.given.of(resource))
    }
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.model_calls = self.model_calls.saturating_add(other.model_calls);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.usage += other.usage;
        self.given += other.given;
    }
}

/// What an entry charges, without zeros: most entries charge one call or nothing.
pub(crate) mod charge {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Amounts, Spent, Usage};

    #[derive(Default, Serialize, Deserialize)]
    #[serde(default)]
    struct Charge {
        #[serde(skip_serializing_if = "is_zero")]
        model_calls: u64,
        #[serde(skip_serializing_if = "is_zero")]
        tool_calls: u64,
        #[serde(skip_serializing_if = "is_zero")]
        input_tokens: u64,
        #[serde(skip_serializing_if = "is_zero")]
        output_tokens: u64,
        #[serde(skip_serializing_if = "is_zero")]
        cached_tokens: u64,
        #[serde(skip_serializing_if = "is_zero")]
        cache_write_tokens: u64,
        #[serde(skip_serializing_if = "is_zero")]
        reasoning_tokens: u64,
        #[serde(skip_serializing_if = "is_zero")]
        cost_micros: u64,
        #[serde(skip_serializing_if = "is_zero")]
        estimated_tokens: u64,
        #[serde(skip_serializing_if = "is_none")]
        given: Amounts,
    }

    #[allow(clippy::trivially_copy_pass_by_ref)] // serde calls it so.
    fn is_zero(number: &u64) -> bool {
        *number == 0
    }

    fn is_none(given: &Amounts) -> bool {
        *given == Amounts::default()
    }

    pub(crate) fn is_nothing(spent: &Spent) -> bool {
        *spent == Spent::default()
    }

    pub(crate) fn serialize<S: Serializer>(
        spent: &Spent,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Charge {
            model_calls: spent.model_calls,
            tool_calls: spent.tool_calls,
            input_tokens: spent.usage.input_tokens,
            output_tokens: spent.usage.output_tokens,
            cached_tokens: spent.usage.cached_tokens,
            cache_write_tokens: spent.usage.cache_write_tokens,
            reasoning_tokens: spent.usage.reasoning_tokens,
            cost_micros: spent.usage.cost_micros,
            estimated_tokens: spent.usage.estimated_tokens,
            given: spent.given,
        }
        .serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Spent, D::Error> {
        let charge = Charge::deserialize(deserializer)?;
        Ok(Spent {
            model_calls: charge.model_calls,
            tool_calls: charge.tool_calls,
            usage: Usage {
                input_tokens: charge.input_tokens,
                output_tokens: charge.output_tokens,
                cached_tokens: charge.cached_tokens,
                cache_write_tokens: charge.cache_write_tokens,
                reasoning_tokens: charge.reasoning_tokens,
                cost_micros: charge.cost_micros,
                estimated_tokens: charge.estimated_tokens,
            },
            given: charge.given,
        })
    }
}
