//! Toolsets, and the built-in tools as teams use them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod each_tool;
mod files;
mod openapi;
mod small;
mod tool_search;
mod toolsets;
