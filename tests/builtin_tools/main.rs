//! Toolsets, and the built-in tools as teams use them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod files;
mod openapi;
mod tool_search;
mod toolsets;
