//! Toolsets, and the built-in tools as teams use them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod approvals;
mod each_tool;
mod files;
mod openapi;
#[cfg(all(feature = "anp", feature = "server"))]
mod registry;
mod skills;
mod small;
mod tool_names;
mod tool_search;
mod toolsets;
