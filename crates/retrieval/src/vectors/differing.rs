//! Counting the bits in which vectors of bits differ, where the processor cannot be assumed to count by itself.
//!
//! Pairs of bits are added up, then fours, then bytes of all words at once: half of the instructions of counting each word
//! (Warren, *Hacker's Delight*, chapter 5). Where a vector has eight words, adders first make four words of them, whose
//! bits count once, twice, four and eight times; and two vectors are counted at once, as the compiler makes one
//! instruction of the same work on two words.

const PAIRS: u64 = u64::MAX / 0x3;
const FOURS: u64 = u64::MAX / 0x5;
const BYTES: u64 = u64::MAX / 0x11;
const SHORTS: u64 = u64::MAX / 0x101;

/// A word of each of two vectors.
type Two = [u64; 2];

/// In how many bits each of the vectors differs from the query. The vectors have as many words as the query.
pub(super) fn all(vectors: &[u64], query: &[u64]) -> Vec<u16> {
    // Most models' vectors have 257 to 512 numbers.
    let ([query], []) = query.as_chunks() else {
        let vectors = vectors.chunks_exact(query.len());
        return vectors.map(|vector| of_one(vector, query)).collect();
    };
    let (pairs, rest) = vectors.as_chunks();
    let mut counts: Vec<u16> = pairs.iter().flat_map(|two| of_two(two, query)).collect();
    let (rest, _) = rest.as_chunks::<8>();
    counts.extend(rest.iter().map(|vector| of_one(vector, query)));
    counts
}

fn of_one(a: &[u64], b: &[u64]) -> u16 {
    let words = a.iter().zip(b).map(|(a, b)| bytes(fours(a ^ b)));
    // Bytes of 31 words can be added before one overflows.
    let (mut count, mut sum) = (0, 0);
    for (place, bytes) in words.enumerate() {
        sum += bytes;
        if place % 31 == 30 {
            count += of_bytes(std::mem::take(&mut sum));
        }
    }
    count + of_bytes(sum)
}

/// In how many bits each of two vectors of eight words, one behind the other, differs from the query.
#[inline(always)]
fn of_two(vectors: &[u64; 16], query: &[u64; 8]) -> [u16; 2] {
    let (one, other) = vectors.split_at(8);
    let differ: [Two; 8] = std::array::from_fn(|place| {
        let word = |of: &[u64]| {
            of.get(place)
                .zip(query.get(place))
                .map_or(0, |(a, b)| a ^ b)
        };
        [word(one), word(other)]
    });
    let [a, b, c, d, e, f, g, h] = differ;
    let ((ones_1, twos_1), (ones_2, twos_2)) = (add(a, b, c), add(d, e, f));
    let (ones_3, twos_3) = add(ones_1, ones_2, g);
    let (ones, twos_4) = add_two(ones_3, h);
    let (twos_5, fours_1) = add(twos_1, twos_2, twos_3);
    let (twos, fours_2) = add_two(twos_5, twos_4);
    let (fours_of_all, eights) = add_two(fours_1, fours_2);
    // A sum of four bits and of twice four bits is at most 12, and fits into four bits.
    let low = each(ones.map(fours), twos.map(fours), |ones, twos| {
        ones + 2 * twos
    });
    let high = each(
        fours_of_all.map(fours),
        eights.map(fours),
        |fours, eights| fours + 2 * eights,
    );
    let sums = each(low, high, |low, high| bytes(low) + 4 * bytes(high));
    sums.map(of_bytes)
}

fn each(a: Two, b: Two, of: impl Fn(u64, u64) -> u64) -> Two {
    let ([a, c], [b, d]) = (a, b);
    [of(a, b), of(c, d)]
}

/// A full adder at each bit: the sum of three bits, and what is carried.
fn add(a: Two, b: Two, c: Two) -> (Two, Two) {
    let (sum, carried) = add_two(a, b);
    let (sum, also_carried) = add_two(sum, c);
    (sum, each(carried, also_carried, |a, b| a | b))
}

/// A half adder at each bit.
fn add_two(a: Two, b: Two) -> (Two, Two) {
    (each(a, b, |a, b| a ^ b), each(a, b, |a, b| a & b))
}

/// The number of bits in each four.
fn fours(word: u64) -> u64 {
    let pairs = word - (word >> 1 & PAIRS);
    (pairs & FOURS) + (pairs >> 2 & FOURS)
}

/// The sums of each two fours.
fn bytes(fours: u64) -> u64 {
    (fours & BYTES) + (fours >> 4 & BYTES)
}

/// The sum of eight bytes.
fn of_bytes(bytes: u64) -> u16 {
    let shorts = (bytes & SHORTS) + (bytes >> 8 & SHORTS);
    let words = shorts + (shorts >> 16);
    ((words + (words >> 32)) & 0xffff) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_bits_are_counted_as_one_counts_them() {
        let word = |seed: u64| (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for length in [1, 2, 4, 8, 16, 32, 64] {
            for count in [1, 2, 5] {
                let query: Vec<u64> = (0..length).map(word).collect();
                let mut vectors: Vec<u64> =
                    (0..length * count).map(|place| word(place + 77)).collect();
                // One that differs in every bit, and one in none.
                vectors.extend(query.iter().map(|word| !word));
                vectors.extend(&query);
                let plain = vectors.chunks_exact(query.len()).map(|vector| {
                    let differ = vector.iter().zip(&query).map(|(a, b)| (a ^ b).count_ones());
                    differ.sum::<u32>()
                });
                let found: Vec<u32> = all(&vectors, &query).into_iter().map(u32::from).collect();
                assert_eq!(found, plain.collect::<Vec<u32>>(), "{length} words");
            }
        }
    }
}
