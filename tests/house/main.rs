//! Holds the house to its own rules: which room may name which, how files are named and how long
//! they grow, which licences come in, and that the feature table tells the truth.
//!
//! Each rule is a function over parsed sources that returns what it found, one line a finding, so
//! that it can be tried on small snippets next to it; the tests at the end of each module are both.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod circles;
mod english;
mod feature_sets;
mod features;
mod files;
mod licences;
mod mentions;
mod named_tests;
mod pages;
mod public_items;
mod public_names;
mod reach;
mod rooms;
mod sources;
mod tokio_features;
mod words;

/// Fails with all findings at once: a developer wants the list, not the first of it.
#[track_caller]
fn assert_none(findings: &[String], rule: &str) {
    assert!(findings.is_empty(), "{rule}\n{}\n", findings.join("\n"));
}
