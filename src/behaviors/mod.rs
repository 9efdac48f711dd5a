//! How agents work: the built-in behaviors, and the loop that they are made of.
//!
//! | name | behavior |
//! |---|---|
//! | `simple` | [`Simple`]: one model call |
//! | `function_calling` | [`FunctionCalling`]: native tool calling over several turns; the default |
//! | `react` | [`React`]: tools by text, for models without tool calling |
//! | `reflection` | [`Reflection`]: draft, judge, revise, keep the best |
//! | `rewoo` | [`Rewoo`]: plan all calls at once, carry them out side by side, answer |
//! | `adaptive` | [`Adaptive`]: one of the others, by a rule or the task's complexity |
//! | `plan_and_solve` | [`PlanAndSolve`]: plan, do the steps one after the other, answer |
//!
//! Each is straight-line code over a [`RunContext`], and its settings are its fields. Your own
//! behavior can start from [`AgentLoop`], or change a loop's requests and responses by a
//! [`TurnFormat`].
//!
//! ```
//! use ghostlight::behaviors;
//! use ghostlight_actors::run::Registry;
//!
//! let registry = behaviors::register(Registry::new());
//! assert!(registry.behavior_names().contains(&"function_calling"));
//! ```

mod adaptive;
mod agent_loop;
mod function_calling;
mod plan_and_solve;
mod planner;
mod prompt;
mod react;
mod reflection;
mod rewoo;
mod simple;
mod turn_format;

use ghostlight_actors::{
    run::{Behavior, BehaviorHandle, Registry, RunContext},
    vocabulary::{AgentError, ErrorKind, OperationError, StopReason, ToolSet},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use adaptive::{Adaptive, Rule};
pub(crate) use agent_loop::exhausted;
pub use agent_loop::{AgentLoop, BatchResult, FINISH_TOOL, FinishMode, LoopOptions};
pub use function_calling::FunctionCalling;
pub use plan_and_solve::PlanAndSolve;
pub use prompt::Prompt;
pub(crate) use prompt::{TextOf, below_instructions, task};
pub use react::React;
pub use reflection::Reflection;
pub use rewoo::Rewoo;
pub use simple::Simple;
pub use turn_format::{ModelTurn, NativeCalls, Reading, TurnFormat};

type Make = fn(&Value) -> Result<BehaviorHandle, String>;

/// The built-in behaviors by name.
const BUILT_IN: [(&str, Make); 7] = [
    ("adaptive", make::<Adaptive>),
    ("function_calling", make::<FunctionCalling>),
    ("plan_and_solve", make::<PlanAndSolve>),
    ("react", make::<React>),
    ("reflection", make::<Reflection>),
    ("rewoo", make::<Rewoo>),
    ("simple", make::<Simple>),
];

/// Registers every built-in behavior under its name.
#[must_use]
pub fn register(registry: Registry) -> Registry {
    let named = BUILT_IN.into_iter();
    named.fold(registry, |registry, (name, make)| {
        registry.behavior(name, make)
    })
}

/// A built-in behavior with these settings.
fn built_in(name: &str, settings: &Value) -> Result<BehaviorHandle, String> {
    let Some((_, make)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
        let known = BUILT_IN.map(|(name, _)| name).join(", ");
        return Err(format!(
            "there is no built-in behavior {name:?}; there are: {known}"
        ));
    };
    make(settings)
}

/// Settings with rules that their types do not express.
trait Checked {
    /// Checks the rules that the types do not express.
    ///
    /// # Errors
    /// The wrong setting, and the values that it may have.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

fn make<B: Behavior + Checked + DeserializeOwned>(given: &Value) -> Result<BehaviorHandle, String> {
    settings::<B>(given).map(BehaviorHandle::new)
}

fn settings<T: Checked + DeserializeOwned>(given: &Value) -> Result<T, String> {
    let read = T::deserialize(given).map_err(|error| error.to_string())?;
    read.check()?;
    Ok(read)
}

fn at_least_one(setting: &str, value: Option<u32>) -> Result<(), String> {
    match value {
        Some(0) => Err(format!("{setting} must be at least 1")),
        _ => Ok(()),
    }
}

/// A loop that answers from the conversation. It has no tools, unless policies watch over it, which
/// may require tools.
fn answering<'a>(cx: &RunContext, agent: AgentLoop<'a>) -> AgentLoop<'a> {
    match cx.loop_context().is_watched() {
        true => agent,
        false => agent.tools(ToolSet::default()),
    }
}

/// The error for a missing plan: a failure, unless the planner was stopped.
fn no_plan(end: AgentError) -> AgentError {
    match want_of_a_plan(&end) {
        Some(reason) => {
            let message = format!("the model made no plan: {reason}");
            OperationError::new(ErrorKind::Plan, message).into()
        }
        None => end,
    }
}

/// Why a planner's model made no plan, if there is no other reason for the stop.
fn want_of_a_plan(end: &AgentError) -> Option<&StopReason> {
    let is_want = |reason: &&StopReason| {
        matches!(
            reason,
            StopReason::GaveUp(_) | StopReason::EmptyTurns(_) | StopReason::MaxSteps(_)
        )
    };
    end.early_stop().filter(is_want)
}
