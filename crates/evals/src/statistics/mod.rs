//! The statistics of evaluations: rates over repeats, intervals, paired comparisons.
//!
//! All functions are pure. Scores are numbers from 0 to 1, and a success is a score of 1.

mod agreement;
mod bootstrap;
mod mean;
mod paired;
mod preferences;
mod repeats;

pub use self::{
    agreement::{Distance, cohens_kappa, krippendorffs_alpha},
    bootstrap::{Bootstrap, Draws, RESAMPLES},
    mean::{Clustered, Interval, Mean, wilson},
    paired::{
        Comparison, McNemar, Pair, Verdict, detectable_before, holm, mcnemar, resampled_difference,
    },
    preferences::{Game, Strength, bradley_terry, sign_test, strengths},
    repeats::{pass_at_k, pass_hat_k},
};
