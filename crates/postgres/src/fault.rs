//! Internal failures, and the errors that callers get for them.

use std::error::Error as _;

use ghostlight_actors::{contract::StoreError, vocabulary::FORMAT};
use tokio_postgres::error::{Error, SqlState};

/// A failure, before the name of the store is added.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The database cannot be reached or is out of service for now.
    Away(String),
    /// The database refused a statement.
    Refused(String),
    /// The data contradicts itself.
    Damaged(String),
    /// The data is valid and was written by a later program.
    Newer(String),
    /// An error that callers get unchanged.
    Told(StoreError),
}

impl Fault {
    /// The error for callers.
    pub(crate) fn at(self, place: &str) -> StoreError {
        let place = place.to_owned();
        match self {
            Self::Told(error) => error,
            Self::Damaged(reason) => StoreError::Damaged { place, reason },
            Self::Newer(reason) => StoreError::Newer {
                place,
                format: None,
                known: FORMAT,
                reason,
            },
            Self::Away(reason) | Self::Refused(reason) => StoreError::Io { place, reason },
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let text = in_words(&error);
        match error.code() {
            Some(code) if !is_passing(code) => Self::Refused(text),
            // The program cannot read a value; the database reported no error.
            None if is_about_a_value(&error) => Self::Damaged(text),
            None if is_unsendable(&error) => Self::Refused(text),
            _ => Self::Away(text),
        }
    }
}

/// Whether a later attempt may succeed: the connection broke, another node was in the way, or the
/// server is starting, stopping, full, or a read-only replica.
fn is_passing(code: &SqlState) -> bool {
    let class = code.code().get(..2).unwrap_or_default();
    matches!(class, "08" | "40" | "53" | "57")
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        || *code == SqlState::LOCK_NOT_AVAILABLE
        || *code == SqlState::IO_ERROR
}

fn is_about_a_value(error: &Error) -> bool {
    let text = error.to_string();
    text.starts_with("error deserializing column") || text.starts_with("invalid column")
}

fn is_unsendable(error: &Error) -> bool {
    let text = error.to_string();
    text.starts_with("error serializing parameter") || text.starts_with("error encoding message")
}

/// An error with its causes: on its own it only says "db error".
pub(crate) fn in_words(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    for (told, remedy) in REMEDIES {
        if text.contains(told) {
            text.push_str("; ");
            text.push_str(remedy);
            break;
        }
    }
    text
}

/// Words in the errors of connections that do not come about, each with its remedy.
const REMEDIES: [(&str, &str); 5] = [
    (
        "UnknownIssuer",
        "name the file of the authority that issued the server's certificate with sslrootcert=FILE",
    ),
    (
        "certificate not valid for name",
        "name the host as its certificate does, or check the authority alone with sslmode=verify-ca",
    ),
    (
        "valid client certificate",
        "name the files of a certificate and its key with sslcert=FILE and sslkey=FILE",
    ),
    (
        "password missing",
        "set PGPASSWORD, or write the password into ~/.pgpass",
    ),
    (
        "server does not support TLS",
        "switch TLS on there, or write sslmode=disable where nobody else is on the way to it",
    ),
];
