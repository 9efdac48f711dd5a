//! The arguments of `ghostlight eval rollouts`.

use std::path::PathBuf;

use clap::Args;

use super::{
    arguments::{ShowArguments, StoreArguments},
    default_model::ModelArguments,
};

#[derive(Debug, Args)]
pub(super) struct EvalRollouts {
    /// The file of the evaluation, whose team acts and whose reward is told
    pub(super) file: PathBuf,
    /// Where the trainer's gateway is, such as http://127.0.0.1:8080
    #[arg(long, value_name = "URL")]
    pub(super) gateway: String,
    /// The environment variable that holds the gateway's key
    #[arg(long, value_name = "NAME", default_value = "AGL_KEY")]
    pub(super) key_env: String,
    /// Take up rollouts that are said to be running, too: after a runner of them was killed
    #[arg(long)]
    pub(super) take_running: bool,
    /// Wait for more rollouts, instead of ending when none is queued
    #[arg(long)]
    pub(super) wait: bool,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}
