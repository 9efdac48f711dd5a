//! Failures below the store contract, and the errors that callers get for them.

use ghostlight_actors::{contract::StoreError, vocabulary::FORMAT};
use rusqlite::ErrorCode;

/// A failure that does not name its place yet.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite failed.
    Sql(rusqlite::Error),
    /// The operating system failed.
    Os(std::io::Error),
    /// The stored data contradict themselves.
    Damaged(String),
    /// The stored data are intact, but a later version of the program wrote them.
    Newer(String),
}

impl Fault {
    pub(super) fn damaged(reason: impl Into<String>) -> Self {
        Self::Damaged(reason.into())
    }

    /// The error for callers, with its place.
    pub(super) fn at(self, place: &str) -> StoreError {
        let place = place.to_owned();
        let is_damage = self.is_damage();
        let reason = match self {
            Self::Newer(reason) => {
                return StoreError::Newer {
                    place,
                    format: None,
                    known: FORMAT,
                    reason,
                };
            }
            Self::Damaged(reason) => reason,
            Self::Sql(error) => error.to_string(),
            Self::Os(error) => error.to_string(),
        };
        if is_damage {
            StoreError::Damaged { place, reason }
        } else {
            StoreError::Io { place, reason }
        }
    }

    /// Whether the stored data are damaged.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Damaged(_) => true,
            Self::Sql(error) => means_damage(error),
            Self::Os(_) | Self::Newer(_) => false,
        }
    }

    /// Whether SQLite would have to write in order to continue.
    pub(super) fn needs_to_write(&self) -> bool {
        matches!(
            self,
            Self::Sql(rusqlite::Error::SqliteFailure(error, _))
                if matches!(error.code, ErrorCode::CannotOpen | ErrorCode::ReadOnly)
        )
    }

    /// Whether another process held the file too long, so that nothing was done.
    pub(super) fn is_busy(&self) -> bool {
        matches!(
            self,
            Self::Sql(rusqlite::Error::SqliteFailure(error, _))
                if matches!(error.code, ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        )
    }
}

/// Whether SQLite reports damage, or a value has a type that is never written.
fn means_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::*;
    match error {
        SqliteFailure(failure, _) => matches!(
            failure.code,
            // Everything is checked before it is written, so a violated constraint means that
            // an index and its table disagree.
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation
        ),
        FromSqlConversionFailure(..)
        | IntegralValueOutOfRange(..)
        | InvalidColumnType(..)
        | Utf8Error(..)
        | QueryReturnedNoRows => true,
        _ => false,
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<rusqlite::types::FromSqlError> for Fault {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// An error of the operating system.
pub(super) fn io(place: &str, act: &str, error: &std::io::Error) -> StoreError {
    StoreError::Io {
        place: place.to_owned(),
        reason: format!("{act}: {error}"),
    }
}
