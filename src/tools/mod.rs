//! Tools: functions and closures as tools, and those that are built in.

pub mod calculator;
mod function;

pub use calculator::Calculator;
pub use function::{tool_fn, tool_fn_with_context};
