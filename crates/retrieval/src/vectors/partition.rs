//! Arranging vectors in lists of near neighbours.

use super::{List, VectorIndex, nearest, product};

/// The fewest vectors for which lists pay: fewer vectors are scanned in a fraction of a millisecond.
const WORTH: usize = 5_000;
/// The number of lists, as a multiple of the root of the number of vectors.
const LISTS: usize = 4;
/// How many sampled vectors determine the centre of each list.
const SAMPLED: usize = 8;
/// How many times the centres move.
const ROUNDS: usize = 3;

/// A plan for arranging the vectors of an index. It is computed concurrently with searches ([`VectorIndex::plan`]) and
/// then applied ([`VectorIndex::arrange`]).
#[derive(Clone, Debug)]
pub struct Partition {
    centres: Vec<f32>,
    /// The list of each position at that time.
    lists: Vec<u32>,
}

impl VectorIndex {
    /// Arranges the vectors in lists, four times the root of their number, by *k*-means of their directions: an
    /// inverted file, after Sivic and Zisserman, *Video Google* (2003), and Jégou and others, *Product Quantization
    /// for Nearest Neighbor Search* (2011). It takes seconds for 100,000 vectors, and the same vectors give the same
    /// lists.
    ///
    /// `None` if it would not pay: for fewer than 5,000 vectors, and if the index was arranged and has not doubled
    /// since.
    pub fn plan(&self) -> Option<Partition> {
        if self.len < WORTH.max(self.arranged * 2) || self.dimension == 0 {
            return None;
        }
        let count = LISTS * self.len.isqrt();
        let there = || (0..self.rows.len()).filter_map(|place| self.get(place));
        let step = (self.len / (SAMPLED * count)).max(1);
        let sample: Vec<&[f32]> = there().step_by(step).collect();
        let mut centres: Vec<f32> = Vec::with_capacity(count * self.dimension);
        for list in 0..count {
            let first = sample.get(list * sample.len() / count);
            centres.extend_from_slice(first.copied().unwrap_or_default());
        }
        for _ in 0..ROUNDS {
            let mut sums = vec![0.0_f32; centres.len()];
            for vector in &sample {
                let from = nearest(&centres, vector) * self.dimension;
                let sum = sums.get_mut(from..from + self.dimension);
                for (sum, number) in sum.into_iter().flatten().zip(*vector) {
                    *sum += number;
                }
            }
            let moved = sums.chunks_exact(self.dimension);
            for (centre, sum) in centres.chunks_exact_mut(self.dimension).zip(moved) {
                let length = product(sum, sum).sqrt();
                // A list without near vectors keeps its centre.
                if length > 0.0 {
                    for (number, sum) in centre.iter_mut().zip(sum) {
                        *number = sum / length;
                    }
                }
            }
        }
        let list = |place: usize| {
            self.get(place)
                .map_or(0, |vector| nearest(&centres, vector))
        };
        let lists = (0..self.rows.len()).map(|place| list(place) as u32);
        Some(Partition {
            lists: lists.collect(),
            centres,
        })
    }

    /// Applies a plan for this index. Vectors that were added since the plan was made join their nearest list, as later
    /// ones do.
    pub fn arrange(&mut self, partition: Partition) {
        let count = partition.centres.len() / self.dimension.max(1);
        if count == 0 {
            return;
        }
        self.centres = partition.centres;
        let before = std::mem::replace(&mut self.lists, vec![List::default(); count]);
        for place in 0..self.rows.len() {
            let Some(Some((list, row))) = self.rows.get(place).copied() else {
                continue;
            };
            let (Some(from), row) = (before.get(list as usize), row as usize) else {
                continue;
            };
            let codes = from.codes.chunks_exact(self.dimension).nth(row);
            let chosen = match (partition.lists.get(place), self.get(place)) {
                (Some(list), _) => *list as usize,
                (None, vector) => self.list_of(vector.unwrap_or_default()),
            };
            let list = self.lists.get_mut(chosen);
            if let (Some(list), Some(codes), Some(coded)) = (list, codes, from.coded.get(row)) {
                let row = list.push(place as u32, codes, *coded);
                if let Some(at) = self.rows.get_mut(place) {
                    *at = Some((chosen as u32, row));
                }
            }
        }
        self.arranged = self.len;
    }

    /// The number of lists: one until the vectors are arranged.
    pub fn lists(&self) -> usize {
        self.lists.len()
    }
}
