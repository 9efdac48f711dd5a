//! Tools: functions and closures as tools, and those that are built in.

mod function;

pub use function::{tool_fn, tool_fn_with_context};
