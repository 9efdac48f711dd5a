//! The arguments of `ghostlight eval optimise` and `eval apply`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{
    arguments::{ShowArguments, StoreArguments},
    default_model::ModelArguments,
};

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum SearchMethod {
    /// Show the agent samples that it answered well
    Bootstrap,
    /// Look for the best combination of proposed texts and demonstrations
    Instructions,
    /// Change texts by what went wrong, and merge what is best for some sample
    Gepa,
}

#[derive(Debug, Args)]
pub(super) struct EvalOptimise {
    /// The file of the evaluation, whose `optimise` says what is looked for
    pub(super) file: PathBuf,
    /// The method, instead of what the file says
    #[arg(long, value_enum, value_name = "METHOD")]
    pub(super) method: Option<SearchMethod>,
    /// How many samples may be tried during the search, instead of what the file says
    #[arg(long, value_name = "NUMBER")]
    pub(super) tries: Option<u32>,
    /// Write the better texts to this file, for `ghostlight eval apply`
    #[arg(long, value_name = "FILE")]
    pub(super) to: Option<PathBuf>,
    /// Print what would be tried, and try nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}

#[derive(Debug, Args)]
pub(super) struct EvalApply {
    /// The file that `ghostlight eval optimise --to` wrote
    pub(super) patch: PathBuf,
    /// The team file, instead of the one that the patch names
    #[arg(long, value_name = "FILE")]
    pub(super) team: Option<PathBuf>,
    /// Change the team file; without this the changes are only shown
    #[arg(long)]
    pub(super) write: bool,
}
