//! The engine of Ghostlight.

pub mod actor;
