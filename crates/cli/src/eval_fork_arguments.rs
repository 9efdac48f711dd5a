//! The arguments of `ghostlight eval fork`.

use std::path::PathBuf;

use clap::Args;

use super::{
    arguments::{ShowArguments, StoreArguments},
    default_model::ModelArguments,
};

#[derive(Debug, Args)]
pub(super) struct EvalFork {
    /// The file of the evaluation, whose recorded runs are forked in each of its variants
    pub(super) file: PathBuf,
    /// How many steps of the recorded runs are kept; the next model call is done anew
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) steps: u32,
    /// Only samples whose id contains this text
    #[arg(long, value_name = "TEXT")]
    pub(super) only: Option<String>,
    /// Write the report as one HTML file, too
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}
