//! Safety: texts that are shown to people, and texts that come in from outside.
//!
//! It is the package `ghostlight-safety`, which needs no other part of Ghostlight.

pub use ghostlight_actors::vocabulary::seconds;
pub use ghostlight_safety::*;
