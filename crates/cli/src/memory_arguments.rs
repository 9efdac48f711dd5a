//! The arguments of the commands about memories.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use ghostlight_actors::vocabulary::{Scope, SessionId};

use super::{
    arguments::{Secrets, ShowArguments, StoreArguments},
    when::age,
};

#[derive(Debug, Args)]
pub(super) struct Memory {
    #[command(subcommand)]
    pub(super) act: MemoryAct,
}

#[derive(Debug, Subcommand)]
pub(super) enum MemoryAct {
    /// List the items
    List(MemoryList),
    /// Show one item with all that is known of it
    Show(MemoryShow),
    /// Find the items that answer a question, by its words
    Search(MemorySearch),
    /// Correct an item, pin it, switch it off, or let it count more or less
    Change(MemoryChange),
    /// Forget an item, or all that matter little, are old, unused or expired; pinned items stay
    Forget(MemoryForget),
    /// Print all items as one JSON document
    Export(MemoryExport),
    /// Add the items of a document that `memory export` printed
    Import(MemoryImport),
}

/// Whose memory is meant.
#[derive(Debug, Args)]
pub(super) struct Whose {
    /// The team whose memory it is
    pub(super) team: String,
    /// This user's memory [default: the team's]
    #[arg(long, value_name = "OWNER", conflicts_with = "session")]
    pub(super) user: Option<String>,
    /// The memory of the conversation with this key
    #[arg(long, value_name = "KEY")]
    pub(super) session: Option<String>,
    /// The memory's name in the team file
    #[arg(long, value_name = "NAME", default_value = "memory")]
    pub(super) name: String,
}

impl Whose {
    /// The scope of shared state, and the session by which a store finds it.
    pub(super) fn scope(&self) -> (SessionId, Scope) {
        let key = self.session.as_deref().unwrap_or_default().into();
        let scope = match (&self.user, &self.session) {
            (Some(owner), _) => Scope::User(owner.clone()),
            (None, Some(_)) => Scope::Session,
            (None, None) => Scope::App,
        };
        let team = self.team.as_str().into();
        (SessionId { team, key }, scope)
    }
}

#[derive(Debug, Args)]
pub(super) struct MemoryList {
    #[command(flatten)]
    pub(super) whose: Whose,
    /// Only items of this kind
    #[arg(long, value_name = "KIND")]
    pub(super) kind: Option<Kind>,
    /// At most this number
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub(super) limit: usize,
    /// Only the items behind this one in the list, by its whole id
    #[arg(long, value_name = "ID")]
    pub(super) after: Option<String>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}

#[derive(Debug, Args)]
pub(super) struct MemoryShow {
    #[command(flatten)]
    pub(super) whose: Whose,
    /// The item, or the beginning of its id
    pub(super) id: String,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Debug, Args)]
pub(super) struct MemorySearch {
    #[command(flatten)]
    pub(super) whose: Whose,
    /// The question; `tag:a,b` before it looks only at items with one of these tags
    pub(super) text: String,
    /// Only items of this kind; `conversation` searches recorded turns
    #[arg(long, value_name = "KIND")]
    pub(super) kind: Option<Kind>,
    /// At most this number
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    pub(super) limit: u32,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub(super) struct MemoryChange {
    #[command(flatten)]
    pub(super) whose: Whose,
    /// The item, or the beginning of its id
    pub(super) id: String,
    /// The new text
    #[arg(long, value_name = "TEXT", group = "change")]
    pub(super) content: Option<String>,
    /// How much it matters, 0 to 1
    #[arg(long, value_name = "IMPORTANCE", value_parser = share, group = "change")]
    pub(super) importance: Option<f64>,
    /// By how much more or less it counts in a search, 0.1 to 10
    #[arg(long, value_name = "FACTOR", value_parser = factor, group = "change")]
    pub(super) boost: Option<f64>,
    /// Pin it: it is never forgotten with others
    #[arg(long, group = "change", conflicts_with = "unpin")]
    pub(super) pin: bool,
    /// Let it be forgotten as others are
    #[arg(long, group = "change")]
    pub(super) unpin: bool,
    /// Switch it off: no search finds it
    #[arg(long, group = "change", conflicts_with = "enable")]
    pub(super) disable: bool,
    /// Switch it on again
    #[arg(long, group = "change")]
    pub(super) enable: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

fn within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("it is a number from {least} to {most}"))
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    within(text, 0.0, 1.0)
}

fn factor(text: &str) -> Result<f64, String> {
    within(text, 0.1, 10.0)
}

#[derive(Debug, Args)]
pub(super) struct MemoryForget {
    #[command(flatten)]
    pub(super) whose: Whose,
    /// The item, or the beginning of its id; it is forgotten also if it is pinned
    #[arg(required_unless_present_any = ["below", "older_than", "keep", "unused", "expired"])]
    pub(super) id: Option<String>,
    /// Items that matter less than this, 0 to 1
    #[arg(long, value_name = "IMPORTANCE", group = "what", conflicts_with = "id")]
    pub(super) below: Option<f64>,
    /// Items that were written longer ago than this, such as 12h or 30d
    #[arg(long, value_name = "AGE", value_parser = age, group = "what", conflicts_with = "id")]
    pub(super) older_than: Option<Duration>,
    /// All but this number of items that matter most
    #[arg(long, value_name = "NUMBER", group = "what", conflicts_with = "id")]
    pub(super) keep: Option<usize>,
    /// Items that were not used for a day and have less than this share left by now, 0 to 1; 0.3 is usual
    #[arg(long, value_name = "SHARE", value_parser = share, group = "what", conflicts_with = "id")]
    pub(super) unused: Option<f64>,
    /// Items that have expired
    #[arg(long, group = "what", conflicts_with = "id")]
    pub(super) expired: bool,
    /// Only items of this kind
    #[arg(long, value_name = "KIND", conflicts_with = "id")]
    pub(super) kind: Option<Kind>,
    /// Only print the items that would be forgotten
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}

#[derive(Debug, Args)]
pub(super) struct MemoryExport {
    #[command(flatten)]
    pub(super) whose: Whose,
    /// Only the learnings, as Markdown that can be edited and imported again
    #[arg(long)]
    pub(super) learnings: bool,
    #[command(flatten)]
    pub(super) secrets: Secrets,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Debug, Args)]
pub(super) struct MemoryImport {
    #[command(flatten)]
    pub(super) whose: Whose,
    /// The file that `ghostlight memory export` printed, or learnings in Markdown (`.md`)
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// Replace items that are there already by those of the same id; otherwise they stay
    #[arg(long)]
    pub(super) overwrite: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

/// The kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Working memories, which matter now.
    Working,
    /// Episodes, which happened.
    Episodic,
    /// Facts.
    Semantic,
    /// How tasks were done.
    Task,
    /// Learnings, which help or hurt.
    Learning,
    /// Wisdom, which many episodes teach.
    Wisdom,
    /// Nodes of the knowledge graph.
    Entity,
    /// Edges of the knowledge graph.
    Relation,
    /// Turns of conversations.
    Conversation,
}
