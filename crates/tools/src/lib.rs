#![doc = include_str!("../README.md")]

pub mod files;
mod typed;

pub use files::{FileSettings, Files, FilesError};
