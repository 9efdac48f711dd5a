//! The test kit: what engine, stores and users' own agents are tested with.
//!
//! [`InMemoryStore`] is also the store of a System whose durability is off.

mod memory_store;
mod provider_rules;
mod scripted_model;
pub mod store_conformance;

pub use memory_store::InMemoryStore;
pub use provider_rules::check_transcript;
pub use scripted_model::{
    Reply, Script, ScriptOrder, ScriptedCall, ScriptedModel, ScriptedReply, SeenRequest,
};
