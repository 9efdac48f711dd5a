//! The arguments of `ghostlight eval add`.

use std::path::PathBuf;

use clap::Args;

use super::arguments::StoreArguments;

#[derive(Debug, Args)]
pub(super) struct EvalAdd {
    /// The run, or the beginning of its id
    pub(super) run: String,
    /// The file of samples, one JSON object a line, to which it is added
    #[arg(long, value_name = "FILE")]
    pub(super) to: PathBuf,
    /// The sample's id, instead of one made of the run's
    #[arg(long, value_name = "TEXT")]
    pub(super) id: Option<String>,
    /// A tag of the sample; may be given several times
    #[arg(long = "tag", value_name = "TEXT")]
    pub(super) tags: Vec<String>,
    /// Expect the answer that the run gave
    #[arg(long)]
    pub(super) expected: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}
