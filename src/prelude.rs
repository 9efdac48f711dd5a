//! The names that nearly every program uses, for `use ghostlight::prelude::*`.
//!
//! It is small, so that a program's own `Message`, `Event` or `Session` is in nobody's way. What else
//! there is stands in its module: [`actor`](crate::actor), [`run`](crate::run),
//! [`contract`](crate::contract), [`definition`](crate::definition),
//! [`vocabulary`](crate::vocabulary) and so on.

pub use ghostlight_actors::{
    actor::System,
    contract::{Model, ModelError, Tool, ToolContext, ToolError},
    run::{Agent, Behavior, Policy, RunContext},
    session::Turn,
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{AgentError, Budget, Effect, ModelRequest, ModelResponse, Outcome},
};

#[cfg(feature = "anthropic")]
pub use crate::models::Anthropic;
#[cfg(feature = "gemini")]
pub use crate::models::Gemini;
#[cfg(feature = "openai")]
pub use crate::models::OpenAi;
pub use crate::{AgentExt, File, models::OfflineModel, tool, tools::tool_fn};
#[cfg(feature = "sqlite")]
pub use crate::{open::SystemExt, stores::SqliteStore};
