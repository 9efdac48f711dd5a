#![doc = include_str!("../README.md")]

mod client;
mod server;

pub use client::{
    AuthorizationError, Command, Completing, ConnectError, IdentityProvider, McpToolset, OAuthSpec,
    PromptInfo, ResourceInfo, ResourceUpdates, ServerSpec, SettingsError, SkillInfo,
};
pub use server::{
    HttpOptions, HttpService, McpServer, Owner, PromptTemplate, Sender, ServeError,
    SkillFolderError, Stopping,
};
