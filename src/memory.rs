//! The memory of agents within a run and between runs.
//!
//! It is the package `ghostlight-memory`, which needs the engine alone.

pub use ghostlight_memory::*;
