//! The arguments of `ghostlight eval export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{
    arguments::{Secrets, StoreArguments},
    default_model::ModelArguments,
};

#[derive(Debug, Args)]
pub(super) struct EvalExport {
    /// The file of the evaluation, whose recorded cells are exported
    #[arg(required_unless_present = "runs", conflicts_with = "runs")]
    pub(super) file: Option<PathBuf>,
    /// Export these recorded runs instead, by their ids or the beginnings of them; all of the store without any
    #[arg(long, value_name = "RUN", num_args = 0..)]
    pub(super) runs: Option<Vec<String>>,
    /// With --runs, only runs of this team
    #[arg(long, value_name = "NAME", requires = "runs")]
    pub(super) team: Option<String>,
    /// The form of the rows
    #[arg(long = "as", value_name = "FORM")]
    pub(super) form: TrainingForm,
    /// The file to write; standard output without it
    #[arg(long, value_name = "FILE")]
    pub(super) to: Option<PathBuf>,
    /// Only samples whose id contains this text
    #[arg(long, value_name = "TEXT", conflicts_with = "runs")]
    pub(super) only: Option<String>,
    /// Export the forks that `eval fork --steps` made with this number, instead of the evaluation's own runs
    #[arg(long, value_name = "STEPS", conflicts_with = "runs")]
    pub(super) forks: Option<u32>,
    /// Make examples to follow also of turns that did not succeed
    #[arg(long)]
    pub(super) all: bool,
    #[command(flatten)]
    pub(super) secrets: Secrets,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

/// A form of training files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TrainingForm {
    /// OpenAI's fine-tuning: chats with tools
    Openai,
    /// OpenAI's preference fine-tuning: the best repeat of a sample against its worst one
    OpenaiPreference,
    /// TRL's supervised fine-tuning
    TrlSft,
    /// TRL's direct preference optimisation: the best repeat against the worst one
    TrlDpo,
    /// TRL's KTO: each repeat with whether it succeeded
    TrlKto,
    /// verl's reinforcement learning: a prompt for each sample
    Verl,
    /// ATIF 1.8: whole trajectories, with the runs below them
    Atif,
}
