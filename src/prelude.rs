//! What most programs name, for `use ghostlight::prelude::*`.
//!
//! Everything here stands in a module of its own too: [`actor`](crate::actor), [`run`](crate::run),
//! [`contract`](crate::contract), [`vocabulary`](crate::vocabulary) and so on.

pub use ghostlight_actors::{
    actor::{
        Delegation, EventStream, Fork, Limits, Run, Session, System, SystemBuilder, SystemError,
    },
    contract::{
        Model, ModelError, Reconciled, StoreError, Ticket, Tool, ToolContext, ToolError,
        ToolHandle, ToolOutput,
    },
    definition::{
        AgentSpec, BehaviorSpec, DefinitionError, ModelSpec, PolicySpec, Reach, TeamSpec,
    },
    run::{
        Agent, BeforeTool, Behavior, Policy, PolicyContext, Registry, RunContext, Team, Verdict,
        operations::{AgentMessage, Scope},
    },
    session::Turn,
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{
        AgentError, Answer, Budget, Effect, ErrorKind, Event, EventRecord, Message, ModelRequest,
        ModelResponse, OperationError, OperationId, Outcome, Question, RunId, StopReason, ToolCall,
        ToolDefinition, ToolResult, ToolStatus, Transcript, Transfer,
    },
};

#[cfg(feature = "openai")]
pub use crate::models::OpenAi;
pub use crate::{
    AgentExt, builtin,
    models::OfflineModel,
    tool,
    tools::{tool_fn, tool_fn_with_context},
};
#[cfg(feature = "sqlite")]
pub use crate::{open::SystemExt, stores::SqliteStore};
