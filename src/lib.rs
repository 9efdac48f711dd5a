//! Teams of LLM agents as supervised actors that survive anything.

// What `#[tool]` generates names `::ghostlight`, also in this crate's own tools and tests.
#[allow(unused_extern_crates)]
extern crate self as ghostlight;

pub mod behaviors;
mod builtin;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "yaml")]
pub mod config;
pub mod models;
pub mod retrieval;
pub mod stores;
pub mod structured_output;
pub mod tools;

pub use builtin::builtin;
pub use ghostlight_macros::tool;
#[doc(hidden)]
pub use tools::generated_code as __private;
