//! The vectors of items.

use std::sync::Arc;

use ghostlight_actors::contract::{EmbeddingPurpose, EmbeddingSpace};

use crate::{
    Memory,
    draft::Draft,
    view::{View, text_of},
};

/// How many items without a vector get one in each search.
pub(crate) const BACKFILL: usize = 32;

/// Vectors for some items without one. Such items were written without an embedder, or with another one.
pub(crate) async fn missing_vectors(
    memory: &Memory,
    view: &View,
) -> Vec<(String, String, Vec<f32>)> {
    let missing = view
        .kept
        .values()
        .filter(|kept| kept.vector.is_none())
        .take(BACKFILL);
    let (ids, texts): (Vec<String>, Vec<String>) = missing
        .map(|kept| (kept.item.id.clone(), text_of(&kept.item)))
        .unzip();
    let vectors = memory.embed(&texts, EmbeddingPurpose::Document).await;
    let each = ids.into_iter().zip(texts).zip(vectors);
    each.filter_map(|((id, text), vector)| Some((id, text, vector?)))
        .collect()
}

impl Memory {
    /// The space of its embedder's vectors.
    pub(crate) fn space(&self) -> Option<&Arc<EmbeddingSpace>> {
        self.embedder_of().map(|embedder| embedder.space())
    }

    /// The vectors of these texts; none without an embedder, or if it fails: then words are compared.
    pub(crate) async fn embed(
        &self,
        texts: &[String],
        purpose: EmbeddingPurpose,
    ) -> Vec<Option<Vec<f32>>> {
        let Some(embedder) = self.embedder_of().filter(|_| !texts.is_empty()) else {
            return vec![None; texts.len()];
        };
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        match embedder.embed(&texts, purpose).await {
            Ok(vectors) => vectors.into_iter().map(Some).collect(),
            Err(error) => {
                tracing::warn!(memory = self.name(), %error, "no vectors: words are compared instead");
                vec![None; texts.len()]
            }
        }
    }

    /// Stores the vector of an item, if there is one.
    pub(crate) fn put_vector(
        &self,
        draft: &mut Draft,
        id: &str,
        vector: Option<&Option<Vec<f32>>>,
    ) {
        if let (Some(embedder), Some(Some(vector))) = (self.embedder_of(), vector) {
            draft.put_vector(id, embedder.space(), vector);
        }
    }
}
