//! The arguments that say which ended runs and idle sessions are kept.

use std::time::Duration;

use clap::Args;
use ghostlight_actors::actor::Retention;

use super::{
    arguments::{ShowArguments, StoreArguments},
    when::age,
};

/// Which ended runs and idle sessions are kept.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct RetentionArguments {
    /// Delete runs that ended longer ago than this, such as 90m, 12h, 30d
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(super) older_than: Option<Duration>,
    /// Keep this number of the runs that ended last
    #[arg(long, value_name = "NUMBER")]
    pub(super) keep: Option<usize>,
    /// Delete sessions in which nothing happened for this long, with all their runs, state and
    /// memories
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(super) sessions_idle_for: Option<Duration>,
}

impl RetentionArguments {
    pub(super) fn retention(self) -> Retention {
        let mut retention = Retention::default();
        (retention.older_than, retention.keep) = (self.older_than, self.keep);
        retention.sessions_idle_for = self.sessions_idle_for;
        retention
    }
}

#[derive(Debug, Args)]
pub(super) struct Prune {
    #[command(flatten)]
    pub(super) retention: RetentionArguments,
    /// Only list what would be deleted
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}
