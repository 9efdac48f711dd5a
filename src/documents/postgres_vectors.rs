//! The vectors of an index in PostgreSQL.

use std::{collections::BTreeSet, sync::Arc};

use ghostlight_actors::{contract::EmbeddingSpace, contract::StoreError};
use ghostlight_postgres::{Options, VECTOR_TABLE, VectorKey, Vectors};
use schemars::JsonSchema;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};

use crate::{
    models::Secret,
    retrieval::{
        index::{VectorId, VectorStore, VectorStoreError},
        vectors::Scan,
    },
};

/// Where an index keeps its vectors, instead of in the memory of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct VectorStoreSpec {
    /// The address of a PostgreSQL database with the extension pgvector, such as `${DATABASE_URL}`.
    pub postgres: Secret,
    /// The table, in the schema `public`: small letters, digits and underscores. Each index has a table of its own.
    #[serde(default = "default_table")]
    pub table: String,
}

fn default_table() -> String {
    VECTOR_TABLE.to_owned()
}

impl VectorStoreSpec {
    /// A table of the name `ghostlight_vectors` in the database at this address.
    pub fn new(postgres: Secret) -> Self {
        Self {
            postgres,
            table: default_table(),
        }
    }
}

/// A [`VectorStore`] in a table of PostgreSQL, by the extension pgvector. Clones share its connections.
///
/// It connects when it is first used, and makes the extension and the table if they are missing. A search that may miss
/// some ([`Scan::Approximate`]) uses an HNSW index for vectors of at most 2,000 numbers; any other, and one that is
/// filtered, compares all.
#[derive(Clone, Debug)]
pub struct PostgresVectors(Vectors);

impl PostgresVectors {
    /// The store of this description, for the vectors of an embedder with this space.
    ///
    /// # Errors
    /// The address is missing or does not read, the name of the table is none, or pgvector has no vectors of that dimension.
    pub fn new(spec: &VectorStoreSpec, space: &EmbeddingSpace) -> Result<Self, String> {
        let url = spec.postgres.reveal().map_err(|error| error.to_string())?;
        let mut options = Options::default();
        "public".clone_into(&mut options.schema);
        let vectors = Vectors::new(
            url.expose_secret(),
            &options,
            &spec.table,
            space.dimension,
            &space.name,
        );
        vectors.map(Self).map_err(|error| error.to_string())
    }

    /// The address for people, without the password, and the table.
    pub fn place(&self) -> String {
        self.0.place()
    }

    /// Drops the table, if it is one of vectors: the next use makes it anew, for another embedder if need be.
    ///
    /// # Errors
    /// The database cannot be reached or refuses, or the table is not one of vectors.
    pub async fn clear(&self) -> Result<(), VectorStoreError> {
        self.0.clear().await.map_err(failed)
    }
}

fn failed(error: StoreError) -> VectorStoreError {
    VectorStoreError(error.to_string())
}

impl VectorStore for PostgresVectors {
    async fn ids(&self) -> Result<BTreeSet<VectorId>, VectorStoreError> {
        let keys = self.0.keys().await.map_err(failed)?;
        Ok(keys.into_iter().map(VectorId).collect())
    }

    async fn put(&self, vectors: Vec<(VectorId, Vec<f32>)>) -> Result<(), VectorStoreError> {
        let vectors: Vec<(VectorKey, Vec<f32>)> = vectors
            .into_iter()
            .map(|(id, vector)| (id.0, vector))
            .collect();
        self.0.put(&vectors).await.map_err(failed)
    }

    async fn remove(&self, ids: Vec<VectorId>) -> Result<(), VectorStoreError> {
        let keys: Vec<VectorKey> = ids.into_iter().map(|id| id.0).collect();
        self.0.remove(&keys).await.map_err(failed)
    }

    async fn nearest(
        &self,
        vector: Vec<f32>,
        limit: usize,
        scan: Scan,
        within: Option<Arc<BTreeSet<VectorId>>>,
    ) -> Result<Vec<(VectorId, f32)>, VectorStoreError> {
        let within: Option<Vec<VectorKey>> =
            within.map(|within| within.iter().map(|id| id.0).collect());
        let may_miss = scan == Scan::Approximate;
        let hits = self
            .0
            .nearest(&vector, limit, may_miss, within.as_deref())
            .await;
        let hits = hits.map_err(failed)?.into_iter();
        Ok(hits.map(|(key, score)| (VectorId(key), score)).collect())
    }
}
