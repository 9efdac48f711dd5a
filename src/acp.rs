//! The Agent Client Protocol: teams as agents for editors.
//!
//! It is the package `ghostlight-acp`; `ghostlight acp TEAM.yaml` serves a team by it.

pub use ghostlight_acp::*;
