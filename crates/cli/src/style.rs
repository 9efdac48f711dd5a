//! How the command looks and how much it says; chosen once per process.

use std::{env, path::PathBuf, sync::OnceLock};

use clap::{ArgAction, Args, ValueEnum};

/// When there are colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Options of every command.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Everywhere")]
pub(super) struct Style {
    /// Show every event; twice, also what the engine notes
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub(super) verbose: u8,
    /// Show only the answer, questions and what went wrong
    #[arg(short, long, global = true)]
    pub(super) quiet: bool,
    /// When there are colours
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    pub(super) color: Colour,
    /// Write what the engine notes to this file; RUST_LOG says what, such as `debug`
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) log: Option<PathBuf>,
    /// Read variables that are not set from this file [default: .env, if it is there]
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) env_file: Option<PathBuf>,
}

static CHOSEN: OnceLock<Style> = OnceLock::new();

/// Makes the choice for the rest of the process.
pub(super) fn choose(style: Style) {
    let _ = CHOSEN.set(style);
}

/// The choice.
pub(super) fn chosen() -> &'static Style {
    CHOSEN.get_or_init(Style::default)
}

impl Style {
    /// Whether output has colours; `terminal` tells whether it goes to a terminal.
    pub(super) fn colours(&self, terminal: bool) -> bool {
        let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        match self.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => terminal && !set("NO_COLOR"),
        }
    }
}
