//! The arguments of the commands about sessions.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};
use ghostlight_actors::vocabulary::SessionId;

use super::{
    arguments::{Secrets, ShowArguments, StoreArguments},
    when::age,
};

#[derive(Debug, Args)]
pub(super) struct Sessions {
    /// Only those with this team
    #[arg(long, value_name = "NAME")]
    pub(super) team: Option<String>,
    /// Only those of this owner
    #[arg(long, value_name = "NAME")]
    pub(super) owner: Option<String>,
    /// Only those in which something happened within this time, such as 12h or 30d
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(super) since: Option<Duration>,
    /// Only those in which a turn is under way
    #[arg(long)]
    pub(super) active: bool,
    /// At most this number
    #[arg(long, value_name = "NUMBER", default_value = "50")]
    pub(super) limit: NonZeroUsize,
    /// The next page, by the mark that the page before printed
    #[arg(long, value_name = "PAGE")]
    pub(super) after: Option<String>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}

#[derive(Debug, Args)]
pub(super) struct Session {
    #[command(subcommand)]
    pub(super) act: SessionAct,
}

#[derive(Debug, Subcommand)]
pub(super) enum SessionAct {
    /// List sessions
    List(Sessions),
    /// Show a session's turns, state and artifacts
    Show(SessionShow),
    /// Begin another session that continues from a point of this one
    #[command(alias = "branch")]
    Fork(SessionFork),
    /// Go back to a point of the session; nothing is deleted
    Rewind(SessionRewind),
    /// Delete a session for good: its turns, its state, its artifacts and its runs
    Delete(SessionDelete),
    /// Print a session as one JSON document, to keep it or to continue with it in another store
    Export(SessionExport),
    /// Make the session of such a document
    Import(SessionImport),
    /// Print the content of an artifact
    Artifact(SessionArtifact),
}

#[derive(Debug, Args)]
pub(super) struct SessionShow {
    /// The session, as TEAM/KEY
    #[arg(value_name = "SESSION", value_parser = session)]
    pub(super) session: SessionId,
    /// Only the last turns, at most this many
    #[arg(long, value_name = "NUMBER")]
    pub(super) last: Option<usize>,
    /// Only the turns that began within this time, such as 12h or 30d
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(super) since: Option<Duration>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}

#[derive(Debug, Args)]
pub(super) struct SessionFork {
    /// The session, as TEAM/KEY
    #[arg(value_name = "SESSION", value_parser = session)]
    pub(super) session: SessionId,
    /// How many of its turns the fork has [default: all]
    #[arg(long, value_name = "NUMBER")]
    pub(super) turns: Option<u64>,
    /// The key of the fork
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    pub(super) to: String,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Debug, Args)]
pub(super) struct SessionRewind {
    /// The session, as TEAM/KEY
    #[arg(value_name = "SESSION", value_parser = session)]
    pub(super) session: SessionId,
    /// How many of its turns count from now on
    #[arg(long, value_name = "NUMBER")]
    pub(super) turns: u64,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Debug, Args)]
pub(super) struct SessionDelete {
    /// The session, as TEAM/KEY
    #[arg(value_name = "SESSION", value_parser = session)]
    pub(super) session: SessionId,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Debug, Args)]
pub(super) struct SessionExport {
    /// The session, as TEAM/KEY
    #[arg(value_name = "SESSION", value_parser = session)]
    pub(super) session: SessionId,
    #[command(flatten)]
    pub(super) secrets: Secrets,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Debug, Args)]
pub(super) struct SessionImport {
    /// The file that `ghostlight session export` printed
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// The session that is made, as TEAM/KEY [default: as it was called]
    #[arg(long, value_name = "SESSION", value_parser = session)]
    pub(super) to: Option<SessionId>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Debug, Args)]
pub(super) struct SessionArtifact {
    /// The session, as TEAM/KEY
    #[arg(value_name = "SESSION", value_parser = session)]
    pub(super) session: SessionId,
    /// The artifact's name
    pub(super) name: String,
    /// Which version [default: the latest]
    #[arg(long, value_name = "NUMBER")]
    pub(super) version: Option<u64>,
    /// That of this user, in all of the user's sessions with the team
    #[arg(long, value_name = "OWNER")]
    pub(super) user: Option<String>,
    /// Print it as it was saved on a terminal too, whose control sequences then take effect
    #[arg(long)]
    pub(super) raw: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

/// A session in one word. A team's name contains no slash; a key may.
fn session(text: &str) -> Result<SessionId, String> {
    match text.split_once('/') {
        Some((team, key)) if !team.is_empty() && !key.is_empty() => Ok(SessionId {
            team: team.into(),
            key: key.into(),
        }),
        _ => Err("give the team and the key, such as desk/customer-42".to_owned()),
    }
}
