#![doc = include_str!("../README.md")]

pub mod files;
#[cfg(unix)]
pub mod launcher;
#[cfg(unix)]
pub mod terminal;
mod typed;

pub use files::{FileSettings, Files, FilesError};
#[cfg(unix)]
pub use launcher::{Confinement, Rlimits};
#[cfg(unix)]
pub use terminal::{CommandRule, Demand, Terminal, TerminalError, TerminalSettings};
