//! An approximate search finds nearly all of the nearest by comparing a small part of the vectors.

use std::sync::OnceLock;

use ghostlight_retrieval::vectors::{Scan, VectorIndex};

use crate::vectors_are_exact::{numbers, unit};

const DIMENSION: usize = 96;
const VECTORS: usize = 6_000;

/// Vectors about 300 subjects of several sizes, some of them between two subjects: near ones are not in one place.
fn about_subjects(count: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut next = numbers(4711);
    let subjects: Vec<Vec<f32>> = (0..300)
        .map(|_| unit((0..DIMENSION).map(|_| next()).collect()))
        .collect();
    let mut next = numbers(seed);
    let mut chosen = move |most: usize| (((next() + 0.5) * most as f32) as usize).min(most - 1);
    let mut noise = numbers(seed + 1);
    let one = |_| {
        let (a, b) = (chosen(300) * chosen(300) / 300, chosen(300));
        let share = if chosen(3) == 0 { 0.4 } else { 0.0 };
        let pair = subjects[a].iter().zip(&subjects[b]);
        let mixed = pair.map(|(a, b)| a * (1.0 - share) + b * share + 0.2 * noise());
        unit(mixed.collect())
    };
    (0..count).map(one).collect()
}

/// The index is made once for all tests of this file.
fn filled() -> &'static (VectorIndex, Vec<Vec<f32>>) {
    static FILLED: OnceLock<(VectorIndex, Vec<Vec<f32>>)> = OnceLock::new();
    FILLED.get_or_init(|| {
        let mut index = VectorIndex::new(DIMENSION);
        for vector in about_subjects(VECTORS, 7) {
            index.add(&vector).unwrap();
        }
        (index, about_subjects(40, 11))
    })
}

fn places(
    index: &VectorIndex,
    query: &[f32],
    scan: Scan,
    wanted: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let found = index.search_where(query, 10, scan, wanted).unwrap();
    found.iter().map(|hit| hit.place).collect()
}

/// The share of the ten nearest that an approximate search finds too.
fn recall(index: &VectorIndex, queries: &[Vec<f32>], wanted: impl Fn(usize) -> bool) -> f64 {
    let (mut same, mut all) = (0, 0);
    for query in queries {
        let exact = places(index, query, Scan::Exact, &wanted);
        let found = places(index, query, Scan::Approximate, &wanted);
        assert_eq!(found.len(), exact.len());
        all += exact.len();
        same += exact.iter().filter(|place| found.contains(place)).count();
    }
    same as f64 / f64::from(all as u32)
}

#[test]
fn nineteen_of_twenty_are_found_and_a_tenth_is_compared() {
    let (index, queries) = filled();
    let found = recall(index, queries, |_| true);
    assert!(found >= 0.95, "recall {found}");
    // A filter is asked about the vectors that are compared.
    let asked = std::cell::Cell::new(0);
    let counted = |_| {
        asked.set(asked.get() + 1);
        true
    };
    for query in queries {
        places(index, query, Scan::Approximate, counted);
    }
    let share = asked.get() as f64 / (VECTORS * queries.len()) as f64;
    assert!(share < 0.1, "{share}");
    assert!(share > 0.001, "{share}");
}

#[test]
fn filters_that_leave_little_are_answered_from_more_vectors() {
    let (index, queries) = filled();
    for one_of in [3, 40, 1000] {
        let wanted = |place: usize| place.is_multiple_of(one_of);
        let found = recall(index, queries, wanted);
        assert!(found >= 0.95, "one of {one_of}: recall {found}");
        for query in &queries[..5] {
            let found = places(index, query, Scan::Approximate, wanted);
            assert!(found.into_iter().all(wanted));
        }
    }
    assert!(places(index, &queries[0], Scan::Approximate, |_| false).is_empty());
}

#[test]
fn removed_vectors_are_found_no_more_and_new_ones_are() {
    let (index, queries) = filled();
    let mut index = index.clone();
    let gone: Vec<usize> = queries
        .iter()
        .flat_map(|query| places(&index, query, Scan::Exact, |_| true))
        .collect();
    for place in &gone {
        index.remove(*place);
    }
    let more: Vec<usize> = queries
        .iter()
        .map(|query| index.add(query).unwrap())
        .collect();
    for (query, place) in queries.iter().zip(more) {
        for scan in [Scan::Exact, Scan::Approximate] {
            let found = places(&index, query, scan, |_| true);
            assert_eq!(found[0], place);
            assert!(!found.iter().any(|place| gone.contains(place)));
        }
    }
    let found = recall(&index, queries, |_| true);
    assert!(found >= 0.95, "recall {found}");
}

#[test]
fn lengths_and_zeros_do_not_hide_a_vector() {
    let mut index = VectorIndex::new(DIMENSION);
    for (place, vector) in about_subjects(1_000, 7).into_iter().enumerate() {
        let length = match place % 3 {
            0 => 0.0,
            1 => 0.5,
            _ => 4.0,
        };
        let vector: Vec<f32> = vector.iter().map(|number| number * length).collect();
        index.add(&vector).unwrap();
    }
    let queries = about_subjects(20, 11);
    let found = recall(&index, &queries, |_| true);
    assert!(found >= 0.95, "recall {found}");
    // All are zero, or there is none: an answer, and no endless search.
    let zeros = |place: usize| place.is_multiple_of(3);
    let found = places(&index, &queries[0], Scan::Approximate, zeros);
    assert_eq!(found, (0..10).map(|place| place * 3).collect::<Vec<_>>());
    let none = places(
        &VectorIndex::new(DIMENSION),
        &queries[0],
        Scan::Approximate,
        |_| true,
    );
    assert!(none.is_empty());
}
