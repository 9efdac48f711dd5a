//! The actors: what runs, and who watches it.
//!
//! Architecture invariant: no handler waits for the world. A handler keeps the books and hands
//! slow work to a linked actor or to a task behind a handle that aborts when dropped.

mod acting;
mod agent;
mod call_table;
mod cancelling;
mod error;
mod event_stream;
mod fair_slots;
mod fork;
mod handles;
mod journal;
mod launch;
mod live_runs;
mod member;
mod memory_store;
mod model_gateway;
mod newer;
mod observers;
mod posting;
mod questions;
mod recording;
mod run_actor;
mod runtime_nudge;
mod services;
mod sessions;
mod submitted;
mod supervised_ref;
pub mod supervisor;
mod system;
mod text_stream;
mod timer_service;
mod tool_call;
mod tool_executor;
mod turns;
mod volatile;

pub use cancelling::{Quiet, StillRunning};
pub use error::{AnswerError, SystemError};
pub use event_stream::{EventStream, Missed};
pub use fork::Fork;
pub use handles::{Run, Session};
pub use member::Delegation;
pub use model_gateway::GatewayOptions;
pub use newer::newer_runs;
pub use recording::recording;
pub use sessions::{
    SessionDocument, SessionDocumentError, SessionPage, SessionQuery, SessionSummary, Sessions,
};
pub use submitted::Submitted;
pub use system::{
    Limits, OpenRuns, Pruned, Retention, Scheduled, System, SystemBuilder, pinned_team,
};
pub use text_stream::{TextDelta, TextStream};
pub use tool_executor::ExecutorOptions;

/// With ractor's `cluster` feature no type is a message unless it says so.
#[cfg(feature = "cluster")]
mod cluster {
    impl ractor::Message for super::agent::AgentMessage {}
    impl ractor::Message for super::timer_service::Nothing {}
    impl ractor::Message for super::journal::JournalMessage {}
    impl<T: Send + 'static> ractor::Message for super::call_table::KeeperMessage<T> {}
    impl ractor::Message for super::member::Delegation {}
    impl ractor::Message for super::memory_store::MemoryMessage {}
    impl ractor::Message for super::run_actor::Carry {}
}
