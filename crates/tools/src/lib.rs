#![doc = include_str!("../README.md")]

#[cfg(all(feature = "code", unix))]
pub mod code;
pub mod files;
#[cfg(unix)]
pub mod launcher;
#[cfg(feature = "openapi")]
pub mod openapi;
pub mod skills;
#[cfg(unix)]
pub mod terminal;
mod typed;
pub mod web;

#[cfg(all(feature = "code", unix))]
pub use code::{Code, CodeError};
pub use files::{FileSettings, Files, FilesError};
#[cfg(unix)]
pub use launcher::{Confinement, Rlimits};
#[cfg(feature = "openapi")]
pub use openapi::{OpenApi, OpenApiError, OpenApiSettings};
pub use skills::{Skill, SkillSettings, Skills, SkillsError};
#[cfg(unix)]
pub use terminal::{CommandRule, Demand, Terminal, TerminalError, TerminalSettings};
pub use web::{PageError, PageReader, ReadPage, Web, WebError, WebSettings};
