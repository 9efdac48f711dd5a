//! The assembly of teams: builders, and the registry of the code behind their names.
//!
//! Architecture invariant: runs know no registry. They ask for code by its name, through `run::Code`.

mod builder;
mod checks;
mod code;
mod defining;
mod intercept;
mod interception;
mod makers;
mod members;
mod names;
mod registry;
mod replay;
mod tool_names;
mod toolsets;

pub use builder::{Agent, AgentBehavior, AgentModel, AgentPolicy, Team};
pub use intercept::Intercept;
pub(crate) use members::ToolSources;
pub use registry::Registry;
pub use replay::replay;
