#![allow(clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod choice;
mod faults;
mod limits;
mod properties;
mod streams;
mod strictness;
mod types;

use serde_json::Value;

use super::{RepairKind, read};

/// The value that is read from `text`.
fn value(text: &str) -> Value {
    read(text).unwrap().value
}

/// The kinds of repairs in `text`.
fn kinds(text: &str) -> Vec<RepairKind> {
    read(text)
        .unwrap()
        .repairs
        .iter()
        .map(|repair| repair.kind)
        .collect()
}
