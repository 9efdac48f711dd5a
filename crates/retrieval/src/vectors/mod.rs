//! Ranking by vectors: an exact search that is fast, and an approximate one that is faster.
//!
//! Each vector is stored as it is, and again as 8-bit integers with a bound on the rounding error. A search scans the
//! integers, which takes a quarter of the memory bandwidth and integer arithmetic, and compares exactly only the
//! vectors that can be among the best within those bounds. So its result is exact, and no approximation.
//!
//! A large index can be arranged in lists of vectors that are near each other ([`VectorIndex::plan`]). An approximate
//! search ([`Scan::Approximate`]) reads only the lists nearest to the query; an exact one reads all of them.

mod partition;

use std::{cmp::Reverse, collections::BinaryHeap};

use serde::{Deserialize, Serialize};

pub use partition::Partition;

/// An approximate search reads at least one of this many lists.
const PROBED: usize = 5;
/// How many wanted vectors an approximate search compares, at least, for each result. A filter that leaves few vectors
/// makes it read more lists.
const COMPARED: usize = 100;

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
    /// The lists; a single one until the index is arranged.
    lists: Vec<List>,
    /// The centres of the lists, concatenated; empty for a single list.
    centres: Vec<f32>,
    /// The list and the row of each position; `None` if the vector was removed.
    rows: Vec<Option<(u32, u32)>>,
    len: usize,
    /// The number of vectors when the lists were arranged.
    arranged: usize,
}

/// The integer copies of some vectors, concatenated.
#[derive(Clone, Debug, Default)]
struct List {
    places: Vec<u32>,
    codes: Vec<i8>,
    coded: Vec<Coded>,
}

/// How many of an index's vectors a search reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scan {
    /// All of them: the result is exact.
    #[default]
    Exact,
    /// The lists nearest to the query, where the index is arranged in lists; otherwise all of it. Some of the nearest
    /// vectors may be missed: of the ten nearest to a question one in twenty, while a fifth of the index is read.
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
            lists: vec![List::default()],
            centres: Vec::new(),
            rows: Vec::new(),
            len: 0,
            arranged: 0,
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
            + size_of::<Coded>()
            + size_of::<u32>()
            + size_of::<Option<(u32, u32)>>()
    }

    /// Adds a vector and returns its position.
    ///
    /// # Errors
    /// The vector has another dimension or a number that is not finite, or the index has four billion vectors already.
    pub fn add(&mut self, vector: &[f32]) -> Result<usize, WrongVector> {
        self.check(vector)?;
        let place = self.rows.len();
        let mut codes = vec![0; self.dimension];
        let coded = Coded::of(vector, &mut codes);
        let list = self.list_of(vector);
        let number = u32::try_from(place).map_err(|_| self.wrong(vector))?;
        if let Some(chosen) = self.lists.get_mut(list) {
            self.rows
                .push(Some((list as u32, chosen.push(number, &codes, coded))));
        }
        self.numbers.extend_from_slice(vector);
        self.len += 1;
        Ok(place)
    }

    /// Removes a vector: it is not found any more, and its position is not used again.
    pub fn remove(&mut self, place: usize) {
        let Some((list, row)) = self.rows.get_mut(place).and_then(Option::take) else {
            return;
        };
        self.len -= 1;
        let moved = self
            .lists
            .get_mut(list as usize)
            .and_then(|list| list.remove(row as usize, self.dimension));
        if let Some(moved) = moved
            && let Some(Some(at)) = self.rows.get_mut(moved as usize)
        {
            at.1 = row;
        }
    }

    /// The vector at this position, unless it was removed.
    pub fn get(&self, place: usize) -> Option<&[f32]> {
        let is_there = self.rows.get(place)?.is_some();
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
        let near = match scan {
            Scan::Approximate if self.lists.len() > 1 => {
                let lists = self.nearest_lists(query, limit, &wanted);
                self.candidates(query, limit, lists, &wanted)
            }
            _ => self.candidates(query, limit, self.lists.iter(), &wanted),
        };
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

    /// The lists that an approximate search reads, the nearest first.
    fn nearest_lists(
        &self,
        query: &[f32],
        limit: usize,
        wanted: &impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = &List> {
        let centres = self.centres.chunks_exact(self.dimension);
        let mut near: Vec<(Ordered, &List)> = centres
            .map(|centre| Ordered(product(query, centre)))
            .zip(&self.lists)
            .collect();
        near.sort_by_key(|(score, _)| Reverse(*score));
        let (at_least, compared) = (near.len().div_ceil(PROBED), limit.saturating_mul(COMPARED));
        let (mut read, mut admitted) = (0, 0);
        near.into_iter()
            .map(|(_, list)| list)
            .take_while(move |list| {
                let goes_on = read < at_least || admitted < compared;
                read += 1;
                if admitted < compared {
                    admitted += list
                        .places
                        .iter()
                        .filter(|place| wanted(**place as usize))
                        .count();
                }
                goes_on
            })
    }

    /// The positions in these lists whose vectors can be among their nearest `limit`: those whose product may be as
    /// large as the least that the best are known to have.
    fn candidates<'l>(
        &self,
        query: &[f32],
        limit: usize,
        lists: impl Iterator<Item = &'l List>,
        wanted: &impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let mut codes = vec![0; self.dimension];
        let coded = Coded::of(query, &mut codes);
        let length = product(query, query).sqrt();
        let slack = SLACK * length.max(1.0);
        let codes: Vec<i16> = codes.into_iter().map(i16::from).collect();
        // The lower bounds of the best products so far, the smallest on top.
        let mut least: BinaryHeap<Reverse<Ordered>> =
            BinaryHeap::with_capacity(limit.min(self.len) + 1);
        let mut enough = f32::NEG_INFINITY;
        let mut near: Vec<(f32, usize)> = Vec::new();
        for list in lists {
            let rows = list.codes.chunks_exact(self.dimension);
            for ((place, vector), row) in list.places.iter().zip(&list.coded).zip(rows) {
                let place = *place as usize;
                if !wanted(place) {
                    continue;
                }
                let about = coded.scale * vector.scale * whole_product(&codes, row) as f32;
                let bound = coded.error * vector.length + length * vector.error + slack;
                let most = about + bound;
                if most < enough {
                    continue;
                }
                near.push((most, place));
                least.push(Reverse(Ordered(about - bound)));
                if least.len() > limit {
                    least.pop();
                }
                if least.len() == limit {
                    enough = least.peek().map_or(enough, |least| least.0.0);
                }
            }
        }
        let near = near.into_iter().filter(|(most, _)| *most >= enough);
        near.map(|(_, place)| place).collect()
    }

    /// The list for this vector.
    fn list_of(&self, vector: &[f32]) -> usize {
        nearest(&self.centres, vector)
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

impl List {
    /// Adds a vector and returns its row.
    fn push(&mut self, place: u32, codes: &[i8], coded: Coded) -> u32 {
        self.places.push(place);
        self.codes.extend_from_slice(codes);
        self.coded.push(coded);
        (self.places.len() - 1) as u32
    }

    /// Removes a row. The last row takes its place, and its position is returned.
    fn remove(&mut self, row: usize, dimension: usize) -> Option<u32> {
        let last = self.places.len().checked_sub(1)?;
        if row > last {
            return None;
        }
        self.codes.copy_within(last * dimension.., row * dimension);
        self.codes.truncate(last * dimension);
        self.places.swap_remove(row);
        self.coded.swap_remove(row);
        self.places.get(row).copied()
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

/// The nearest of these centres; 0 if there are none.
fn nearest(centres: &[f32], vector: &[f32]) -> usize {
    let mut best = (f32::NEG_INFINITY, 0);
    for (list, centre) in centres.chunks_exact(vector.len().max(1)).enumerate() {
        let score = product(centre, vector);
        if score > best.0 {
            best = (score, list);
        }
    }
    best.1
}

/// The dot product of two vectors of integers from -127 to 127. The compiler multiplies and adds eight pairs in one
/// instruction, for which one of the vectors has 16 bits already. It cannot overflow below 133,000 dimensions.
fn whole_product(a: &[i16], b: &[i8]) -> i32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| i32::from(*a) * i32::from(*b))
        .sum()
}
