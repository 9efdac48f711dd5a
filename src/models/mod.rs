//! Models to plug into a team.

pub mod offline;

pub use offline::OfflineModel;
