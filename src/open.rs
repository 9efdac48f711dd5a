//! A System over one file, in one call.

use std::path::Path;

use ghostlight_actors::actor::{System, SystemBuilder};

use crate::{Error, stores::SqliteStore};

/// What this package adds to [`System`]; the prelude brings it along.
pub trait SystemExt: Sized {
    /// A System over the store in this file, which is made if there is none, with every behavior,
    /// tool and provider that is built in ([`builtin`](crate::builtin)). [`System::builder`], which takes any store,
    /// knows only what it is given: `.registry(ghostlight::builtin())`.
    ///
    /// It blocks while it looks at the file, which takes milliseconds, and must be called inside a
    /// tokio runtime.
    ///
    /// # Errors
    /// What [`SqliteStore::open`] fails with.
    fn open(path: impl AsRef<Path>) -> Result<SystemBuilder, Error>;
}

impl SystemExt for System {
    fn open(path: impl AsRef<Path>) -> Result<SystemBuilder, Error> {
        let store = SqliteStore::open(path)?;
        Ok(System::builder(store).registry(crate::builtin()))
    }
}
