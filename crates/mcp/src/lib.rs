#![doc = include_str!("../README.md")]

mod client;
mod server;

pub use client::{
    AuthorizationError, Command, Completing, ConnectError, IdentityProvider, McpToolset,
    OAuthSettings, PromptInfo, ResourceInfo, ResourceUpdates, ServerSettings, SettingsError,
    SkillInfo,
};
pub use server::{
    HttpOptions, HttpService, McpServer, Owner, PromptTemplate, Sender, ServeError,
    SkillFolderError, Stopping,
};
