//! Checkers of benchmarks: their verdicts are those of the official ones, quirks included.

pub(crate) mod bfcl;
mod languages;
mod python;
pub(crate) mod questions;
