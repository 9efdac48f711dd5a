//! Whether a path still leads to the file that was opened.

use std::{fs, io, path::Path};

use ghostlight_actors::contract::StoreError;

/// A file as the operating system identifies it, independent of its name. On systems without such
/// an identity, only a missing file is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(#[cfg(unix)] (u64, u64));

impl Identity {
    /// The file to which a path leads.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            Ok(Self((found.dev(), found.ino())))
        }
        #[cfg(not(unix))]
        {
            let _ = found;
            Ok(Self())
        }
    }

    /// Refuses a path that leads to another file or to none. SQLite continues to write to a file
    /// that was removed, and those writes are lost when the process ends.
    pub(super) fn check(self, path: &Path) -> Result<(), StoreError> {
        let reason = match Self::of(path) {
            Ok(found) if found == self => return Ok(()),
            Ok(_) => "another file stands in its place".to_owned(),
            Err(error) => error.to_string(),
        };
        let place = path.display().to_string();
        Err(StoreError::Gone { place, reason })
    }
}
