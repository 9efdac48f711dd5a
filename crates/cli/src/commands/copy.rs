//! `ghostlight store copy`: copies a store into another one.

use std::io::{self, IsTerminal as _, Write as _};

use ghostlight_actors::contract::{Copied, CopyError, copy_store};

use super::{counted, note};
use crate::{
    exit::{Exit, Failure},
    location::Location,
    more_arguments::Copy,
};

/// Copies a store into an empty one, and verifies the copy.
pub(super) async fn copy(arguments: Copy) -> Result<Exit, Failure> {
    let (from, to) = (Location::of(&arguments.from), Location::of(&arguments.to));
    if !from.is_there()? {
        return Err(Failure::Usage(format!("there is no store {from}")));
    }
    let source = from.open_to_read().await?;
    let target = to.open().await?;
    let shows = io::stderr().is_terminal();
    let copied = copy_store(&source, &target, |copied| {
        if shows {
            // Each step overwrites this line.
            let _ = write!(io::stderr(), "\r{} entries", copied.entries);
        }
    });
    let copied = copied.await;
    if shows {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    source.close().await?;
    target.close().await?;
    let Copied {
        runs,
        sessions,
        entries,
        ..
    } = copied?;
    let sound = to.verify().await?;
    note(&format!(
        "copied {}, {} and {entries} entries from {from} to {to} ({sound}); continue with the copy only: \
         {from} is as it was, and what continues in both may be done twice",
        counted(runs, "run"),
        counted(sessions, "session"),
    ));
    Ok(Exit::Done)
}

impl From<CopyError> for Failure {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Store(error) => error.into(),
            CopyError::InUse { .. } => Self::Elsewhere(error.to_string()),
            other => Self::Usage(other.to_string()),
        }
    }
}
