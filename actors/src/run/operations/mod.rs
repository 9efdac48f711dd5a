//! The engine's own operations, one file for each family. Each file adds its methods to
//! [`RunContext`](super::RunContext). Other packages add their operations in the same way, through
//! [`perform`](super::RunContext::perform).

mod answered;
mod approval;
mod artifact;
mod ask;
mod asking;
mod assignee;

mod batch;
mod budget;
mod call_path;
mod callers_tool;
pub(crate) mod changes;
mod child;
mod clarify;
mod continuing;
mod create;
mod fitting;
mod grants;
mod message;
mod model;
mod plain;
mod scoped_state;
mod state;
mod step;
mod time;
mod tool;
mod topic;

pub use artifact::Artifacts;
pub use assignee::Assignee;

pub use grants::covers;
pub use message::{AgentMessage, Target};
pub use plain::PlainOperation;
pub use scoped_state::ScopedState;
pub use state::{Shared, stored_scope};
pub use time::Elapsed;
pub(crate) use tool::CallTool;

pub(crate) use topic::topics_among;
pub use topic::{
    Overflow, Published, QueueCounts, Received, Subscriber, Subscription, Topic, TopicCounts,
};

pub(crate) use super::recorded_change::Updated;
pub use super::{
    decision::Decision,
    delegated::{Delegated, Spawned},
    ledger::Allowance,
    loop_context::Answering,
};
pub use crate::vocabulary::Scope;

pub(crate) use artifact::{LOAD as LOAD_ARTIFACT, content_of, writes as artifact_writes};
pub(crate) use changes::TeamToolState;
pub use create::{MadeResult, MadeStatus};
pub(crate) use fitting::{fits, schema_fault};
pub(crate) use grants::is_grant;
pub(crate) use state::{run_scope, session_scope};
pub(crate) use tool::{call_or_reconcile, cut_short, still_running, tool_digest};
pub(crate) use topic::{copied_result, copied_value, outlasts_journal};
