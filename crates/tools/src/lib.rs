#![doc = include_str!("../README.md")]

mod blocking;
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
pub mod web;

#[cfg(all(feature = "code", unix))]
pub use code::{Code, CodeError};
pub use files::{Files, FilesError, FilesSpec};
#[cfg(unix)]
pub use launcher::{Confinement, Rlimits};
#[cfg(feature = "openapi")]
pub use openapi::{OpenApi, OpenApiError, OpenApiSpec};
pub use skills::{Skill, Skills, SkillsError, SkillsSpec};
#[cfg(unix)]
pub use terminal::{CommandRule, Demand, Terminal, TerminalError, TerminalSpec};
pub use web::{PageError, PageReader, ReadPage, Web, WebError, WebSpec};
