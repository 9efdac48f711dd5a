//! Ranking by words: Okapi BM25.
//!
//! After Robertson and Zaragoza, *The Probabilistic Relevance Framework: BM25 and Beyond*
//! (2009), with the inverse document frequency that is never negative, as Lucene has it.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasherDefault, DefaultHasher, Hash as _, Hasher},
};

use super::terms::{content_terms, terms};

/// How soon more occurrences of a term stop counting.
const K1: f64 = 1.2;
/// How much the length of a document counts, from 0 to 1.
const B: f64 = 0.75;

/// An index over documents that are known by their place.
///
/// The same documents and the same query give the same result on every machine: nothing is read in
/// the order of a hash, and of two documents that fit equally well the earlier one comes first.
#[derive(Clone, Debug, Default)]
pub struct Bm25Index {
    /// For each term the documents that have it. A term is known by a hash of 64 bits: most terms of a large
    /// text stand in it once, and their letters would take several times the room of the rest. Two that
    /// share a hash, one pair in some billions of billions, would be found by each other's name.
    postings: HashMap<u64, Postings, BuildHasherDefault<Hashed>>,
    /// How many terms each document has.
    lengths: Vec<u32>,
}

/// The documents that have a term, in their order, and how often.
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

/// The same on every machine and in each process.
fn hash(term: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    term.hash(&mut hasher);
    hasher.finish()
}

/// What is a hash already is not hashed again.
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

/// A document that fits a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bm25Hit {
    /// Its place among the documents, from 0.
    pub document: usize,
    /// How well it fits, above 0; it compares only within one query.
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

    /// Adds a document and returns its place.
    pub fn add(&mut self, document: &str) -> usize {
        let place = self.lengths.len();
        let terms = terms(document);
        self.lengths.push(small(terms.len()));
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

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The documents that share a term with the query, the best first. Stop words of the query
    /// do not count, unless it has nothing else.
    pub fn search(&self, query: &str, limit: usize) -> Vec<Bm25Hit> {
        let mut terms = content_terms(query);
        terms.sort_unstable();
        terms.dedup();
        let count = self.lengths.len() as f64;
        let total: f64 = self.lengths.iter().copied().map(f64::from).sum();
        let mean = (total / count.max(1.0)).max(1.0);
        let mut scores: BTreeMap<usize, f64> = BTreeMap::new();
        let found = |term: &String| self.postings.get(&hash(term)).map(Postings::all);
        for postings in terms.iter().filter_map(found) {
            let having = postings.len() as f64;
            let rarity = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
            for &(document, occurrences) in postings {
                let (document, occurrences) = (document as usize, f64::from(occurrences));
                let length = f64::from(self.lengths[document]) / mean;
                let weight = occurrences * (K1 + 1.0) / (occurrences + K1 * (1.0 - B + B * length));
                *scores.entry(document).or_default() += rarity * weight;
            }
        }
        let hits = scores.into_iter();
        let mut hits: Vec<Bm25Hit> = hits
            .map(|(document, score)| Bm25Hit { document, score })
            .collect();
        // The sort is stable, so the earlier of two equal documents stays first.
        hits.sort_by(|a, b| b.score.total_cmp(&a.score));
        hits.truncate(limit);
        hits
    }
}

/// Half the bytes of a `usize`: an index holds very many of them. A text or a collection for which it is
/// too small fits into no memory.
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
}
