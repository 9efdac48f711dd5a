//! Vectors that are kept elsewhere than in the memory of the index.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use ghostlight_actors::contract::BoxFuture;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use crate::vectors::{Scan, VectorIndex};

/// The owner of a vector: the same passage of the same document has the same id in every file of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VectorId(pub [u8; 16]);

impl VectorId {
    pub(super) fn of(folder: &str, name: &str, start: usize, digest: &[u8; 32]) -> Self {
        let mut hash = blake3::Hasher::new();
        for part in [folder, name] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        hash.update(&(start as u64).to_le_bytes());
        hash.update(digest);
        let mut id = [0; 16];
        for (byte, of_hash) in id.iter_mut().zip(hash.finalize().as_bytes()) {
            *byte = *of_hash;
        }
        Self(id)
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for VectorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Why a store of vectors failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VectorStoreError(pub String);

ghostlight_actors::parts_of_system_error!(VectorStoreError);

/// A store of the vectors of one index, such as a vector database: [`Index::open_with`](super::Index::open_with). It
/// holds derived data alone: what it lacks, or holds in excess, each sync of the index puts right.
pub trait VectorStore: Send + Sync + 'static {
    /// The ids of all its vectors.
    ///
    /// # Errors
    /// The store cannot be reached.
    fn ids(&self) -> impl Future<Output = Result<BTreeSet<VectorId>, VectorStoreError>> + Send;

    /// Keeps vectors, each instead of the one of its id. At most 500 are given at once.
    ///
    /// # Errors
    /// The store cannot be reached, or takes no such vectors.
    fn put(
        &self,
        vectors: Vec<(VectorId, Vec<f32>)>,
    ) -> impl Future<Output = Result<(), VectorStoreError>> + Send;

    /// Removes vectors; unknown ids are not an error.
    ///
    /// # Errors
    /// The store cannot be reached.
    fn remove(
        &self,
        ids: Vec<VectorId>,
    ) -> impl Future<Output = Result<(), VectorStoreError>> + Send;

    /// The vectors nearest to this one by their cosine, the best first, at most this many; of these ids alone, where some
    /// are given. `scan` says whether some may be missed.
    ///
    /// # Errors
    /// The store cannot be reached.
    fn nearest(
        &self,
        vector: Vec<f32>,
        limit: usize,
        scan: Scan,
        within: Option<Arc<BTreeSet<VectorId>>>,
    ) -> impl Future<Output = Result<Vec<(VectorId, f32)>, VectorStoreError>> + Send;
}

/// A store of any kind.
pub(super) trait ErasedVectorStore: Send + Sync {
    fn ids(&self) -> BoxFuture<'_, Result<BTreeSet<VectorId>, VectorStoreError>>;
    fn put(
        &self,
        vectors: Vec<(VectorId, Vec<f32>)>,
    ) -> BoxFuture<'_, Result<(), VectorStoreError>>;
    fn remove(&self, ids: Vec<VectorId>) -> BoxFuture<'_, Result<(), VectorStoreError>>;
    fn nearest(
        &self,
        vector: Vec<f32>,
        limit: usize,
        scan: Scan,
        within: Option<Arc<BTreeSet<VectorId>>>,
    ) -> BoxFuture<'_, Result<Vec<(VectorId, f32)>, VectorStoreError>>;
}

impl<S: VectorStore> ErasedVectorStore for S {
    fn ids(&self) -> BoxFuture<'_, Result<BTreeSet<VectorId>, VectorStoreError>> {
        Box::pin(VectorStore::ids(self))
    }

    fn put(
        &self,
        vectors: Vec<(VectorId, Vec<f32>)>,
    ) -> BoxFuture<'_, Result<(), VectorStoreError>> {
        Box::pin(VectorStore::put(self, vectors))
    }

    fn remove(&self, ids: Vec<VectorId>) -> BoxFuture<'_, Result<(), VectorStoreError>> {
        Box::pin(VectorStore::remove(self, ids))
    }

    fn nearest(
        &self,
        vector: Vec<f32>,
        limit: usize,
        scan: Scan,
        within: Option<Arc<BTreeSet<VectorId>>>,
    ) -> BoxFuture<'_, Result<Vec<(VectorId, f32)>, VectorStoreError>> {
        Box::pin(VectorStore::nearest(self, vector, limit, scan, within))
    }
}

/// A [`VectorStore`] in memory, which several indexes of one process can share, and which shows what a store is to do.
/// Clones share it.
#[derive(Clone, Debug)]
pub struct InMemoryVectors(Arc<RwLock<Held>>);

#[derive(Debug)]
struct Held {
    vectors: VectorIndex,
    places: HashMap<VectorId, usize>,
    ids: Vec<VectorId>,
}

impl InMemoryVectors {
    /// An empty store of vectors of this dimension.
    pub fn new(dimension: usize) -> Self {
        Self(Arc::new(RwLock::new(Held {
            vectors: VectorIndex::new(dimension),
            places: HashMap::new(),
            ids: Vec::new(),
        })))
    }
}

impl VectorStore for InMemoryVectors {
    async fn ids(&self) -> Result<BTreeSet<VectorId>, VectorStoreError> {
        Ok(self.0.read().places.keys().copied().collect())
    }

    async fn put(&self, vectors: Vec<(VectorId, Vec<f32>)>) -> Result<(), VectorStoreError> {
        let mut held = self.0.write();
        for (id, vector) in vectors {
            let place = held.vectors.add(&unit(vector));
            let place = place.map_err(|error| VectorStoreError(error.to_string()))?;
            held.ids.push(id);
            if let Some(before) = held.places.insert(id, place) {
                held.vectors.remove(before);
            }
        }
        Ok(())
    }

    async fn remove(&self, ids: Vec<VectorId>) -> Result<(), VectorStoreError> {
        let mut held = self.0.write();
        for id in ids {
            if let Some(place) = held.places.remove(&id) {
                held.vectors.remove(place);
            }
        }
        Ok(())
    }

    async fn nearest(
        &self,
        vector: Vec<f32>,
        limit: usize,
        scan: Scan,
        within: Option<Arc<BTreeSet<VectorId>>>,
    ) -> Result<Vec<(VectorId, f32)>, VectorStoreError> {
        let held = self.0.read();
        let id = |place: usize| held.ids.get(place).copied();
        let wanted = |place: usize| match (&within, id(place)) {
            (Some(within), Some(id)) => within.contains(&id),
            _ => true,
        };
        let hits = held
            .vectors
            .search_where(&unit(vector), limit, scan, wanted);
        let hits = hits.map_err(|error| VectorStoreError(error.to_string()))?;
        let told = hits
            .into_iter()
            .filter_map(|hit| Some((id(hit.place)?, hit.score)));
        Ok(told.collect())
    }
}

/// The vector at length 1, whose inner product with another one is their cosine. One of zeros stays as it is.
fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let squares: f64 = vector.iter().map(|number| f64::from(*number).powi(2)).sum();
    if squares > 0.0 {
        let length = squares.sqrt();
        for number in &mut vector {
            *number = (f64::from(*number) / length) as f32;
        }
    }
    vector
}
