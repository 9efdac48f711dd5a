//! Fusing several rankings into one, and diversifying results.

use std::{cmp::Ordering, collections::BTreeMap};

/// How much the first ranks count beside later ones; Cormack and others found that it matters little.
pub const RANK_CONSTANT: f64 = 60.0;

/// One of the fused rankings: the results, the best first, and its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking<K> {
    /// The results. A repeated key counts at its first rank.
    pub found: Vec<K>,
    /// Its weight beside the others, usually 1.
    pub weight: f64,
}

impl<K> Ranking<K> {
    /// A ranking of the weight 1.
    pub fn new(found: impl IntoIterator<Item = K>) -> Self {
        Self {
            found: found.into_iter().collect(),
            weight: 1.0,
        }
    }

    /// Sets its weight.
    #[must_use]
    pub fn weight(mut self, weight: f64) -> Self {
        self.weight = weight;
        self
    }
}

/// Reciprocal rank fusion: each ranking gives a key `weight / (60 + rank)`, with ranks from 1, and the keys are sorted
/// by their sums. Scores of different scales are never mixed.
///
/// After Cormack, Clarke and Büttcher, *Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
/// Methods* (2009). Of equal sums the smaller key comes first.
pub fn reciprocal_rank_fusion<K: Ord + Clone>(rankings: &[Ranking<K>]) -> Vec<(K, f64)> {
    let mut sums: BTreeMap<K, f64> = BTreeMap::new();
    for ranking in rankings {
        let mut seen = std::collections::BTreeSet::new();
        let distinct = ranking.found.iter().filter(|key| seen.insert(*key));
        for (place, key) in distinct.enumerate() {
            *sums.entry(key.clone()).or_default() +=
                ranking.weight / (RANK_CONSTANT + place as f64 + 1.0);
        }
    }
    let mut fused: Vec<(K, f64)> = sums.into_iter().collect();
    // The sort is stable and the map is ordered.
    fused.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    fused
}

/// Maximal marginal relevance: picks one candidate after another that is relevant and unlike the earlier picks. Returns
/// the positions of at most `limit` picks, in order.
///
/// `relevance` has a number for each candidate, and `similarity` compares two of them; both are from 0 to 1. `lambda`
/// is from 1 (only relevance counts) to 0 (only difference counts). After Carbonell and Goldstein, *The Use of MMR,
/// Diversity-Based Reranking* (1998). Of equals the earlier one is picked.
pub fn maximal_marginal_relevance(
    relevance: &[f64],
    similarity: impl Fn(usize, usize) -> f64,
    lambda: f64,
    limit: usize,
) -> Vec<usize> {
    let lambda = lambda.clamp(0.0, 1.0);
    let mut left: Vec<usize> = (0..relevance.len()).collect();
    // The greatest similarity of each candidate to the picks so far.
    let mut nearest = vec![0.0_f64; relevance.len()];
    let mut picked = Vec::new();
    while picked.len() < limit {
        let gain = |candidate: usize| {
            let relevance = relevance.get(candidate).copied().unwrap_or_default();
            lambda * relevance
                - (1.0 - lambda) * nearest.get(candidate).copied().unwrap_or_default()
        };
        let best = left.iter().copied().enumerate().max_by(|(_, a), (_, b)| {
            // Of equals the earlier one counts as greater.
            match gain(*a).total_cmp(&gain(*b)) {
                Ordering::Equal => b.cmp(a),
                other => other,
            }
        });
        let Some((place, candidate)) = best else {
            break;
        };
        left.remove(place);
        picked.push(candidate);
        for other in &left {
            if let Some(nearest) = nearest.get_mut(*other) {
                *nearest = nearest.max(similarity(candidate, *other));
            }
        }
    }
    picked
}
