//! Ranking by words: Okapi BM25.
//!
//! After Robertson and Zaragoza, *The Probabilistic Relevance Framework: BM25 and Beyond* (2009), with Lucene's inverse
//! document frequency, which is never negative.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, DefaultHasher, Hash as _, Hasher},
};

use crate::terms::{content_terms, terms};

/// How soon further occurrences of a term stop counting.
const K1: f64 = 1.2;
/// How much the length of a document counts, from 0 to 1.
const B: f64 = 0.75;

/// An index of documents, which are identified by their positions.
///
/// The same documents and the same query give the same result on every machine: nothing is read in hash order, and of
/// two documents with equal scores the earlier one comes first.
#[derive(Clone, Debug, Default)]
pub struct Bm25Index {
    /// The documents of each term. A term is stored as a hash of 64 bits: most terms of a large text occur once, and
    /// their letters would take several times the memory of everything else. Two terms with the same hash, one pair in
    /// some billions of billions, would be found by each other's name.
    postings: HashMap<u64, Postings, BuildHasherDefault<Hashed>>,
    /// The number of terms of each document; [`REMOVED`] for a removed one.
    lengths: Vec<u32>,
    /// The number of documents that are not removed, and the number of their terms.
    count: u32,
    total: u64,
}

/// The length of a document that was removed.
const REMOVED: u32 = u32::MAX;

/// The documents of a term, in order, each with the number of its occurrences.
#[derive(Clone, Debug)]
enum Postings {
    One((u32, u32)),
    Many(Vec<(u32, u32)>),
}

impl Postings {
    fn add(&mut self, document: u32) {
        let first = (document, 1);
        match self {
            Self::One((of, count)) if *of == document => *count = count.saturating_add(1),
            Self::One(only) => *self = Self::Many(vec![*only, first]),
            Self::Many(all) => match all.last_mut() {
                Some((of, count)) if *of == document => *count = count.saturating_add(1),
                _ => all.push(first),
            },
        }
    }

    fn all(&self) -> &[(u32, u32)] {
        match self {
            Self::One(only) => std::slice::from_ref(only),
            Self::Many(all) => all,
        }
    }
}

/// A hash that is the same on every machine and in each process.
fn hash(term: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    term.hash(&mut hasher);
    hasher.finish()
}

/// A hasher that keeps a value that is a hash already.
#[derive(Clone, Copy, Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A document that matches a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bm25Hit {
    /// Its position among the documents, from 0.
    pub document: usize,
    /// Its score, above 0; scores of different queries cannot be compared.
    pub score: f64,
}

impl Bm25Index {
    /// An index over these documents.
    pub fn new<T: AsRef<str>>(documents: impl IntoIterator<Item = T>) -> Self {
        let mut index = Self::default();
        for document in documents {
            index.add(document.as_ref());
        }
        index
    }

    /// Adds a document and returns its position.
    pub fn add(&mut self, document: &str) -> usize {
        let place = self.lengths.len();
        let terms = terms(document);
        let length = small(terms.len()).min(REMOVED - 1);
        self.lengths.push(length);
        self.count += 1;
        self.total += u64::from(length);
        let number = small(place);
        for term in terms {
            let postings = self.postings.entry(hash(&term));
            let first = Postings::One((number, 1));
            postings
                .and_modify(|known| known.add(number))
                .or_insert(first);
        }
        place
    }

    /// Removes a document: it is not found any more, and does not count for the rarity of terms and the mean length.
    /// Its position is not used again, and its postings stay until the index is rebuilt.
    pub fn remove(&mut self, place: usize) {
        if let Some(length) = self.lengths.get_mut(place)
            && *length != REMOVED
        {
            self.count -= 1;
            self.total -= u64::from(*length);
            *length = REMOVED;
        }
    }

    /// The number of documents, without removed ones.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The documents that share a term with the query, the best first. Stop words of the query do not count, unless it
    /// has no other words.
    pub fn search(&self, query: &str, limit: usize) -> Vec<Bm25Hit> {
        self.search_where(query, limit, |_| true)
    }

    /// The documents that share a term with the query, the best first, limited to the positions for which `wanted` is
    /// true. The limitation changes no score.
    pub fn search_where(
        &self,
        query: &str,
        limit: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<Bm25Hit> {
        let mut terms = content_terms(query);
        terms.sort_unstable();
        terms.dedup();
        let count = f64::from(self.count);
        let mean = (self.total as f64 / count.max(1.0)).max(1.0);
        // An array with a number for each document: a map of matching documents is slower if terms are frequent.
        let mut scores = vec![0.0_f64; self.lengths.len()];
        let mut found: Vec<u32> = Vec::new();
        for term in &terms {
            let Some(postings) = self.postings.get(&hash(term)).map(Postings::all) else {
                continue;
            };
            let length = |document: u32| self.lengths.get(document as usize).copied();
            let there = postings.iter().filter_map(|&(document, occurrences)| {
                let length = length(document).filter(|length| *length != REMOVED)?;
                Some((document, f64::from(occurrences), f64::from(length)))
            });
            let having = there.clone().count() as f64;
            let rarity = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
            for (document, occurrences, length) in there {
                let weight =
                    occurrences * (K1 + 1.0) / (occurrences + K1 * (1.0 - B + B * length / mean));
                if let Some(score) = scores.get_mut(document as usize) {
                    if *score == 0.0 {
                        found.push(document);
                    }
                    *score += rarity * weight;
                }
            }
        }
        let hit = |document: u32| {
            let document = document as usize;
            let score = scores.get(document).copied().unwrap_or_default();
            Bm25Hit { document, score }
        };
        let hits = found.into_iter().map(hit);
        let mut hits: Vec<Bm25Hit> = hits.filter(|hit| wanted(hit.document)).collect();
        let order = |a: &Bm25Hit, b: &Bm25Hit| {
            b.score
                .total_cmp(&a.score)
                .then(a.document.cmp(&b.document))
        };
        if limit < hits.len() {
            hits.select_nth_unstable_by(limit, order);
            hits.truncate(limit);
        }
        hits.sort_unstable_by(order);
        hits
    }
}

/// Half the bytes of a `usize`, since an index holds very many of these numbers. A text or a collection for which it is
/// too small does not fit into memory.
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(index: &Bm25Index, query: &str) -> Vec<usize> {
        index
            .search(query, 10)
            .iter()
            .map(|hit| hit.document)
            .collect()
    }

    #[test]
    fn rare_terms_frequent_use_and_brevity_count() {
        let index = Bm25Index::new([
            "the run starts and the run ends",
            "a run can be resumed after a crash",
            "a long text that says crash once among many other words that say nothing about it",
            "crash crash",
        ]);
        assert_eq!(ranked(&index, "resuming"), [1]);
        assert_eq!(ranked(&index, "crash"), [3, 1, 2]);
        assert_eq!(ranked(&index, "resume after a crash")[0], 1);
        assert_eq!(ranked(&index, "elephant"), [0_usize; 0]);
        assert_eq!(index.search("crash", 1).len(), 1);
    }

    #[test]
    fn equal_documents_keep_their_order() {
        let index = Bm25Index::new(["same words", "same words", "same words"]);
        assert_eq!(ranked(&index, "words"), [0, 1, 2]);
    }

    #[test]
    fn the_score_is_that_of_the_formula() {
        // Two documents of 2 and 4 terms; the term is in the first alone, once.
        let index = Bm25Index::new(["alpha beta", "beta gamma delta epsilon"]);
        let expected = (1.0 + 1.5 / 1.5_f64).ln() * 2.2 / (1.0 + 1.2 * (0.25 + 0.75 * 2.0 / 3.0));
        let hit = index.search("alpha", 1)[0];
        assert!((hit.score - expected).abs() < 1e-12);
        assert!(Bm25Index::default().search("alpha", 1).is_empty());
    }

    #[test]
    fn a_removed_document_leaves_no_trace_in_any_score() {
        let texts = [
            "alpha beta",
            "beta gamma gamma",
            "alpha gamma delta",
            "beta",
        ];
        let mut index = Bm25Index::new(texts);
        index.remove(1);
        index.remove(1);
        assert_eq!(index.len(), 3);
        let without = Bm25Index::new([texts[0], texts[2], texts[3]]);
        let scores = |index: &Bm25Index| -> Vec<f64> {
            let hits = index.search("alpha beta gamma", 10);
            hits.iter().map(|hit| hit.score).collect()
        };
        assert_eq!(scores(&index), scores(&without));
        assert_eq!(ranked(&index, "gamma"), [2]);
        let hits = index.search_where("alpha", 10, |document| document != 0);
        assert_eq!(hits.len(), 1);
        assert_eq!(hits[0].document, 2);
    }
}
