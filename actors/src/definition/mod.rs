//! Agents and teams as plain data, and the checks of their tree.
//!
//! Both builders and team files produce these types; the code behind the names is in a registry. Only the definition
//! is printed, validated, drawn, hashed and pinned.

mod agent;
mod approval;
mod context;
mod create_agent;
mod creation;
mod drawing;
mod error;
mod form;
mod interceptor;
mod memory;
mod named_code;
mod on_handoff;
mod pinned;
mod schedule;
mod team;
mod turns;

pub(crate) use agent::OWN_BEHAVIOR;
pub use agent::{AgentSpec, Reach, TransferRules};
pub use approval::{ApprovalRule, ClarifySpec, OnExpiry, WhileAsking};
pub use context::{
    Compact, CompactRule, ContextSpec, ContextStrategy, OtherAgents, SlidingWindow, Spill,
    Summarize, TokenCounting,
};
pub use create_agent::CreateAgentSpec;
pub(crate) use create_agent::{AGENT_RESULT, CREATE_AGENT};
pub use error::DefinitionError;
pub use interceptor::InterceptorSpec;
pub use memory::{MemoryAccess, MemorySpec};
pub use named_code::{BehaviorSpec, PolicySpec};
pub use on_handoff::{OnHandoff, Sees};
pub(crate) use pinned::{CLARIFY, PUBLISH, is_engine_tool, model_of};
pub use pinned::{
    DELEGATE_PREFIX, GIVEN_BACK, Pinned, PinnedAgent, TAKEN_OVER, TRANSFER_PREFIX, delegate_tool,
};
pub use schedule::{Missed, Schedule};
pub use team::{Durability, ModelSpec, TeamSpec, ToolSpec};
pub use turns::WhileBusy;
