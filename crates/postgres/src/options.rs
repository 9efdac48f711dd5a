//! The options of a store.

use std::{collections::BTreeMap, fmt, time::Duration};

use ghostlight_actors::vocabulary::seconds;
use serde::{Deserialize, Serialize};

use crate::libpq;

/// The options for opening a store.
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Options {
    /// The schema of the tables, created if it does not exist. Small letters, digits and underscores.
    pub schema: String,
    /// How many reads may run at once, each with a connection of its own; at least 1.
    pub readers: usize,
    /// How long a frozen or disconnected process keeps its journals; 300 milliseconds at the least. A dead one keeps none.
    #[serde(rename = "lease_s", with = "seconds")]
    pub lease: Duration,
    /// How long a read waits for an unreachable database before it fails. Commits wait until the store is closed.
    #[serde(rename = "patience_s", with = "seconds")]
    pub patience: Duration,
    /// Whether opening a store makes its tables and migrates those of an earlier program. Without it such a store is
    /// refused as [`StoreError::TooOld`](ghostlight_actors::contract::StoreError::TooOld), and [`PostgresStore::migrate`](crate::PostgresStore::migrate) is called beforehand.
    pub migrate: bool,
    /// The password, if neither the address nor its service contains one.
    #[serde(skip)]
    pub password: Option<String>,
    /// Variables of the environment that add to the address, as for libpq: see [`variables`](method@Self::variables).
    #[serde(skip)]
    pub variables: BTreeMap<String, String>,
}

impl Options {
    /// Sets the schema of the tables.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Sets the password.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// These options with the variables that libpq's programs read (`PGSERVICE`, `PGPASSWORD`, `PGSSLROOTCERT`, …, and
    /// `HOME` for the files below it), such as `|name| std::env::var(name).ok()`. Without them an address stands alone.
    #[must_use]
    pub fn variables(mut self, read: impl Fn(&str) -> Option<String>) -> Self {
        let read = |name: &str| Some((name.to_owned(), read(name)?));
        self.variables.extend(libpq::variables().filter_map(read));
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            schema: "ghostlight".to_owned(),
            readers: 8,
            lease: Duration::from_secs(5),
            patience: Duration::from_secs(30),
            migrate: true,
            password: None,
            variables: BTreeMap::new(),
        }
    }
}

ghostlight_actors::setters!(Options {
    readers: usize,
    lease: Duration,
    patience: Duration,
    migrate: bool,
});

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("schema", &self.schema)
            .field("readers", &self.readers)
            .field("lease", &self.lease)
            .field("patience", &self.patience)
            .field("migrate", &self.migrate)
            .finish_non_exhaustive()
    }
}
