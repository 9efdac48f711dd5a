//! Folders of documents that agents and people search.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod citing;
mod command;
mod editor;
mod embeddings;
mod encoding;
mod folder;
mod hostile_pdf;
mod pages;
mod routing;
#[cfg(feature = "full")]
#[path = "../../../postgres/tests/postgres/server.rs"]
#[allow(dead_code)]
mod server;
#[cfg(feature = "full")]
mod server_rows;
mod staged;
#[path = "../../../retrieval/tests/retrieval/tiny_model.rs"]
mod tiny_model;
#[cfg(feature = "full")]
mod vector_stores;

use ghostlight::{builtin, config::TeamFile, prelude::*, run::Team, testing::ScriptedModel};

/// A System in memory with this team, whose model is scripted.
async fn started(team: TeamFile, model: &ScriptedModel) -> System {
    let registry = builtin().model("default", model.clone().into());
    let registry = team.resolve(registry).unwrap();
    let spec = team.into_spec();
    let system = System::builder(InMemoryStore::new()).team(Team { registry, spec });
    system.start().await.unwrap()
}
