#![doc = include_str!("../README.md")]

mod cell;
mod checkers;
mod evaluation;
mod recording;
mod report;
pub mod scorers;
pub mod statistics;
pub mod suite;
pub mod trajectory;

pub use self::{
    cell::{Cell, CellResult},
    evaluation::{Evaluation, EvaluationFault, Forked},
    recording::{End, RecordedCall, Recording},
    report::{ComparisonReport, Counts, GateReport, Repeats, Report, VariantReport},
};
