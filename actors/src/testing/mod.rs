//! The test kit, for the engine's own tests and for those of its users.

mod scripted_model;

pub use scripted_model::{
    Reply, Script, ScriptOrder, ScriptedCall, ScriptedModel, ScriptedReply, SeenRequest,
};
