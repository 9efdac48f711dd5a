//! How the command ends.

use std::{io, process::ExitCode};

use ghostlight::config::ConfigError;
use ghostlight_actors::{
    actor::SystemError, contract::StoreError, definition::DefinitionError, vocabulary::FileError,
};

/// The exit codes of the command. `docs/command.md` and `--help` list the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// The run answered, or the command did what was asked.
    Done = 0,
    /// The run failed or is parked.
    Failed = 1,
    /// Wrong usage, or a fault in the team file.
    Usage = 2,
    /// The run stopped before its end.
    Stopped = 3,
    /// The run waits for an answer.
    Waits = 4,
    /// The store failed.
    Store = 5,
    /// Another process carries the run.
    Owned = 6,
    /// A person or the system stopped the process.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why the command cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The arguments make no sense here.
    #[error("{0}")]
    Usage(String),
    /// The team file is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Another process carries the run, and only there can the command do what was asked.
    #[error("{0}")]
    Elsewhere(String),
    /// The System refuses or fails.
    #[error(transparent)]
    System(#[from] SystemError),
    /// Reading stdin or writing stdout failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::System(error.into())
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<DefinitionError> for Failure {
    fn from(error: DefinitionError) -> Self {
        Self::System(error.into())
    }
}

impl Failure {
    /// The exit code for this failure.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) | Self::Config(_) => Exit::Usage,
            Self::Io(_) => Exit::Failed,
            Self::Elsewhere(_) => Exit::Owned,
            Self::System(error) => match error {
                SystemError::Store(error) if error.is_elsewhere() => Exit::Owned,
                SystemError::Store(StoreError::Deleted { .. }) => Exit::Usage,
                SystemError::Store(_) | SystemError::Pinned { .. } => Exit::Store,
                SystemError::Definition(_)
                | SystemError::UnknownTeam { .. }
                | SystemError::UnknownRun(_)
                | SystemError::Answer { .. }
                | SystemError::Fork(_)
                | SystemError::SessionExists { .. }
                | SystemError::UnknownSession { .. }
                | SystemError::NoSuchTurn { .. }
                | SystemError::OtherTurn { .. }
                | SystemError::Document(_)
                | SystemError::Foreign { .. } => Exit::Usage,
                _ => Exit::Failed,
            },
        }
    }

    /// Whether the failure needs no report: the reader of the pipe has gone.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
