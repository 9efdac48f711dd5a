//! One ranking of several, and results that are not all the same.

use std::{cmp::Ordering, collections::BTreeMap};

/// How much the first places count beside later ones, as Cormack and others found it to matter little.
pub const RANK_CONSTANT: f64 = 60.0;

/// One of the rankings that are fused: what was found, the best first, and how much it counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking<K> {
    /// What was found. A key that stands twice counts at its first place.
    pub found: Vec<K>,
    /// How much it counts beside the others: 1 as a rule.
    pub weight: f64,
}

impl<K> Ranking<K> {
    /// A ranking that counts as much as others.
    pub fn new(found: impl IntoIterator<Item = K>) -> Self {
        Self {
            found: found.into_iter().collect(),
            weight: 1.0,
        }
    }

    /// Sets how much it counts.
    #[must_use]
    pub fn weight(mut self, weight: f64) -> Self {
        self.weight = weight;
        self
    }
}

/// Reciprocal rank fusion: each ranking gives a key `weight / (60 + place)`, with places from 1, and the sums
/// rank. Scores of different scales are never mixed.
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

/// Maximal marginal relevance: picks one after another what is relevant and unlike what was picked before.
/// Returns the places of at most `limit` picks, in their order.
///
/// `relevance` has a number for each candidate, `similarity` compares two of them, both from 0 to 1; `lambda` is
/// from 1 (only relevance counts) to 0 (only difference counts). After Carbonell and Goldstein, *The Use of MMR,
/// Diversity-Based Reranking* (1998). Of equals the earlier one is picked.
pub fn maximal_marginal_relevance(
    relevance: &[f64],
    similarity: impl Fn(usize, usize) -> f64,
    lambda: f64,
    limit: usize,
) -> Vec<usize> {
    let lambda = lambda.clamp(0.0, 1.0);
    let mut left: Vec<usize> = (0..relevance.len()).collect();
    // How alike each candidate is to what was picked, at the most.
    let mut nearest = vec![0.0_f64; relevance.len()];
    let mut picked = Vec::new();
    while picked.len() < limit {
        let gain = |candidate: usize| {
            let relevance = relevance.get(candidate).copied().unwrap_or_default();
            lambda * relevance
                - (1.0 - lambda) * nearest.get(candidate).copied().unwrap_or_default()
        };
        let best = left.iter().copied().enumerate().max_by(|(_, a), (_, b)| {
            // Of equals the earlier one is the greater.
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
