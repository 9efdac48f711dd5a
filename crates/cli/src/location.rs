//! The location of a store: a file or a database.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use ghostlight::files;
use ghostlight_actors::contract::{StoreError, StoreHandle};

/// The prefixes of a database's address.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// The location that a store's name means.
#[derive(Clone, Debug)]
pub(super) enum Location {
    /// A SQLite file.
    File(PathBuf),
    /// The address of a PostgreSQL database.
    Postgres(String),
}

impl Location {
    /// The location of this name: a path is a file, unless it begins as an address does.
    pub(super) fn of(name: &Path) -> Self {
        let address = name
            .to_str()
            .filter(|name| SCHEMES.iter().any(|scheme| name.starts_with(scheme)));
        match address {
            Some(address) => Self::Postgres(address.to_owned()),
            None => Self::File(name.to_owned()),
        }
    }

    /// Whether a store was made there. For a database only opening it can tell.
    pub(super) fn is_there(&self) -> Result<bool, StoreError> {
        match self {
            Self::File(path) => is_file_there(path),
            Self::Postgres(_) => Ok(true),
        }
    }

    /// Makes the folder of the file, for its user alone.
    pub(super) fn make_folder(&self) -> Result<(), StoreError> {
        match self {
            Self::File(path) => match path.parent() {
                Some(folder) => {
                    files::make_private_folder(folder).map_err(|error| unusable(folder, &error))
                }
                None => Ok(()),
            },
            Self::Postgres(_) => Ok(()),
        }
    }

    /// Opens the store for writing, and makes it if there is none.
    pub(super) async fn open(&self) -> Result<StoreHandle, StoreError> {
        match self {
            Self::File(path) => open_file(path),
            Self::Postgres(address) => open_database(address).await,
        }
    }

    /// Opens the store for reading. A file that lost commits is refused. A database lists this process
    /// among its nodes, and no journal is claimed.
    pub(super) async fn open_to_read(&self) -> Result<StoreHandle, StoreError> {
        match self {
            Self::File(path) => open_file_to_read(path),
            Self::Postgres(address) => open_database_to_read(address).await,
        }
    }

    /// Reads everything in the store, and says how much that is.
    pub(super) async fn verify(&self) -> Result<String, StoreError> {
        match self {
            Self::File(path) => verify_file(path).await,
            Self::Postgres(address) => verify_database(address).await,
        }
    }
}

impl fmt::Display for Location {
    /// An address is shown without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Postgres(address) => f.write_str(&without_password(address)),
        }
    }
}

/// An address without what may hold a password: the part after the user's name, and the parameters.
fn without_password(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("postgres", ""));
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    match rest.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{host}")
        }
        None => format!("{scheme}://{rest}"),
    }
}

fn unusable(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io {
        place: path.display().to_string(),
        reason: error.to_string(),
    }
}

fn open_file(path: &Path) -> Result<StoreHandle, StoreError> {
    ghostlight::stores::SqliteStore::open(path).map(StoreHandle::new)
}

fn is_file_there(path: &Path) -> Result<bool, StoreError> {
    ghostlight::stores::SqliteStore::exists(path)
}

/// The store in a file, complete as far as its anchor knows.
fn whole_file(path: &Path) -> Result<ghostlight::stores::SqliteStore, StoreError> {
    let store = ghostlight::stores::SqliteStore::open_read_only(path)?;
    store.whole()?;
    Ok(store)
}

fn open_file_to_read(path: &Path) -> Result<StoreHandle, StoreError> {
    whole_file(path).map(StoreHandle::new)
}

async fn verify_file(path: &Path) -> Result<String, StoreError> {
    let found = whole_file(path)?.verify().await?;
    Ok(format!(
        "{} commits with {} entries, all sound",
        found.commits, found.entries
    ))
}

#[cfg(feature = "full")]
fn database_options() -> ghostlight::stores::postgres::Options {
    // As in libpq's programs, so that no password has to stand in an argument, which others can
    // read.
    let migrates = ghostlight::environment::variable("GHOSTLIGHT_MIGRATE");
    ghostlight::stores::postgres::Options::default()
        .variables(ghostlight::environment::variable)
        .migrate(migrates.as_deref() != Some("never"))
}

/// A database that is only looked at, so its tables stay as they are.
#[cfg(feature = "full")]
async fn database_to_read(address: &str) -> Result<ghostlight::stores::PostgresStore, StoreError> {
    let options = database_options().migrate(false);
    ghostlight::stores::PostgresStore::open_with(address, &options).await
}

#[cfg(feature = "full")]
async fn open_database(address: &str) -> Result<StoreHandle, StoreError> {
    let options = database_options();
    let opened = ghostlight::stores::PostgresStore::open_with(address, &options).await;
    opened.map(StoreHandle::new)
}

#[cfg(feature = "full")]
async fn open_database_to_read(address: &str) -> Result<StoreHandle, StoreError> {
    database_to_read(address).await.map(StoreHandle::new)
}

#[cfg(feature = "full")]
async fn verify_database(address: &str) -> Result<String, StoreError> {
    let store = database_to_read(address).await?;
    let found = store.verify().await?;
    Ok(format!(
        "{} journals with {} entries, all sound",
        found.journals, found.entries
    ))
}

#[cfg(not(feature = "full"))]
async fn open_database(address: &str) -> Result<StoreHandle, StoreError> {
    Err(StoreError::Io {
        place: without_password(address),
        reason: "this program was built without the feature `full`, which brings PostgreSQL"
            .to_owned(),
    })
}

#[cfg(not(feature = "full"))]
async fn open_database_to_read(address: &str) -> Result<StoreHandle, StoreError> {
    open_database(address).await
}

#[cfg(not(feature = "full"))]
async fn verify_database(address: &str) -> Result<String, StoreError> {
    open_database(address).await.map(|_| String::new())
}

/// Migrations of a store, each in words, and the store's version afterwards.
pub(super) struct Migrations {
    pub(super) steps: Vec<String>,
    pub(super) version: u32,
}

/// Applies the pending migrations of a database, or only lists them. `None` for a file.
#[cfg(feature = "full")]
pub(super) async fn migrate(
    location: &Location,
    only_list: bool,
) -> Result<Option<Migrations>, StoreError> {
    use ghostlight::stores::PostgresStore;

    let Location::Postgres(address) = location else {
        return Ok(None);
    };
    let options = database_options();
    let before = match only_list {
        true => PostgresStore::schema_version(address, &options).await?,
        false => PostgresStore::migrate(address, &options).await?,
    };
    let steps = before.pending().into_iter();
    let steps = steps.map(|(number, about)| format!("{number}  {about}"));
    let version = match only_list {
        true => before.found,
        false => before.known,
    };
    let steps = steps.collect();
    Ok(Some(Migrations { steps, version }))
}

#[cfg(not(feature = "full"))]
pub(super) async fn migrate(
    location: &Location,
    _only_list: bool,
) -> Result<Option<Migrations>, StoreError> {
    match location {
        Location::File(_) => Ok(None),
        Location::Postgres(address) => open_database(address).await.map(|_| None),
    }
}

/// A process that has a store open, and how far it is behind; or the work that no process carries.
#[derive(Debug, serde::Serialize)]
pub(super) struct NodeRow {
    /// `None` for the work that no process carries.
    pub(super) node: Option<String>,
    pub(super) lives: bool,
    /// How long ago it renewed its lease.
    pub(super) renewed_ms: Option<u64>,
    pub(super) open_runs: Option<u64>,
    pub(super) late_runs: u64,
    pub(super) unread: u64,
    /// How long the oldest of what is late or unread has waited.
    pub(super) oldest_ms: Option<u64>,
    pub(super) carries: Vec<ghostlight_actors::contract::CarriedTeam>,
}

/// The processes that have the store at this address open, and the work of nobody if there is any.
#[cfg(feature = "full")]
pub(super) async fn nodes(location: &Location) -> Result<Option<Vec<NodeRow>>, StoreError> {
    use ghostlight::stores::postgres::{Lag, NodeStatus};

    let Location::Postgres(address) = location else {
        return Ok(None);
    };
    let store = match database_to_read(address).await {
        // A database without tables.
        Err(StoreError::TooOld { found: 0, .. }) => return Ok(Some(Vec::new())),
        opened => opened?,
    };
    let (nodes, unclaimed) = (store.nodes().await, store.unclaimed().await);
    // This process leaves the list.
    ghostlight_actors::contract::Store::close(&store).await?;
    let (nodes, unclaimed) = (nodes?, unclaimed?);
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let row = |lag: Lag| NodeRow {
        node: None,
        lives: false,
        renewed_ms: None,
        open_runs: None,
        late_runs: lag.late_runs,
        unread: lag.unread,
        oldest_ms: lag.oldest.map(millis),
        carries: Vec::new(),
    };
    let nodes = nodes.into_iter();
    let nodes = nodes.filter(|node| !node.is_this && (node.lives || node.open_runs > 0));
    let of_node = |node: NodeStatus| NodeRow {
        node: Some(node.id),
        lives: node.lives,
        renewed_ms: node.renewed.map(millis),
        open_runs: Some(node.open_runs),
        carries: node.carries,
        ..row(node.lag)
    };
    let mut rows: Vec<NodeRow> = nodes.map(of_node).collect();
    if unclaimed != Lag::default() {
        rows.push(row(unclaimed));
    }
    Ok(Some(rows))
}

#[cfg(not(feature = "full"))]
pub(super) async fn nodes(location: &Location) -> Result<Option<Vec<NodeRow>>, StoreError> {
    match location {
        Location::File(_) => Ok(None),
        Location::Postgres(address) => open_database(address).await.map(|_| None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_from_a_file_and_shown_without_its_password() {
        let shown = |name: &str| Location::of(Path::new(name)).to_string();
        assert!(matches!(
            Location::of(Path::new("postgres.db")),
            Location::File(_)
        ));
        assert_eq!(shown("./a.db"), "./a.db");
        for (address, wanted) in [
            ("postgres://host/db", "postgres://host/db"),
            ("postgres://me@host:5/db", "postgres://me@host:5/db"),
            ("postgresql://me:s3@cret@host/db", "postgresql://me@host/db"),
            ("postgres://host/db?password=s3cret", "postgres://host/db"),
        ] {
            assert_eq!(shown(address), wanted);
        }
    }
}
