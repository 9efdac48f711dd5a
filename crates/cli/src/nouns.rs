//! The verbs that stand behind a noun, and where those of earlier versions are.

use std::path::PathBuf;

use clap::Subcommand;

use super::{
    arguments::{Export, Replay, ShowArguments, StoreArguments},
    more_arguments::{Catalogue, Check, Completions, Copy, Draw, Init, Man, Migrate, Nodes},
    retention_arguments::Prune,
};

#[derive(Debug, Subcommand)]
pub(super) enum RecordingCommand {
    /// Print all that is recorded of a run, to keep it and to replay it
    Export(Export),
    /// Run recorded runs again with today's code, without effects, and tell where they differ
    Replay(Replay),
}

#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Show the runs of a store on a page in a browser
    #[cfg(feature = "full")]
    Open(super::server_arguments::Open),
    /// Copy a store into a new one, such as a file into PostgreSQL or back
    Copy(Copy),
    /// Read everything in a store and check its hashes
    Verify(StoreArguments),
    /// Migrate the tables of a store in PostgreSQL to this program's version, or say what is pending
    Migrate(Migrate),
    /// Delete ended runs, with all runs below them
    Prune(Prune),
    /// List the processes that have a store in PostgreSQL open, what each carries, and how far it is behind
    Nodes(Nodes),
}

#[derive(Debug, Subcommand)]
pub(super) enum TeamCommand {
    /// Write a team file to begin with, or a program
    Init(Init),
    /// Check a team file
    Check(Check),
    /// Draw a team file's team, in the language of Mermaid or Graphviz
    Draw(Draw),
    /// Print the JSON Schema of team files
    Schema,
}

#[derive(Debug, Subcommand)]
pub(super) enum PricesCommand {
    /// Show what models cost by the table in use, and where its figures are from
    Show(ShowArguments),
    /// Use this table from now on (JSON, as `prices show --json` prints it); `-` for the table of this version
    Update {
        /// The file
        file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ListCommand {
    /// List the tools and kinds of tools that a team file may name
    Tools(Catalogue),
    /// List the behaviors that a team file may name
    Behaviors(Catalogue),
    /// List the policies that a team file may name
    Policies(Catalogue),
    /// List the interceptors that a team file may name
    Interceptors(Catalogue),
    /// List the providers of models that a team file may name
    Providers(Catalogue),
}

#[cfg(feature = "full")]
#[derive(Debug, Subcommand)]
pub(super) enum ProtocolCommand {
    /// Serve a team to an editor by the Agent Client Protocol, on the standard streams
    #[cfg(feature = "full")]
    Acp(super::more_arguments::Acp),
    /// Serve a team to a client of the Model Context Protocol, on the standard streams
    #[cfg(feature = "full")]
    Mcp(super::more_arguments::Mcp),
}

#[derive(Debug, Subcommand)]
pub(super) enum ShellCommand {
    /// Print the completions of a shell
    Completions(Completions),
    /// Write pages for `man` into a folder
    Man(Man),
}

/// The verbs of earlier versions, and those of today.
const MOVED: [(&str, &str); 25] = [
    ("acp", "protocol acp"),
    ("behaviors", "list behaviors"),
    ("check", "team check"),
    ("completions", "shell completions"),
    ("copy", "store copy"),
    ("draw", "team draw"),
    ("export", "recording export"),
    ("index", "docs index"),
    ("init", "team init"),
    ("man", "shell man"),
    ("mcp", "protocol mcp"),
    ("migrate", "store migrate"),
    ("nodes", "store nodes"),
    ("open", "store open"),
    ("policies", "list policies"),
    ("providers", "list providers"),
    ("prune", "store prune"),
    ("read-pdf", "docs read-pdf"),
    ("replay", "recording replay"),
    ("schema", "team schema"),
    ("search", "docs search"),
    ("sessions", "session list"),
    ("tell", "steer RUN VALUE --message NAME"),
    ("tools", "list tools"),
    ("verify", "store verify"),
];

/// Today's words for a verb of an earlier version.
pub(super) fn moved(verb: &str) -> Option<&'static str> {
    let found = MOVED.iter().find(|(earlier, _)| *earlier == verb);
    found.map(|(_, today)| *today)
}
