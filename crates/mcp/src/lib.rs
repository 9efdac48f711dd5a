#![doc = include_str!("../README.md")]

mod client;
mod server;

pub use client::{Command, ConnectError, McpToolset, ServerSettings, SettingsError};
pub use server::{HttpOptions, HttpService, McpServer, Owner, ServeError};
