//! A System over one file, opened in one call.

use std::path::Path;

use ghostlight_actors::actor::{System, SystemBuilder};

use crate::{Error, stores::SqliteStore};

/// Methods that this package adds to [`System`]; the prelude exports it.
pub trait SystemExt: Sized {
    /// A System over the store in this file, with every built-in behavior, tool and provider
    /// ([`builtin`](crate::builtin)). The file is made if it does not exist. [`System::builder`],
    /// which takes any store, knows only what it is given: `.registry(ghostlight::builtin())`.
    ///
    /// It blocks while it checks the file, which takes milliseconds, and must be called inside a
    /// tokio runtime.
    ///
    /// # Errors
    /// The errors of [`SqliteStore::open`].
    fn open(path: impl AsRef<Path>) -> Result<SystemBuilder, Error>;
}

impl SystemExt for System {
    fn open(path: impl AsRef<Path>) -> Result<SystemBuilder, Error> {
        let store = SqliteStore::open(path)?;
        Ok(System::builder(store).registry(crate::builtin()))
    }
}
