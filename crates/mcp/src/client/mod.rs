//! The client: tools of MCP servers for agents.

mod authorization;
mod catalogue;
mod connection;
mod content;
mod definition;
mod error;
mod failure;
mod form;
mod handler;
mod http;
mod import;
mod lenient;
mod life;
mod overhearing;
mod pages;
mod pins;
mod place;
mod private_file;
mod references;
mod settings;
mod skills;
mod tasks;
mod tool;
mod toolset;
mod under_way;
mod wire;

pub use self::{
    authorization::{IdentityProvider, OAuthSpec},
    catalogue::{Completing, PromptInfo, ResourceInfo, ResourceUpdates},
    error::{AuthorizationError, ConnectError, ServerSpecError},
    settings::{Command, ServerSpec},
    skills::SkillInfo,
    toolset::McpToolset,
};

/// The largest message that is read from a server, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 << 20;
