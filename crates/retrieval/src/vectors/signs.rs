//! Estimating angles between vectors from the signs of their numbers.

use std::{f32::consts::PI, ops::Range};

use super::differing;

/// How many standard deviations of an estimate a search allows for. One finds 998 of 1,000 in real texts: most of the
/// best vectors are better than the worst of them, from which the search reaches out.
const MARGIN: f32 = 1.0;
/// How many distances are looked at at once.
const MANY: usize = 64;

/// The signs of vectors after one random rotation, a bit each. Two vectors at the angle *a* differ in about *a* / π of
/// their bits (Charikar, *Similarity Estimation Techniques from Rounding Algorithms*, 2002). The rotation makes this
/// hold for vectors of every kind, also for those that are mostly zero; it flips signs at random and applies a
/// Walsh–Hadamard transform, twice (Ailon and Chazelle, *The Fast Johnson–Lindenstrauss Transform*, 2009).
#[derive(Clone, Debug, Default)]
pub(super) struct Signs(Vec<u64>);

/// The number of bits for a vector of this dimension: the next power of two, and 64 at least.
pub(super) fn width(dimension: usize) -> usize {
    dimension.next_power_of_two().max(64)
}

/// The bits in which nearly every vector differs at most whose cosine with the query is at least this.
pub(super) fn reach(width: usize, cosine: f32) -> usize {
    let share = cosine.clamp(-1.0, 1.0).acos() / PI;
    let width = width as f32;
    (width * share + MARGIN * (width * share * (1.0 - share)).sqrt()).ceil() as usize
}

impl Signs {
    pub(super) fn push(&mut self, vector: &[f32]) {
        self.0.extend(signs(vector));
    }

    /// In how many bits each vector differs from the query.
    pub(super) fn distances(&self, query: &[f32]) -> Vec<u16> {
        differing::all(&self.0, &signs(query))
    }
}

/// The positions of the distances in this range, in order. Few of them are, so many are looked at at once.
pub(super) fn within(distances: &[u16], range: Range<usize>) -> impl Iterator<Item = usize> {
    let end = |end: usize| u16::try_from(end).unwrap_or(u16::MAX);
    let (start, length) = (end(range.start), end(range.len()));
    // One comparison, which the compiler makes of eight numbers in one instruction.
    let is_in = move |distance: &u16| distance.wrapping_sub(start) < length;
    let any = move |many: &[u16]| {
        many.iter()
            .fold(false, |any, distance| any | is_in(distance))
    };
    let each = distances.chunks(MANY).enumerate();
    each.filter(move |(_, many)| any(many))
        .flat_map(move |(number, many)| {
            let each = many.iter().enumerate();
            let each = each.filter(move |(_, distance)| is_in(distance));
            each.map(move |(place, _)| number * MANY + place)
        })
}

fn signs(vector: &[f32]) -> Vec<u64> {
    let mut turned = vector.to_vec();
    turned.resize(width(vector.len()), 0.0);
    for round in 0..2 {
        for (place, number) in turned.iter_mut().enumerate() {
            if is_flipped(round, place as u64) {
                *number = -*number;
            }
        }
        transform(&mut turned);
    }
    let word = |numbers: &[f32]| {
        let bits = numbers.iter().enumerate();
        bits.fold(0, |word, (place, number)| {
            word | u64::from(*number > 0.0) << place
        })
    };
    turned.chunks(64).map(word).collect()
}

/// The Walsh–Hadamard transform without its scale. The length is a power of two.
fn transform(numbers: &mut [f32]) {
    let mut half = 1;
    while half < numbers.len() {
        for pair in numbers.chunks_exact_mut(2 * half) {
            let (left, right) = pair.split_at_mut(half);
            for (a, b) in left.iter_mut().zip(right) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

/// A random choice for each place, the same on every machine: the mixing step of SplitMix64 (Steele and others, *Fast
/// Splittable Pseudorandom Number Generators*, 2014).
fn is_flipped(round: u64, place: u64) -> bool {
    let mut mixed = (round << 32 | place)
        .wrapping_add(1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within_a_range_is_found_as_one_looks_for_it() {
        let distances: Vec<u16> = (0..333_u32)
            .map(|place| (place * 7_919 % 513) as u16)
            .collect();
        for range in [
            0..1,
            0..20,
            20..21,
            20..200,
            500..514,
            0..514,
            30..30,
            600..700,
        ] {
            let all = distances.iter().enumerate();
            let plain = all.filter(|(_, distance)| range.contains(&usize::from(**distance)));
            let plain: Vec<usize> = plain.map(|(place, _)| place).collect();
            let found: Vec<usize> = within(&distances, range.clone()).collect();
            assert_eq!(found, plain, "{range:?}");
        }
    }

    #[test]
    fn bits_differ_by_the_angle_also_where_most_numbers_are_zero() {
        // In 384 dimensions: one number each, at 45, 90 and 180 degrees.
        let vector = |numbers: [f32; 2]| {
            let mut vector = vec![0.0; 384];
            vector[..2].copy_from_slice(&numbers);
            vector
        };
        let mut kept = Signs::default();
        for numbers in [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [-1.0, 0.0]] {
            kept.push(&vector(numbers));
        }
        let found = kept.distances(&vector([1.0, 0.0]));
        for (found, wanted) in found.iter().zip([0, 128, 256, 512]) {
            assert!(found.abs_diff(wanted) <= 32, "{found} and not {wanted}");
        }
        assert_eq!((width(384), width(3)), (512, 64));
        assert_eq!((reach(512, 1.0), reach(512, -1.0)), (0, 512));
        assert_eq!(reach(512, 0.0), 256 + 12);
    }
}
