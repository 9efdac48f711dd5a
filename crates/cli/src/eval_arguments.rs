//! The arguments of `ghostlight eval`.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::{Args, Subcommand};

use super::eval_rollout_arguments::EvalRollouts;
use super::{
    arguments::{ShowArguments, StoreArguments},
    default_model::ModelArguments,
    eval_add_arguments::EvalAdd,
    eval_export_arguments::EvalExport,
    eval_fork_arguments::EvalFork,
    eval_look_arguments::{EvalCompare, EvalScore, EvalShow},
    eval_optimise_arguments::{EvalApply, EvalOptimise},
};

/// Commands for evaluations besides carrying them out.
#[derive(Debug, Subcommand)]
pub(super) enum EvalAct {
    /// Add a recorded run to a file of samples
    Add(EvalAdd),
    /// Show the texts that a search found, and put them into the team with --write
    Apply(EvalApply),
    /// Compare two variants, or two reports that were written with --json
    Compare(EvalCompare),
    /// Write recorded turns as rows for trainers
    Export(EvalExport),
    /// Let recorded runs continue from one point in each variant, and compare them
    Fork(EvalFork),
    /// Look for better instructions, descriptions and demonstrations
    Optimise(EvalOptimise),
    /// Do the rollouts that wait at a trainer's gateway, and report their rewards
    Rollouts(EvalRollouts),
    /// Print the JSON Schema of evaluations' files
    Schema,
    /// Score what is recorded of an evaluation anew, without starting an agent
    Score(EvalScore),
    /// Show the cells of an evaluation, the worst first
    Show(EvalShow),
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Eval {
    #[command(subcommand)]
    pub(super) act: Option<EvalAct>,
    /// The file of the evaluation
    #[arg(required = true)]
    pub(super) file: Option<PathBuf>,
    /// Print what would be tried, and try nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Only samples whose id contains this text
    #[arg(long, value_name = "TEXT")]
    pub(super) only: Option<String>,
    /// At most this number of samples, the first ones
    #[arg(long, value_name = "NUMBER")]
    pub(super) limit: Option<NonZeroUsize>,
    /// The number of cells under way at once, instead of the file's
    #[arg(long, value_name = "NUMBER")]
    pub(super) concurrency: Option<u32>,
    /// Refuse data with a line that cannot be read, instead of leaving the line out
    #[arg(long)]
    pub(super) strict: bool,
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
