//! The arguments of the commands that talk to agents, set up, and inspect.

use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::NonEmptyStringValueParser};
use clap_complete::Shell;

use super::{
    approval_arguments::ApprovalArguments,
    arguments::{ShowArguments, StoreArguments},
    default_model::ModelArguments,
};

#[cfg(feature = "full")]
#[derive(Debug, Args)]
pub(super) struct Acp {
    /// The team file (YAML)
    pub(super) team_file: PathBuf,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[cfg(feature = "full")]
#[derive(Debug, Args)]
pub(super) struct Mcp {
    /// The team file (YAML); the team is a tool
    pub(super) team_file: PathBuf,
    /// Serve nothing: sign in at this MCP server of the team file, and keep what it gives
    #[arg(long, value_name = "SERVER")]
    pub(super) sign_in: Option<String>,
    /// Offer the client the skills below this folder, too: folders with a SKILL.md
    #[arg(long, value_name = "FOLDER", conflicts_with = "sign_in")]
    pub(super) skills: Option<PathBuf>,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Debug, Args)]
pub(super) struct Chat {
    /// The team file (YAML) [default: one agent with the built-in tools]
    pub(super) team_file: Option<PathBuf>,
    /// The conversation to continue or to begin [default: a new one]
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    pub(super) session: Option<String>,
    /// Continue the team's last conversation
    #[arg(long, short = 'c', conflicts_with = "session")]
    pub(super) r#continue: bool,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    /// Keep the conversation in memory only: nothing is left when the process ends
    #[arg(long, conflicts_with_all = ["store", "session", "continue"])]
    pub(super) memory: bool,
    #[command(flatten)]
    pub(super) approval: ApprovalArguments,
    /// Approve and confirm whatever a turn asks to have approved or confirmed
    #[arg(long)]
    pub(super) yes: bool,
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum State {
    /// Under way in a process that lives.
    Running,
    /// Under way when its process ended: `ghostlight resume` continues with it.
    Interrupted,
    /// For an answer, a message, a timer or a ticket.
    Waiting,
    /// Until somebody retries, forks or cancels it.
    Parked,
    /// Being cancelled.
    Cancelling,
    /// Ended with an answer.
    Answered,
    /// Ended before its task was done.
    Stopped,
    /// Ended with an error.
    Failed,
    /// Ended by `ghostlight cancel`.
    Cancelled,
}

#[derive(Debug, Args)]
pub(super) struct Steer {
    /// The run, or the beginning of its id
    pub(super) run: String,
    /// The text, which is in the next request of the agent's model; with --message its content (JSON, or else text)
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(super) text: String,
    /// A typed message for the run's function instead: its stable name, as the program that receives it writes it
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(super) message: Option<String>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Debug, Args)]
pub(super) struct Init {
    /// The folder, which is made if need be
    #[arg(default_value = ".")]
    pub(super) folder: PathBuf,
    /// Also write a program (Cargo.toml, src/main.rs) with a tool of its own
    #[arg(long)]
    pub(super) program: bool,
}

#[derive(Debug, Args)]
pub(super) struct Catalogue {
    /// Only this one
    pub(super) name: Option<String>,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}

#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Look at this team file's models too
    pub(super) team_file: Option<PathBuf>,
    /// Ask no model anything
    #[arg(long)]
    pub(super) offline: bool,
    /// Try what each model can do: tools, schemas, pictures, streams
    #[arg(long = "try", conflicts_with = "offline")]
    pub(super) tries: bool,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell
    pub(super) shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct Man {
    /// The folder, which is made if need be
    pub(super) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct Draw {
    /// The team file (YAML)
    pub(super) team_file: PathBuf,
    /// The agent whose graph is drawn, instead of the team
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,
    /// Graphviz's language instead of Mermaid's
    #[arg(long)]
    pub(super) dot: bool,
}

/// `ghostlight store copy`
#[derive(Clone, Debug, Args)]
pub(super) struct Copy {
    /// The store that is copied: a file, or postgres://USER@HOST/DATABASE
    pub(super) from: PathBuf,
    /// The store that becomes the copy, which must be empty or not yet there
    pub(super) to: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct Nodes {
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}

/// `ghostlight store migrate`
#[derive(Clone, Debug, Args)]
pub(super) struct Migrate {
    #[command(flatten)]
    pub(super) store: StoreArguments,
    /// Only list the migrations that are not applied yet; exits with 1 if there are any
    #[arg(long)]
    pub(super) pending: bool,
}

#[derive(Debug, Args)]
pub(super) struct Check {
    /// The team files (YAML)
    #[arg(required = true, value_name = "TEAM_FILE")]
    pub(super) team_files: Vec<PathBuf>,
    /// Show also what each agent has once all names, toolsets, templates and defaults are resolved
    #[arg(long)]
    pub(super) explain: bool,
    /// Show what a process that serves this file would change for new runs, if the team file replaced it
    #[arg(long, value_name = "FILE")]
    pub(super) against: Option<PathBuf>,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}
