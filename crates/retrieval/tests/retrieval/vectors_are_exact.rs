//! The fast search finds what a comparison with every vector finds.

use ghostlight_retrieval::vectors::{Scan, VectorHit, VectorIndex};
use proptest::prelude::*;

/// Numbers that look like chance and are the same each time.
pub(crate) fn numbers(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 / (1 << 24) as f32) - 0.5
    }
}

pub(crate) fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x /= length);
    }
    vector
}

/// Vectors in clusters, as embeddings of texts are: what is near is very near.
fn clustered(count: usize, dimension: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut next = numbers(seed);
    let centres: Vec<Vec<f32>> = (0..8)
        .map(|_| (0..dimension).map(|_| next()).collect())
        .collect();
    let near = |place: usize, next: &mut dyn FnMut() -> f32| {
        let centre: &Vec<f32> = &centres[place % centres.len()];
        unit(centre.iter().map(|x| x + 0.1 * next()).collect())
    };
    (0..count).map(|place| near(place, &mut next)).collect()
}

fn by_comparison(
    vectors: &[Vec<f32>],
    query: &[f32],
    limit: usize,
    wanted: impl Fn(usize) -> bool,
) -> Vec<(usize, f64)> {
    let product = |vector: &[f32]| -> f64 {
        vector
            .iter()
            .zip(query)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum()
    };
    let scores = vectors
        .iter()
        .enumerate()
        .filter(|(place, _)| wanted(*place));
    let mut scores: Vec<(usize, f64)> = scores
        .map(|(place, vector)| (place, product(vector)))
        .collect();
    scores.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scores.truncate(limit);
    scores
}

fn agree(found: &[VectorHit], expected: &[(usize, f64)]) -> bool {
    let near = |hit: &VectorHit, score: f64| (f64::from(hit.score) - score).abs() < 1e-5;
    found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|(hit, (_, score))| near(hit, *score))
}

#[test]
fn the_nearest_are_those_of_a_full_comparison() {
    let vectors = clustered(3000, 96, 7);
    let mut index = VectorIndex::new(96);
    for vector in &vectors {
        index.add(vector).unwrap();
    }
    for query in clustered(20, 96, 11) {
        let found = index.search(&query, 10).unwrap();
        let expected = by_comparison(&vectors, &query, 10, |_| true);
        assert!(agree(&found, &expected), "{found:?} {expected:?}");
        let third = |place: usize| place.is_multiple_of(3);
        let found = index.search_where(&query, 10, Scan::Exact, third).unwrap();
        assert!(agree(&found, &by_comparison(&vectors, &query, 10, third)));
    }
    for place in 0..1500 {
        index.remove(place);
    }
    index.remove(3);
    assert_eq!(index.len(), 1500);
    assert!(index.get(3).is_none() && index.get(1500).is_some());
    let found = index.search(&vectors[3], 10).unwrap();
    assert!(agree(
        &found,
        &by_comparison(&vectors, &vectors[3], 10, |place| place >= 1500)
    ));
}

#[test]
fn equals_keep_their_order_and_wrong_vectors_are_refused() {
    let mut index = VectorIndex::new(2);
    for _ in 0..5 {
        index.add(&[0.6, 0.8]).unwrap();
    }
    index.add(&[0.0, 0.0]).unwrap();
    let places =
        |found: Vec<VectorHit>| -> Vec<usize> { found.iter().map(|hit| hit.place).collect() };
    assert_eq!(places(index.search(&[0.6, 0.8], 3).unwrap()), [0, 1, 2]);
    assert_eq!(places(index.search(&[-0.6, -0.8], 1).unwrap()), [5]);
    assert!(index.search(&[1.0, 0.0], 0).unwrap().is_empty());
    assert!(index.add(&[1.0]).is_err());
    assert!(index.add(&[f32::NAN, 0.0]).is_err());
    assert!(index.search(&[1.0, f32::INFINITY], 1).is_err());
    assert_eq!(index.len(), 6);
    assert!(VectorIndex::new(0).search(&[], 3).unwrap().is_empty());
}

proptest! {
    #[test]
    fn any_vectors_are_ranked_exactly(
        vectors in prop::collection::vec(prop::collection::vec(-1.0_f32..1.0, 19), 1..60),
        query in prop::collection::vec(-1.0_f32..1.0, 19),
        limit in 1_usize..20,
    ) {
        let vectors: Vec<Vec<f32>> = vectors.into_iter().map(unit).collect();
        let query = unit(query);
        let mut index = VectorIndex::new(19);
        for vector in &vectors {
            index.add(vector).unwrap();
        }
        let found = index.search(&query, limit).unwrap();
        prop_assert!(agree(&found, &by_comparison(&vectors, &query, limit, |_| true)));
    }
}
