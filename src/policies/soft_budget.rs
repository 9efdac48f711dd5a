//! Bounds that end nothing by themselves.

use ghostlight_actors::{
    run::{BeforeTool, Policy, PolicyContext},
    vocabulary::{
        AgentError, Budget, ModelRequest, ModelResponse, ModelSettings, Resource, Spent, Timestamp,
        ToolCall, ToolChoice,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Checked, is_bookkeeping};

/// The name of the tool by which an agent finishes that does so by a tool.
const FINISH: &str = "finish";

/// Bounds that end no run: where one is used up, the model and the observers are told, once for each
/// bound. The run goes on, or is brought to an answer: then no tool is called any more, and the model
/// answers with what it has. So an agent whose team has a budget ends in good order before that
/// budget stops it.
///
/// It counts the resources that the run and the runs below it have consumed, as the
/// [`Budget`] of a team does, and the time since the run began. It is looked at before each
/// model call. Observers hear of it as the event `soft_budget_reached` (`resource`, `used`, `bound`,
/// `then`).
///
/// ```yaml
/// budget: { tokens: 60_000 }
/// agent:
///   name: desk
///   policies: [{ name: soft_budget, budget: { tokens: 45_000 }, then: finish }]
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SoftBudget {
    /// The bounds.
    pub budget: Budget,
    /// The consequence for the run where one is used up.
    pub then: AfterSoftBudget,
    #[serde(skip)]
    state: SoftBudgetState,
}

/// The consequence for a run whose soft budget is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AfterSoftBudget {
    /// It goes on; its model knows.
    #[default]
    Warn,
    /// It calls no more tools, and answers with what it has.
    Finish,
}

/// The state machine of [`SoftBudget`]: which bounds were found used up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoftBudgetState {
    told: Vec<Resource>,
}

/// A bound that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overrun {
    /// The resource that is bounded.
    pub resource: Resource,
    /// How much of it is used.
    pub used: u64,
    /// The bound.
    pub bound: u64,
}

impl SoftBudgetState {
    /// The bounds that are used up and were not before. `elapsed_ms` is the time since the run began.
    pub fn reached(&mut self, budget: &Budget, spent: &Spent, elapsed_ms: u64) -> Vec<Overrun> {
        let resources = Resource::COUNTED.into_iter().chain([Resource::WallTime]);
        let mut reached = Vec::new();
        for resource in resources.filter(|resource| !self.told.contains(resource)) {
            let used = match resource {
                Resource::WallTime => elapsed_ms,
                counted => spent.used(counted),
            };
            if let Some(bound) = budget.bound(resource).filter(|bound| used >= *bound) {
                reached.push(Overrun {
                    resource,
                    used,
                    bound,
                });
            }
        }
        self.told
            .extend(reached.iter().map(|overrun| overrun.resource));
        reached
    }

    /// Whether a bound is used up.
    pub fn is_over(&self) -> bool {
        !self.told.is_empty()
    }
}

impl SoftBudget {
    /// These bounds, beyond which the model is told and goes on.
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            ..Self::default()
        }
    }

    /// Brings the run to an answer where a bound is used up.
    #[must_use]
    pub fn finish(mut self) -> Self {
        self.then = AfterSoftBudget::Finish;
        self
    }

    fn finishes(&self) -> bool {
        self.then == AfterSoftBudget::Finish && self.state.is_over()
    }

    fn words(&self, overrun: Overrun) -> String {
        let Overrun {
            resource,
            used,
            bound,
        } = overrun;
        let amount = |amount: u64| match resource {
            Resource::WallTime => format!("{} s", amount as f64 / 1e3),
            Resource::CostMicros => format!("{} of money", amount as f64 / 1e6),
            _ => format!("{amount} {resource}"),
        };
        let what = format!(
            "This task was to take no more than {}, and has taken {}.",
            amount(bound),
            amount(used)
        );
        match self.then {
            AfterSoftBudget::Warn => format!("{what} Come to an end soon."),
            AfterSoftBudget::Finish => format!(
                "{what} No tool is called any more. Answer now with what you have, and say what is \
                 left open."
            ),
        }
    }
}

impl Checked for SoftBudget {
    fn check(&self) -> Result<(), String> {
        match self.budget == Budget::default() {
            true => Err("budget must set at least one bound, such as `tokens`".to_owned()),
            false => Ok(()),
        }
    }
}

impl Policy for SoftBudget {
    async fn before_model(
        &mut self,
        cx: &PolicyContext<'_>,
        request: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        let spent = cx.budget().await?.spent;
        let now = match self.budget.wall_time {
            Some(_) => cx.now().await?,
            None => Timestamp::default(),
        };
        let elapsed = now.0.saturating_sub(cx.start().at.0);
        for overrun in self.state.reached(&self.budget, &spent, elapsed) {
            let told = json!({
                "resource": overrun.resource, "used": overrun.used, "bound": overrun.bound,
                "then": self.then,
            });
            cx.emit("soft_budget_reached", &told);
            // With this request already, which may be the last.
            cx.remind(self.words(overrun));
        }
        // The tools stay in the request: what providers cache of it stays as it is, and some refuse
        // a conversation with calls of tools that are not listed.
        if self.finishes() && !request.tools.is_empty() {
            let mut settings = ModelSettings::clone(&request.settings);
            let finish = request.tools.get(FINISH).map(|tool| tool.name.clone());
            settings.tool_choice = Some(finish.map_or(ToolChoice::None, ToolChoice::Tool));
            request.settings = settings.into();
        }
        Ok(None)
    }

    async fn before_tool(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        if !self.finishes() || is_bookkeeping(&call.name) {
            return Ok(BeforeTool::Go);
        }
        let told = "Not called: the budget of this task is used up. Answer with what you have, and \
                    say what is left open.";
        Ok(BeforeTool::blocked(call, told))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ghostlight_actors::vocabulary::Usage;

    use super::*;

    fn spent(model_calls: u64, tokens: u64) -> Spent {
        let usage = Usage {
            input_tokens: tokens,
            ..Usage::default()
        };
        Spent {
            usage,
            model_calls,
            ..Spent::default()
        }
    }

    #[test]
    fn each_bound_is_told_once_when_it_is_used_up() {
        let budget = Budget {
            model_calls: Some(3),
            tokens: Some(100),
            wall_time: Some(Duration::from_secs(5)),
            ..Budget::default()
        };
        let mut state = SoftBudgetState::default();
        assert_eq!(state.reached(&budget, &spent(2, 99), 4_999), []);
        assert!(!state.is_over());
        let overrun = |resource, used, bound| Overrun {
            resource,
            used,
            bound,
        };
        let reached = state.reached(&budget, &spent(3, 99), 4_999);
        assert_eq!(reached, [overrun(Resource::ModelCalls, 3, 3)]);
        assert!(state.is_over());
        let reached = state.reached(&budget, &spent(4, 250), 6_000);
        let rest = [
            overrun(Resource::Tokens, 250, 100),
            overrun(Resource::WallTime, 6_000, 5_000),
        ];
        assert_eq!(reached, rest);
        assert_eq!(state.reached(&budget, &spent(9, 900), 9_000), []);
    }
}
