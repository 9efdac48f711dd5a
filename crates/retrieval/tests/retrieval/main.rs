//! What the retrieval package promises, one file a promise.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod beside_the_line;
mod chunks_keep_their_place;
mod encoders;
mod folder;
mod formats_of_the_world;
mod hostile_documents;
mod index_follows_its_folder;
mod index_outlives_its_actor;
mod queries;
mod rankings;
mod readers_give_text;
mod rows_are_documents;
mod single_documents;
mod sources_that_fail;
mod stages;
mod tiny_model;
mod vector_stores;
mod vectors_are_estimated;
mod vectors_are_exact;
