//! How agents work: the behaviors that are built in, and the loop that they are made of.
//!
//! | name | behavior |
//! |---|---|
//! | `simple` | [`Simple`]: one model call |
//! | `function_calling` | [`FunctionCalling`]: native tool calling over several turns; the default |
//! | `react` | [`React`]: tools by text, for models without tool calling |
//! | `reflection` | [`Reflection`]: draft, judge, revise, keep the best |
//! | `plan_and_solve` | [`PlanAndSolve`]: plan, do the steps one after the other, answer |
//!
//! Each is straight-line code over a [`RunContext`](ghostlight_actors::run::RunContext), and its
//! settings are its fields. A behavior of your own starts from [`Loop`], or changes how one asks
//! and reads by a [`Strategy`].
//!
//! ```
//! use ghostlight::behaviors;
//! use ghostlight_actors::run::Registry;
//!
//! let registry = behaviors::register(Registry::new());
//! assert!(registry.behavior_names().contains(&"function_calling"));
//! ```

mod agent_loop;
mod function_calling;
mod plan_and_solve;
mod prompt;
mod react;
mod reflection;
mod simple;
mod strategy;

use ghostlight_actors::run::{Behavior, BehaviorHandle, Registry};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use agent_loop::{Acted, Completion, FINISH_TOOL, Limits, Loop};
pub use function_calling::FunctionCalling;
pub use plan_and_solve::PlanAndSolve;
pub use prompt::Prompt;
pub use react::React;
pub use reflection::Reflection;
pub use simple::Simple;
pub use strategy::{NativeCalls, Reading, Strategy, Turn};

/// Registers every behavior that is built in under its name.
#[must_use]
pub fn register(registry: Registry) -> Registry {
    registry
        .behavior("simple", make::<Simple>)
        .behavior("function_calling", make::<FunctionCalling>)
        .behavior("react", make::<React>)
        .behavior("reflection", make::<Reflection>)
        .behavior("plan_and_solve", make::<PlanAndSolve>)
}

/// Settings that hold more than their types say.
trait Checked {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// Which setting is wrong, and what it must be.
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
