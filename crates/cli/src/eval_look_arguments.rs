//! The arguments of `ghostlight eval score`, `eval compare` and `eval show`.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::Args;

use super::{
    arguments::{ShowArguments, StoreArguments},
    default_model::ModelArguments,
};

#[derive(Debug, Args)]
pub(super) struct EvalScore {
    /// The file of the evaluation, with the scorers that are wanted now
    pub(super) file: PathBuf,
    /// Only samples whose id contains this text
    #[arg(long, value_name = "TEXT")]
    pub(super) only: Option<String>,
    /// Ask no judges, either: only verdicts that are recorded count
    #[arg(long)]
    pub(super) offline: bool,
    /// Write the report as Markdown, too
    #[arg(long, value_name = "FILE")]
    pub(super) markdown: Option<PathBuf>,
    /// Write the report as one HTML file with plots and a list of cells, too
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Write a test case for each cell in the form of JUnit, too
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}

#[derive(Debug, Args)]
pub(super) struct EvalCompare {
    /// The reference of the comparison: a report, or FILE#VARIANT where it has several; with --suite, a variant
    pub(super) base: String,
    /// The other one
    pub(super) other: String,
    /// The file of the evaluation whose variants are compared, by what is recorded of them
    #[arg(long, value_name = "FILE")]
    pub(super) suite: Option<PathBuf>,
    /// Exit with 1 unless the loss of success is below this share, such as 0.03, with its whole interval
    #[arg(long, value_name = "SHARE")]
    pub(super) not_worse_by: Option<f64>,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}

#[derive(Debug, Args)]
pub(super) struct EvalShow {
    /// The file of the evaluation, or a report that was written with --json
    pub(super) file: PathBuf,
    /// Only samples whose id contains this text
    #[arg(long, value_name = "TEXT")]
    pub(super) only: Option<String>,
    /// Only this variant
    #[arg(long, value_name = "NAME")]
    pub(super) variant: Option<String>,
    /// How many cells are shown
    #[arg(long, value_name = "NUMBER", default_value = "10")]
    pub(super) limit: NonZeroUsize,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}
