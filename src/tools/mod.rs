//! Tools: functions and closures as tools, and those that are built in.

mod artifacts;
pub mod calculator;
mod docs_search;
mod function;
#[doc(hidden)]
pub mod generated_code;

pub use artifacts::{
    LIST_ARTIFACTS, LOAD_ARTIFACT, SAVE_ARTIFACT, list_artifacts, load_artifact, save_artifact,
};
pub use calculator::Calculator;
pub use docs_search::{DocsLimits, DocsPassage, DocsSearch, DocsSearchError};
pub use function::{tool_fn, tool_fn_with_context};
#[cfg(feature = "tools")]
pub use ghostlight_tools::*;
