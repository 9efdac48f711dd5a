//! Formulas against tables that were computed by hand.

use std::collections::BTreeSet;

use ghostlight_actors::contract::{EmbedderHandle, EmbeddingKind, EmbeddingPurpose};
use ghostlight_retrieval::{
    LexicalEmbedder,
    fusion::{Ranking, maximal_marginal_relevance, reciprocal_rank_fusion},
};
use proptest::prelude::*;

#[test]
fn reciprocal_ranks_add_up() {
    let fused = reciprocal_rank_fusion(&[
        Ranking::new(["a", "b", "c"]),
        Ranking::new(["c", "d", "c"]),
        Ranking::new(["b"]).weight(0.5),
    ]);
    // a: 1/61; b: 1/62 + 0.5/61; c: 1/63 + 1/61; d: 1/62.
    let expected = [
        ("c", 0.015_873_015_873 + 0.016_393_442_623),
        ("b", 0.016_129_032_258 + 0.008_196_721_311),
        ("a", 0.016_393_442_623),
        ("d", 0.016_129_032_258),
    ];
    assert_eq!(fused.len(), expected.len());
    for ((key, score), (wanted, expected)) in fused.iter().zip(expected) {
        assert_eq!(*key, wanted);
        assert!((score - expected).abs() < 1e-9, "{key}: {score}");
    }
}

#[test]
fn what_is_like_a_pick_is_picked_later() {
    // Two near copies and something else that is less relevant.
    let relevance = [0.9, 0.85, 0.5];
    let alike = [[1.0, 0.95, 0.1], [0.95, 1.0, 0.2], [0.1, 0.2, 1.0]];
    let pick = |lambda| maximal_marginal_relevance(&relevance, |a, b| alike[a][b], lambda, 3);
    assert_eq!(pick(1.0), [0, 1, 2]);
    // After 0: 1 has 0.5 * 0.85 - 0.5 * 0.95 = -0.05, and 2 has 0.5 * 0.5 - 0.5 * 0.1 = 0.2.
    assert_eq!(pick(0.5), [0, 2, 1]);
    assert_eq!(
        maximal_marginal_relevance(&relevance, |a, b| alike[a][b], 0.5, 1),
        [0]
    );
    assert!(maximal_marginal_relevance(&[], |_, _| 0.0, 0.5, 3).is_empty());
}

#[tokio::test]
async fn lexical_vectors_forgive_spelling_and_know_no_meaning() {
    let embedder = EmbedderHandle::new(LexicalEmbedder::default());
    assert_eq!(embedder.space().kind, EmbeddingKind::Lexical);
    let texts = [
        "resume a crashed run",
        "resumption after the crash",
        "car",
        "automobile",
        "再開する方法",
        "再開の方法",
        "",
    ];
    let vectors = embedder
        .embed(&texts, EmbeddingPurpose::Document)
        .await
        .unwrap();
    let cosine = |a: usize, b: usize| -> f32 {
        vectors[a].iter().zip(&vectors[b]).map(|(a, b)| a * b).sum()
    };
    assert!((cosine(0, 0) - 1.0).abs() < 1e-5);
    assert!(cosine(0, 1) > 0.3, "{}", cosine(0, 1));
    assert!(cosine(2, 3).abs() < 0.15, "{}", cosine(2, 3));
    assert!(cosine(4, 5) > 0.3, "{}", cosine(4, 5));
    assert!(vectors[6].iter().all(|number| *number == 0.0));
    // Vectors are kept: they are the same for ever.
    let first = vectors[2].iter().position(|number| *number != 0.0);
    assert_eq!((first, vectors[2].len()), (Some(FIRST_OF_CAR), 512));
}

/// The first number of the vector of `car` that is not zero.
const FIRST_OF_CAR: usize = 101;

proptest! {
    #[test]
    fn fusion_keeps_every_key_and_prefers_the_better_place(
        rankings in prop::collection::vec(prop::collection::vec(0_u8..20, 0..15), 0..5),
    ) {
        let given: Vec<Ranking<u8>> = rankings.iter().map(|found| Ranking::new(found.clone())).collect();
        let fused = reciprocal_rank_fusion(&given);
        let keys: BTreeSet<u8> = fused.iter().map(|(key, _)| *key).collect();
        let all: BTreeSet<u8> = rankings.concat().into_iter().collect();
        prop_assert_eq!(&keys, &all);
        prop_assert_eq!(keys.len(), fused.len());
        prop_assert!(fused.is_sorted_by(|(a, one), (b, other)| one > other || (one == other && a < b)));
        // A key that stands before another one in each ranking that has it is before it in the end.
        let place = |ranking: &Vec<u8>, key: u8| ranking.iter().position(|found| *found == key);
        for (a, score_a) in &fused {
            for (b, score_b) in &fused {
                let better = rankings.iter().all(|ranking| match (place(ranking, *a), place(ranking, *b)) {
                    (Some(a), Some(b)) => a <= b,
                    (found, None) => found.is_some() || place(ranking, *b).is_none(),
                    (None, Some(_)) => false,
                });
                prop_assert!(!better || score_a >= score_b);
            }
        }
    }

    #[test]
    fn picks_are_distinct_and_as_many_as_wanted(
        relevance in prop::collection::vec(0.0_f64..1.0, 0..12),
        lambda in 0.0_f64..1.0,
        limit in 0_usize..15,
    ) {
        let picked = maximal_marginal_relevance(&relevance, |a, b| 1.0 / (1.0 + a.abs_diff(b) as f64), lambda, limit);
        let distinct: BTreeSet<usize> = picked.iter().copied().collect();
        prop_assert_eq!(distinct.len(), picked.len());
        prop_assert_eq!(picked.len(), limit.min(relevance.len()));
    }
}
