//! Ranking by vectors: an exact search that is fast.
//!
//! Each vector is kept whole, and once more in whole numbers of 8 bits with a bound on what that rounded away. A
//! search looks through the small ones, which is a quarter of the memory to read and whole numbers to multiply, and
//! compares exactly only what can be among the best within those bounds. So it is as exact as a comparison with
//! each vector, not an approximation.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Room for the rounding of the bounds themselves. Vectors have length 1, so it is far more than they need.
const SLACK: f32 = 1e-5;

/// An index over vectors of one dimension that are known by their place, compared by their product: the cosine of
/// the angle between them, where they have length 1.
///
/// The same vectors and the same query give the same result on every machine of one kind; of two that fit equally
/// well the earlier one comes first.
#[derive(Clone, Debug)]
pub struct VectorIndex {
    dimension: usize,
    numbers: Vec<f32>,
    codes: Vec<i8>,
    coded: Vec<Coded>,
    removed: usize,
}

/// A vector as `scale` times its whole numbers.
#[derive(Clone, Copy, Debug)]
struct Coded {
    /// `NAN` where the vector was removed.
    scale: f32,
    /// The length of what it stands for.
    length: f32,
    /// The length of what was rounded away.
    error: f32,
}

/// A vector that is near a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VectorHit {
    /// Its place among the vectors, from 0.
    pub place: usize,
    /// The product of both vectors.
    pub score: f32,
}

/// A vector that does not fit into an index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a vector of {found} numbers was given to an index of vectors of {wanted}: make it with the embedder of the index, and of finite numbers"
)]
pub struct WrongVector {
    /// How many numbers the index's vectors have.
    pub wanted: usize,
    /// How many this one has.
    pub found: usize,
}

impl VectorIndex {
    /// An empty index of vectors of so many numbers.
    pub fn new(dimension: usize) -> Self {
        Self {
            dimension,
            numbers: Vec::new(),
            codes: Vec::new(),
            coded: Vec::new(),
            removed: 0,
        }
    }

    /// How many numbers a vector has.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// How many vectors there are, without those that were removed.
    pub fn len(&self) -> usize {
        self.coded.len() - self.removed
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes it takes for each vector.
    pub fn bytes_per_vector(&self) -> usize {
        self.dimension * (size_of::<f32>() + size_of::<i8>()) + size_of::<Coded>()
    }

    /// Adds a vector and returns its place.
    ///
    /// # Errors
    /// When it has another dimension, or a number that is not finite.
    pub fn add(&mut self, vector: &[f32]) -> Result<usize, WrongVector> {
        self.check(vector)?;
        let mut codes = vec![0; self.dimension];
        let coded = Coded::of(vector, &mut codes);
        self.numbers.extend_from_slice(vector);
        self.codes.extend_from_slice(&codes);
        self.coded.push(coded);
        Ok(self.coded.len() - 1)
    }

    /// Removes a vector: it is found no more, and its place is not used again.
    pub fn remove(&mut self, place: usize) {
        if let Some(coded) = self.coded.get_mut(place)
            && !coded.scale.is_nan()
        {
            coded.scale = f32::NAN;
            self.removed += 1;
        }
    }

    /// The vector at this place, unless it was removed.
    pub fn get(&self, place: usize) -> Option<&[f32]> {
        let coded = self.coded.get(place)?;
        let from = place * self.dimension;
        let numbers = self.numbers.get(from..from + self.dimension)?;
        (!coded.scale.is_nan()).then_some(numbers)
    }

    /// The vectors nearest to this one, the best first.
    ///
    /// # Errors
    /// When the query has another dimension, or a number that is not finite.
    pub fn search(&self, query: &[f32], limit: usize) -> Result<Vec<VectorHit>, WrongVector> {
        self.search_where(query, limit, |_| true)
    }

    /// The vectors nearest to this one among those at the places that are wanted, the best first.
    ///
    /// # Errors
    /// When the query has another dimension, or a number that is not finite.
    pub fn search_where(
        &self,
        query: &[f32],
        limit: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<Vec<VectorHit>, WrongVector> {
        self.check(query)?;
        if limit == 0 || self.dimension == 0 {
            return Ok(Vec::new());
        }
        let near = self.candidates(query, limit, wanted);
        let mut hits: Vec<VectorHit> = near
            .into_iter()
            .filter_map(|place| {
                let score = product(query, self.get(place)?);
                Some(VectorHit { place, score })
            })
            .collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.place.cmp(&b.place)));
        hits.truncate(limit);
        Ok(hits)
    }

    /// Every place whose vector can be among the nearest `limit`: those whose product is at most as small as the
    /// least that the best are known to have.
    fn candidates(
        &self,
        query: &[f32],
        limit: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let mut codes = vec![0; self.dimension];
        let coded = Coded::of(query, &mut codes);
        let length = product(query, query).sqrt();
        let codes: Vec<i16> = codes.into_iter().map(i16::from).collect();
        // The least products of the best so far, the smallest on top.
        let mut least: BinaryHeap<Reverse<Ordered>> =
            BinaryHeap::with_capacity(limit.min(self.coded.len()) + 1);
        let mut near: Vec<(f32, usize)> = Vec::new();
        for (place, (vector, row)) in self
            .coded
            .iter()
            .zip(self.codes.chunks_exact(self.dimension))
            .enumerate()
        {
            if vector.scale.is_nan() || !wanted(place) {
                continue;
            }
            let about = coded.scale * vector.scale * whole_product(&codes, row) as f32;
            let bound =
                coded.error * vector.length + length * vector.error + SLACK * length.max(1.0);
            let most = about + bound;
            if least.len() == limit && least.peek().is_some_and(|least| most < least.0.0) {
                continue;
            }
            near.push((most, place));
            least.push(Reverse(Ordered(about - bound)));
            if least.len() > limit {
                least.pop();
            }
        }
        let enough = match least.len() == limit {
            true => least.peek().map_or(f32::NEG_INFINITY, |least| least.0.0),
            false => f32::NEG_INFINITY,
        };
        let near = near.into_iter().filter(|(most, _)| *most >= enough);
        near.map(|(_, place)| place).collect()
    }

    fn check(&self, vector: &[f32]) -> Result<(), WrongVector> {
        match vector.len() == self.dimension && vector.iter().all(|number| number.is_finite()) {
            true => Ok(()),
            false => Err(WrongVector {
                wanted: self.dimension,
                found: vector.len(),
            }),
        }
    }
}

impl Coded {
    /// Rounds a vector to whole numbers from -127 to 127.
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

/// A number with an order, for a heap.
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

/// The product of two vectors. Sixteen sums at once, so that the compiler can add many numbers in one step: it
/// may not change the order of a single sum.
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

/// The product of two vectors of whole numbers from -127 to 127. The compiler multiplies and adds eight pairs in one
/// step, for which one of them stands in 16 bits already. It cannot overflow below 133,000 numbers.
fn whole_product(a: &[i16], b: &[i8]) -> i32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| i32::from(*a) * i32::from(*b))
        .sum()
}
