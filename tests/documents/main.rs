//! Folders of documents that agents and people search.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod citing;
mod command;
mod embeddings;
mod encoding;
mod folder;
mod hostile_pdf;
mod pages;
mod routing;
#[path = "../../crates/retrieval/tests/retrieval/tiny_model.rs"]
mod tiny_model;
