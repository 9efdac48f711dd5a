#![doc = include_str!("../README.md")]

mod attempts;
mod cell;
mod checkers;
mod comparing;
mod evaluation;
mod judged;
pub mod judges;
pub mod optimising;
mod purse;
mod recording;
mod report;
mod reward;
pub mod scorers;
mod scoring;
pub mod statistics;
pub mod suite;
pub mod trajectory;
mod worst;

pub use self::{
    cell::{Cell, CellResult},
    comparing::{Compared, Flip, MeasureReport, SavedReport},
    evaluation::{Evaluation, EvaluationFault, Forked, Reach},
    judged::Judged,
    recording::{End, RecordedCall, Recording},
    report::{
        ComparisonReport, Counts, GateReport, JudgeModelReport, JudgeReport, PairwiseReport,
        PeopleReport, PositionReport, RankReport, Repeats, Report, VariantReport, WinReport,
    },
};
