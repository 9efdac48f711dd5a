//! Ranking by vectors: an exact search that is fast, and an approximate one that is faster.
//!
//! Each vector is stored as it is, and again as 8-bit integers with a bound on the rounding error. A search scans the
//! integers, which takes a quarter of the memory bandwidth and integer arithmetic, and compares exactly only the
//! vectors that can be among the best within those bounds. So its result is exact, and no approximation.
//!
//! An approximate search ([`Scan::Approximate`]) first estimates the angle to every vector from 1 bit for each number,
//! a thirtieth of the memory, and compares as above only those that can be among the best within the probable error of
//! that estimate.

mod differing;
mod signs;

use std::{cmp::Reverse, collections::BinaryHeap};

use serde::{Deserialize, Serialize};

use self::signs::Signs;

/// How many vectors an approximate search compares first for each result.
const FIRST: usize = 20;

/// A margin for rounding errors of the bounds themselves. Vectors have length 1, so it is far more than needed.
const SLACK: f32 = 1e-5;

/// An index of vectors of one dimension, identified by their positions. They are compared by their dot product, which
/// is the cosine of the angle between vectors of length 1.
///
/// The same vectors and the same query give the same result on every machine of one kind; of two vectors with equal
/// scores the earlier one comes first.
#[derive(Clone, Debug)]
pub struct VectorIndex {
    dimension: usize,
    numbers: Vec<f32>,
    /// The integer copies, concatenated.
    codes: Vec<i8>,
    coded: Vec<Coded>,
    signs: Signs,
    /// Whether the vector at each position is there, or was removed.
    is_there: Vec<bool>,
    len: usize,
    /// The length of the longest vector.
    longest: f32,
}

/// How many of an index's vectors a search compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scan {
    /// All of them: the result is exact.
    #[default]
    Exact,
    /// Those that are near by an estimate. Some of the nearest vectors may be missed: of the ten nearest in 100,000
    /// vectors of real texts one in 500.
    Approximate,
}

/// A vector as `scale` times its integers.
#[derive(Clone, Copy, Debug)]
struct Coded {
    scale: f32,
    /// The length of the vector that it represents.
    length: f32,
    /// The length of the rounding error.
    error: f32,
}

/// A vector that is near a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VectorHit {
    /// Its position among the vectors, from 0.
    pub place: usize,
    /// The dot product of both vectors.
    pub score: f32,
}

/// A vector that does not fit into an index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a vector of {found} numbers was given to an index of vectors of {wanted}: make it with the embedder of the index, and of finite numbers"
)]
pub struct WrongVector {
    /// The dimension of the index.
    pub wanted: usize,
    /// The dimension of this vector.
    pub found: usize,
}

impl VectorIndex {
    /// An empty index of vectors of this dimension.
    pub fn new(dimension: usize) -> Self {
        Self {
            dimension,
            numbers: Vec::new(),
            codes: Vec::new(),
            coded: Vec::new(),
            signs: Signs::default(),
            is_there: Vec::new(),
            len: 0,
            longest: 0.0,
        }
    }

    /// The dimension of the vectors.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The number of vectors, without removed ones.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes each vector takes.
    pub fn bytes_per_vector(&self) -> usize {
        self.dimension * (size_of::<f32>() + size_of::<i8>())
            + signs::width(self.dimension) / 8
            + size_of::<Coded>()
            + size_of::<bool>()
    }

    /// Adds a vector and returns its position.
    ///
    /// # Errors
    /// The vector has another dimension, or a number that is not finite.
    pub fn add(&mut self, vector: &[f32]) -> Result<usize, WrongVector> {
        self.check(vector)?;
        let place = self.is_there.len();
        self.codes.resize((place + 1) * self.dimension, 0);
        let codes = self.codes.get_mut(place * self.dimension..);
        let coded = Coded::of(vector, codes.unwrap_or_default());
        self.longest = self.longest.max(coded.length + coded.error);
        self.coded.push(coded);
        self.signs.push(vector);
        self.numbers.extend_from_slice(vector);
        self.is_there.push(true);
        self.len += 1;
        Ok(place)
    }

    /// Removes a vector: it is not found any more, and its position is not used again.
    pub fn remove(&mut self, place: usize) {
        if let Some(is_there) = self.is_there.get_mut(place) {
            self.len -= usize::from(std::mem::take(is_there));
        }
    }

    /// The vector at this position, unless it was removed.
    pub fn get(&self, place: usize) -> Option<&[f32]> {
        let is_there = *self.is_there.get(place)?;
        let from = place * self.dimension;
        let numbers = self.numbers.get(from..from + self.dimension)?;
        is_there.then_some(numbers)
    }

    /// The vectors nearest to this one, the best first.
    ///
    /// # Errors
    /// The query has another dimension, or a number that is not finite.
    pub fn search(&self, query: &[f32], limit: usize) -> Result<Vec<VectorHit>, WrongVector> {
        self.search_where(query, limit, Scan::Exact, |_| true)
    }

    /// The vectors nearest to this one, limited to the wanted positions, the best first.
    ///
    /// # Errors
    /// The query has another dimension, or a number that is not finite.
    pub fn search_where(
        &self,
        query: &[f32],
        limit: usize,
        scan: Scan,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<Vec<VectorHit>, WrongVector> {
        self.check(query)?;
        if limit == 0 || self.dimension == 0 {
            return Ok(Vec::new());
        }
        let wanted = |place: &usize| {
            self.is_there.get(*place).copied().unwrap_or_default() && wanted(*place)
        };
        let mut candidates = Candidates::new(query, limit.min(self.len));
        match scan {
            Scan::Exact => self.compare((0..self.is_there.len()).filter(wanted), &mut candidates),
            Scan::Approximate => self.compare_nearest(query, &mut candidates, wanted),
        }
        let mut hits: Vec<VectorHit> = candidates
            .places()
            .filter_map(|place| {
                let score = product(query, self.get(place)?);
                Some(VectorHit { place, score })
            })
            .collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.place.cmp(&b.place)));
        hits.truncate(limit);
        Ok(hits)
    }

    /// Compares the vectors at these positions by their integers.
    fn compare(&self, places: impl Iterator<Item = usize>, candidates: &mut Candidates) {
        for place in places {
            let from = place * self.dimension;
            let codes = self.codes.get(from..from + self.dimension);
            if let (Some(coded), Some(codes)) = (self.coded.get(place), codes) {
                candidates.add(place, coded, codes);
            }
        }
    }

    /// Compares the vectors that are near by their signs: first as many as certainly hold some of the best, then
    /// all that can be better than those by a probable error of the estimate.
    fn compare_nearest(
        &self,
        query: &[f32],
        candidates: &mut Candidates,
        wanted: impl Fn(&usize) -> bool,
    ) {
        let width = signs::width(self.dimension);
        let distances = self.signs.distances(query);
        let mut counts = vec![0_usize; width + 1];
        for distance in &distances {
            if let Some(count) = counts.get_mut(usize::from(*distance)) {
                *count += 1;
            }
        }
        let (mut next, mut seen, mut goal) = (0, 0, candidates.limit * FIRST);
        while next <= width {
            let from = next;
            match candidates.are_full() {
                true => {
                    let least = candidates.enough / (candidates.length * self.longest);
                    next = signs::reach(width, least) + 1;
                }
                // A filter that leaves few vectors makes it read more of them.
                false => {
                    while next <= width && (next == from || seen < goal) {
                        seen += counts.get(next).copied().unwrap_or_default();
                        next += 1;
                    }
                    goal *= 4;
                }
            }
            if next <= from {
                return;
            }
            let near = signs::within(&distances, from..next);
            self.compare(near.filter(&wanted), candidates);
        }
    }

    fn check(&self, vector: &[f32]) -> Result<(), WrongVector> {
        match vector.len() == self.dimension && vector.iter().all(|number| number.is_finite()) {
            true => Ok(()),
            false => Err(self.wrong(vector)),
        }
    }

    fn wrong(&self, vector: &[f32]) -> WrongVector {
        WrongVector {
            wanted: self.dimension,
            found: vector.len(),
        }
    }
}

/// The vectors that can be among the best: those whose product with the query may be as large as the least that the
/// best are known to have.
struct Candidates {
    limit: usize,
    codes: Vec<i16>,
    coded: Coded,
    /// The length of the query.
    length: f32,
    /// The lower bounds of the best products so far, the smallest on top.
    least: BinaryHeap<Reverse<Ordered>>,
    /// The smallest of them, once there are as many as wanted.
    enough: f32,
    /// The upper bounds of the products.
    near: Vec<(f32, usize)>,
}

impl Candidates {
    fn new(query: &[f32], limit: usize) -> Self {
        let mut codes = vec![0; query.len()];
        let coded = Coded::of(query, &mut codes);
        Self {
            limit,
            codes: codes.into_iter().map(i16::from).collect(),
            coded,
            length: product(query, query).sqrt(),
            least: BinaryHeap::with_capacity(limit + 1),
            enough: f32::NEG_INFINITY,
            near: Vec::new(),
        }
    }

    fn are_full(&self) -> bool {
        self.least.len() >= self.limit
    }

    #[inline]
    fn add(&mut self, place: usize, vector: &Coded, codes: &[i8]) {
        let about = self.coded.scale * vector.scale * whole_product(&self.codes, codes) as f32;
        let bound = self.coded.error * vector.length
            + self.length * vector.error
            + SLACK * self.length.max(1.0);
        let most = about + bound;
        if most < self.enough {
            return;
        }
        self.near.push((most, place));
        self.least.push(Reverse(Ordered(about - bound)));
        if self.least.len() > self.limit {
            self.least.pop();
        }
        if self.are_full() {
            self.enough = self.least.peek().map_or(self.enough, |least| least.0.0);
        }
    }

    fn places(self) -> impl Iterator<Item = usize> {
        let near = self.near.into_iter();
        near.filter(move |(most, _)| *most >= self.enough)
            .map(|(_, place)| place)
    }
}

impl Coded {
    /// Rounds a vector to integers from -127 to 127.
    fn of(vector: &[f32], codes: &mut [i8]) -> Self {
        let greatest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let scale = match greatest > 0.0 {
            true => greatest / 127.0,
            false => 1.0,
        };
        let (mut length, mut error) = (0.0_f32, 0.0_f32);
        for (code, number) in codes.iter_mut().zip(vector) {
            *code = (number / scale).round() as i8;
            let stands_for = f32::from(*code) * scale;
            length += stands_for * stands_for;
            error += (number - stands_for) * (number - stands_for);
        }
        Self {
            scale,
            length: length.sqrt(),
            error: error.sqrt(),
        }
    }
}

/// A number with a total order, for a heap.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ordered(f32);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The dot product of two vectors. It uses sixteen sums, so that the compiler can add many numbers in one instruction:
/// it must not change the order of a single sum.
fn product(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0_f32; LANES];
    let (left, right) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = left
        .remainder()
        .iter()
        .zip(right.remainder())
        .map(|(a, b)| a * b)
        .sum();
    for (a, b) in left.zip(right) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// The dot product of two vectors of integers from -127 to 127. The compiler multiplies and adds eight pairs in one
/// instruction, for which one of the vectors has 16 bits already. It cannot overflow below 133,000 dimensions.
fn whole_product(a: &[i16], b: &[i8]) -> i32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| i32::from(*a) * i32::from(*b))
        .sum()
}
