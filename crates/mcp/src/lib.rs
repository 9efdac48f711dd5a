#![doc = include_str!("../README.md")]

mod ambiguous;
mod client;
mod form_secrets;
mod server;

pub use client::{
    AuthorizationError, Command, Completing, ConnectError, IdentityProvider, McpToolset, OAuthSpec,
    PromptInfo, ResourceInfo, ResourceUpdates, ServerSpec, ServerSpecError, SkillInfo,
};
pub use server::{
    HttpOptions, HttpService, McpServer, McpServerError, Owner, PromptTemplate, Sender,
    SkillFolderError, Stopping,
};
