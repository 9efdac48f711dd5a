//! Tools: functions and closures as tools, and those that are built in.

mod artifacts;
pub mod calculator;
mod function;
#[doc(hidden)]
pub mod generated_code;
mod notes;
mod wait;

pub use artifacts::{
    LIST_ARTIFACTS, LOAD_ARTIFACT, SAVE_ARTIFACT, list_artifacts, load_artifact, save_artifact,
};
pub use calculator::Calculator;
pub use function::{tool_fn, tool_fn_with_context};
#[cfg(feature = "tools")]
pub use ghostlight_tools::*;
pub use notes::{FIND_NOTES, READ_NOTE, WRITE_NOTE, find_notes, read_note, write_note};
pub use wait::{WAIT, wait};
