//! The promises, one module each; every test is named for what is promised.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../agents/mod.rs"]
mod agents;
mod crash_everywhere;
