//! The actors: those that run agents, and those that supervise and serve them.
//!
//! Architecture invariant: no handler waits for the world. A handler keeps the books and hands
//! slow work to a linked actor or to a task behind a handle that aborts when dropped.

mod acting;
mod agent;
mod agent_command;
mod call_table;
mod cancelling;
mod companion;
mod continuations;
mod error;
mod event_stream;
mod fair_slots;
mod fork;
mod group_commit;
mod handles;
mod launch;
mod live_runs;
mod loaded;
mod member;
mod model_gateway;
mod newer;
mod observers;
mod open_questions;
mod options;
mod partial_answers;
mod poll_interval;
mod previewer;
mod questions;
mod recording;
mod relay;
mod retention;
mod runtime_nudge;
mod said;
mod services;
mod session_agents;
mod session_document;
mod sessions;
mod shared;
mod state_cache;
mod submitted;
mod supervised_ref;
pub mod supervisor;
mod system;
mod text_stream;
mod tool_call;
mod tool_executor;
mod turns;
mod volatile;
mod waiting;
mod wake;
mod wake_service;

pub use cancelling::{Quiet, StillRunning};
pub use companion::Companion;
pub use error::{AnswerError, SystemError};
pub use event_stream::{EventStream, Missed};
pub use fair_slots::SlotCounts;
pub use fork::Fork;
pub use handles::{Run, Session};
pub(crate) use loaded::from_checkpoint;
pub use loaded::pinned_team;
pub use member::{Delegation, MemberRef};
pub use model_gateway::GatewayOptions;
pub use newer::newer_runs;
pub use options::SystemOptions;
pub use recording::{RecordedText, recording};
pub use relay::{Relay, Relays};
pub use retention::{Pruned, Retention};
pub use session_document::{SessionDocument, SessionDocumentError};
pub use sessions::{SessionPage, SessionQuery, SessionSummary, Sessions};
pub use submitted::Submitted;
pub use system::{Load, OpenRuns, Scheduled, System, SystemBuilder};
pub use text_stream::{TextDelta, TextStream};
pub use tool_executor::ExecutorOptions;

/// With ractor's `cluster` feature every message type has to implement `Message` itself.
#[cfg(feature = "cluster")]
mod cluster {
    impl ractor::Message for super::agent_command::AgentCommand {}
    impl ractor::Message for super::system::Nothing {}
    impl ractor::Message for super::group_commit::CommitterMessage {}
    impl<T: Send + 'static> ractor::Message for super::call_table::KeeperMessage<T> {}
    impl ractor::Message for super::member::Delegation {}
}
