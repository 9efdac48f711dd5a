//! A cache of vectors.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use ghostlight_actors::contract::{
    Embedder, EmbedderHandle, Embedding, EmbeddingPurpose, EmbeddingSpace, ModelError,
};

/// Caches the vectors of the texts that were requested last, by their whole text.
///
/// It keeps two generations of texts: when the younger one is full, the older one is dropped, and a text that is
/// requested again moves to the younger one. So the cache holds between half of its limit and all of it.
#[derive(Debug)]
pub struct CachedEmbedder {
    embedder: EmbedderHandle,
    /// The most texts of a generation.
    half: usize,
    generations: Mutex<Generations>,
}

type Texts = HashMap<(EmbeddingPurpose, Box<str>), Embedding>;

#[derive(Debug, Default)]
struct Generations {
    young: Texts,
    old: Texts,
}

impl CachedEmbedder {
    /// Caches the vectors of at most this many texts.
    pub fn new(embedder: impl Into<EmbedderHandle>, texts: usize) -> Self {
        Self {
            embedder: embedder.into(),
            half: (texts / 2).max(1),
            generations: Mutex::default(),
        }
    }

    fn known(&self, purpose: EmbeddingPurpose, text: &str) -> Option<Embedding> {
        let key = (purpose, Box::from(text));
        let mut generations = self
            .generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(vector) = generations.young.get(&key) {
            return Some(vector.clone());
        }
        let vector = generations.old.remove(&key)?;
        self.keep(&mut generations, key, vector.clone());
        Some(vector)
    }

    fn keep(
        &self,
        generations: &mut Generations,
        key: (EmbeddingPurpose, Box<str>),
        vector: Embedding,
    ) {
        if generations.young.len() >= self.half {
            generations.old = std::mem::take(&mut generations.young);
        }
        generations.young.insert(key, vector);
    }
}

impl Embedder for CachedEmbedder {
    fn space(&self) -> EmbeddingSpace {
        EmbeddingSpace::clone(self.embedder.space())
    }

    async fn embed(
        &self,
        texts: &[&str],
        purpose: EmbeddingPurpose,
    ) -> Result<Vec<Embedding>, ModelError> {
        let mut vectors: Vec<Option<Embedding>> =
            texts.iter().map(|text| self.known(purpose, text)).collect();
        let mut missing: Vec<&str> = texts
            .iter()
            .zip(&vectors)
            .filter(|(_, vector)| vector.is_none())
            .map(|(text, _)| *text)
            .collect();
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            let made = self.embedder.embed(&missing, purpose).await?;
            let made: HashMap<&str, Embedding> = missing.into_iter().zip(made).collect();
            for (vector, text) in vectors.iter_mut().zip(texts) {
                if vector.is_none() {
                    *vector = made.get(text).cloned();
                }
            }
            let mut generations = self
                .generations
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            for (text, vector) in made {
                self.keep(&mut generations, (purpose, text.into()), vector);
            }
        }
        Ok(vectors.into_iter().flatten().collect())
    }

    fn max_batch(&self) -> usize {
        // The embedder's own handle divides the missing texts into batches.
        usize::MAX
    }
}
