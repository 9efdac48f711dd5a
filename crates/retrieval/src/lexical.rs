//! Vectors of words and letters, without a model.

use std::collections::BTreeMap;

use ghostlight_actors::contract::{
    Embedder, Embedding, EmbeddingKind, EmbeddingPurpose, EmbeddingSpace, ModelError,
};

use crate::terms::content_terms;

/// The lengths of word pieces.
const PIECES: std::ops::RangeInclusive<usize> = 3..=5;
/// The weight of all pieces of a word beside the word itself.
const PIECES_WEIGHT: f32 = 0.5;

/// An embedder that needs no model, no file and no network: words, and pieces of words, are hashed to the components of
/// a vector.
///
/// It is purely lexical: texts are alike if they share words or parts of them. It forgives spelling and endings
/// (*resume*, *resumption*), and knows nothing of meaning: *car* and *automobile* have nothing in common. Signed
/// hashing is after Weinberger and others, *Feature Hashing for Large Scale Multitask Learning* (2009); pieces of words
/// after Bojanowski and others, *Enriching Word Vectors with Subword Information* (2017).
#[derive(Clone, Debug)]
pub struct LexicalEmbedder {
    dimension: usize,
}

impl LexicalEmbedder {
    /// The default dimension of vectors.
    pub const DEFAULT_DIMENSION: usize = 512;

    /// An embedder with vectors of this dimension, at least one.
    pub fn new(dimension: usize) -> Self {
        Self {
            dimension: dimension.max(1),
        }
    }

    /// The vector of a text.
    pub fn vector(&self, text: &str) -> Embedding {
        let mut counts: BTreeMap<String, f32> = BTreeMap::new();
        for term in content_terms(text) {
            *counts.entry(term).or_default() += 1.0;
        }
        let mut vector = vec![0.0; self.dimension];
        for (term, count) in counts {
            let weight = 1.0 + count.ln();
            self.add(&mut vector, &term, weight);
            let marked: Vec<char> = format!("<{term}>").chars().collect();
            let pieces = || PIECES.flat_map(|length| marked.windows(length));
            let share = PIECES_WEIGHT * weight / (pieces().count().max(1) as f32).sqrt();
            for piece in pieces() {
                self.add(&mut vector, &piece.iter().collect::<String>(), share);
            }
        }
        vector
    }

    fn add(&self, vector: &mut [f32], feature: &str, weight: f32) {
        let hash = hash(feature);
        let sign = if hash >> 63 == 0 { 1.0 } else { -1.0 };
        let place = (hash % self.dimension as u64) as usize;
        if let Some(number) = vector.get_mut(place) {
            *number += sign * weight;
        }
    }
}

impl Default for LexicalEmbedder {
    fn default() -> Self {
        Self::new(Self::DEFAULT_DIMENSION)
    }
}

impl Embedder for LexicalEmbedder {
    fn space(&self) -> EmbeddingSpace {
        // The version must change whenever a text gets another vector.
        let name = format!("lexical-hash-2/{}", self.dimension);
        EmbeddingSpace::new(name, self.dimension, EmbeddingKind::Lexical)
    }

    async fn embed(
        &self,
        texts: &[&str],
        _: EmbeddingPurpose,
    ) -> Result<Vec<Embedding>, ModelError> {
        Ok(texts.iter().map(|text| self.vector(text)).collect())
    }
}

/// FNV-1a of 64 bits, followed by the finalizer of MurmurHash3. Vectors are stored, so the hash must be the same in
/// every version of Rust.
fn hash(text: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
