#![doc = include_str!("../README.md")]

mod client;

pub use client::{Command, ConnectError, McpToolset, ServerSettings, SettingsError};
