//! The part of an index in memory: both rankings, and the document of each position in them.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use super::{
    DocumentRow, Filter, IndexError, Query, Ranked, VectorId,
    file::{Content, IndexFile},
};
use crate::{
    bm25::Bm25Index,
    fusion::{Ranking, maximal_marginal_relevance, reciprocal_rank_fusion},
    readers::Metadata,
    vectors::VectorIndex,
};

/// How many candidates each ranking gives for each wanted result, and the least number of candidates.
pub(super) const POOL: (usize, usize) = (4, 50);

/// The size of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexStatistics {
    /// How many documents were indexed.
    pub documents: usize,
    /// How many could not be indexed.
    pub failed: usize,
    /// How many chunks there are.
    pub chunks: usize,
    /// The bytes of their texts.
    pub text_bytes: u64,
    /// The bytes of memory that their vectors take.
    pub vector_bytes: u64,
    /// The bytes of the file, with the log beside it.
    pub file_bytes: u64,
}

/// How an index fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexHealth {
    /// All its documents could be read, or there are none.
    Healthy,
    /// Some of them could not be read, or not be reached.
    Degraded,
    /// None of them could be read.
    Unhealthy,
}

impl IndexHealth {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unhealthy => "unhealthy",
        }
    }
}

impl IndexStatistics {
    /// How the index fares.
    pub fn health(&self) -> IndexHealth {
        match (self.failed, self.documents) {
            (0, _) => IndexHealth::Healthy,
            (_, 0) => IndexHealth::Unhealthy,
            _ => IndexHealth::Degraded,
        }
    }
}

/// A document in the rankings.
#[derive(Debug)]
struct Document {
    folder: Arc<str>,
    name: Arc<str>,
    metadata: Metadata,
    /// The positions of its chunks.
    places: std::ops::Range<usize>,
}

/// The rankings. A position is the same chunk in both.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    words: Bm25Index,
    vectors: Option<VectorIndex>,
    /// The chunk's number in the file and the document, for each position.
    places: Vec<(i64, usize)>,
    documents: Vec<Option<Document>>,
    by_name: HashMap<(Arc<str>, Arc<str>), usize>,
    /// The positions by the ids of their vectors, where these are in a store of their own.
    by_vector: Option<HashMap<VectorId, usize>>,
    /// The id of the vector at each position, in the same case.
    vector_ids: Vec<VectorId>,
}

/// A chunk of the file with its score.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankedChunk {
    pub(super) chunk: i64,
    pub(super) score: f64,
}

impl Loaded {
    /// Loads a file, with its vectors, or without those that are in a store of their own.
    pub(super) fn from_file(file: &mut IndexFile, keeps_vectors: bool) -> Result<Self, IndexError> {
        let mut loaded = Self {
            vectors: file
                .dimension()
                .filter(|_| keeps_vectors)
                .map(VectorIndex::new),
            by_vector: (!keeps_vectors).then(HashMap::new),
            ..Self::default()
        };
        file.each_document(|row, contents, chunks| loaded.add(row, contents, chunks))?;
        Ok(loaded)
    }

    /// Adds the chunks of a document, with their numbers in the file.
    pub(super) fn add(
        &mut self,
        row: &DocumentRow,
        contents: &[Content],
        chunks: &[i64],
    ) -> Result<(), IndexError> {
        let first = self.places.len();
        let number = self.documents.len();
        for (content, chunk) in contents.iter().zip(chunks) {
            self.words
                .add(&content.searched(row.title.as_deref().unwrap_or(&row.name)));
            if let Some(vectors) = &mut self.vectors {
                let zeros;
                let vector = match &content.vector {
                    Some(vector) => vector,
                    None => {
                        zeros = vec![0.0; vectors.dimension()];
                        &zeros
                    }
                };
                let wrong =
                    |error: crate::vectors::WrongVector| IndexError::Query(error.to_string());
                vectors.add(vector).map_err(wrong)?;
            }
            if let Some(ids) = &mut self.by_vector {
                let start = content.chunk.range.start;
                let id = VectorId::of(&row.folder, &row.name, start, &content.digest);
                self.vector_ids.push(id);
                if content.vector.is_some() {
                    ids.insert(id, self.places.len());
                }
            }
            self.places.push((*chunk, number));
        }
        let (folder, name): (Arc<str>, Arc<str>) =
            (row.folder.as_str().into(), row.name.as_str().into());
        self.by_name.insert((folder.clone(), name.clone()), number);
        self.documents.push(Some(Document {
            folder,
            name,
            metadata: row.metadata.clone(),
            places: first..self.places.len(),
        }));
        Ok(())
    }

    /// Removes the chunks of a document.
    pub(super) fn remove(&mut self, folder: &str, name: &str) {
        let key = (Arc::from(folder), Arc::from(name));
        let Some(number) = self.by_name.remove(&key) else {
            return;
        };
        let document = self.documents.get_mut(number).and_then(Option::take);
        let places = document.map_or(0..0, |document| document.places);
        for place in places {
            if let (Some(ids), Some(id)) = (&mut self.by_vector, self.vector_ids.get(place)) {
                // The document's new version may have the same passage, under another position.
                if ids.get(id) == Some(&place) {
                    ids.remove(id);
                }
            }
            self.words.remove(place);
            if let Some(vectors) = &mut self.vectors {
                vectors.remove(place);
            }
        }
    }

    /// Loads the file again if most positions are unused.
    pub(super) fn make_anew_where_it_pays(
        &mut self,
        file: &mut IndexFile,
    ) -> Result<(), IndexError> {
        if self.places.len() > 1_000 && self.words.len() * 2 < self.places.len() {
            *self = Self::from_file(file, self.by_vector.is_none())?;
        }
        Ok(())
    }

    /// Which documents a filter admits.
    fn admitted(&self, filter: &Filter) -> Vec<bool> {
        self.documents
            .iter()
            .map(|document| {
                document.as_ref().is_some_and(|document| {
                    filter.admits(&document.folder, &document.name)
                        && filter.holds(&document.metadata)
                })
            })
            .collect()
    }

    /// The ids of the vectors of all passages that a filter admits.
    pub(super) fn within(&self, filter: &Filter) -> BTreeSet<VectorId> {
        let admitted = self.admitted(filter);
        let is_admitted = |place: &usize| {
            let document = self.places.get(*place).map(|(_, document)| *document);
            document.is_some_and(|document| admitted.get(document).copied().unwrap_or_default())
        };
        let ids = self.by_vector.iter().flatten();
        ids.filter(|(_, place)| is_admitted(place))
            .map(|(id, _)| *id)
            .collect()
    }

    /// The vectors of these ids, from the file.
    pub(super) fn kept(
        &self,
        ids: &[VectorId],
        file: &IndexFile,
    ) -> Result<Vec<(VectorId, Vec<f32>)>, IndexError> {
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            let place = self.by_vector.as_ref().and_then(|ids| ids.get(id));
            let chunk = place.and_then(|place| self.places.get(*place));
            if let Some((chunk, _)) = chunk
                && let Some(vector) = file.vector(*chunk)?
            {
                found.push((*id, vector));
            }
        }
        Ok(found)
    }

    /// The best chunks by the wanted rankings, fused.
    pub(super) fn rank(&self, query: &Query) -> Result<Vec<RankedChunk>, IndexError> {
        let admitted = self.admitted(&query.filter);
        let wanted = |place: usize| {
            let document = self
                .places
                .get(place)
                .map_or(usize::MAX, |(_, document)| *document);
            admitted.get(document).copied().unwrap_or_default()
        };
        let pool = (query.limit * POOL.0).max(POOL.1);
        let mut rankings = Vec::new();
        for probe in &query.probes {
            let vector = match (&probe.vector, query.ranked) {
                (Some(vector), Ranked::Vectors | Ranked::Both) => Some(vector),
                _ => None,
            };
            let vectors = self.vectors.as_ref().zip(vector);
            if query.ranked == Ranked::Vectors && vectors.is_none() && probe.near.is_none() {
                return Err(IndexError::Query(String::from(
                    "this index has no vectors: open it with an embedder, or rank by words",
                )));
            }
            if query.ranked != Ranked::Vectors {
                let hits = self.words.search_where(&probe.text, pool, wanted);
                rankings.push(
                    Ranking::new(hits.into_iter().map(|hit| hit.document)).weight(probe.weight),
                );
            }
            if let (Some(near), Some(ids)) = (&probe.near, &self.by_vector) {
                // A store may not know yet what has changed.
                let near = near.iter().filter(|(_, score)| *score > 0.0);
                let near = near.filter_map(|(id, _)| ids.get(id).copied());
                let near = near.filter(|place| wanted(*place));
                rankings.push(Ranking::new(near).weight(probe.weight));
            }
            if let Some((vectors, vector)) = vectors {
                let hits = vectors.search_where(vector, pool, query.scan, wanted);
                let hits = hits.map_err(|error| IndexError::Query(error.to_string()))?;
                // A vector with nothing in common with the query is not a result, however few there are.
                let near = hits.into_iter().filter(|hit| hit.score > 0.0);
                rankings.push(Ranking::new(near.map(|hit| hit.place)).weight(probe.weight));
            }
        }
        let fused = reciprocal_rank_fusion(&rankings);
        Ok(self.chosen(fused, query))
    }

    /// The wanted number of results, diversified as far as the query wants.
    fn chosen(&self, mut fused: Vec<(usize, f64)>, query: &Query) -> Vec<RankedChunk> {
        if query.diversity > 0.0
            && let Some(vectors) = &self.vectors
        {
            fused.truncate((query.limit * POOL.0).max(POOL.1));
            let best = fused.first().map_or(1.0, |(_, score)| *score);
            let relevance: Vec<f64> = fused.iter().map(|(_, score)| score / best).collect();
            let vector = |candidate: usize| {
                fused
                    .get(candidate)
                    .and_then(|(place, _)| vectors.get(*place))
            };
            let similarity = |a: usize, b: usize| -> f64 {
                let pair = vector(a).zip(vector(b));
                let product =
                    |(a, b): (&[f32], &[f32])| -> f32 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
                f64::from(pair.map_or(0.0, product)).clamp(0.0, 1.0)
            };
            let lambda = 1.0 - query.diversity;
            let picked = maximal_marginal_relevance(&relevance, similarity, lambda, query.limit);
            fused = picked
                .into_iter()
                .filter_map(|candidate| fused.get(candidate).copied())
                .collect();
        }
        fused.truncate(query.limit);
        let chunk = |place: usize| self.places.get(place).map(|(chunk, _)| *chunk);
        let ranked = fused.into_iter().filter_map(|(place, score)| {
            let chunk = chunk(place)?;
            Some(RankedChunk { chunk, score })
        });
        ranked.collect()
    }

    pub(super) fn statistics(&self, file: &mut IndexFile) -> Result<IndexStatistics, IndexError> {
        let mut statistics = file.statistics()?;
        statistics.vector_bytes = self.vectors.as_ref().map_or(0, |vectors| {
            (vectors.len() * vectors.bytes_per_vector()) as u64
        });
        Ok(statistics)
    }
}
