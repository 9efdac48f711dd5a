//! The statistics of evaluations: rates over repeats, intervals, paired comparisons.
//!
//! All functions are pure. Scores are numbers from 0 to 1, and a success is a score of 1.

mod mean;
mod paired;
mod repeats;

pub use self::{
    mean::{Clustered, Interval, Mean, wilson},
    paired::{Comparison, McNemar, Pair, Verdict, holm, mcnemar},
    repeats::{pass_at_k, pass_hat_k},
};
