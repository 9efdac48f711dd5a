//! The store of the command's runs.

use std::path::PathBuf;

use ghostlight::files;
use ghostlight_actors::{
    contract::{RunFilter, RunRow, StoreError, StoreHandle, TreePages},
    testing::InMemoryStore,
    vocabulary::RunId,
};

use super::{arguments::StoreArguments, exit::Failure, location::Location, user_config};

/// An open store, and the option that names it on the command line.
#[derive(Debug)]
pub(super) struct Keeping {
    pub(super) store: StoreHandle,
    /// ` --store FILE`, if it was given so.
    pub(super) option: String,
    /// Whether runs outlive the process.
    pub(super) lasting: bool,
}

impl Keeping {
    /// A store that lives as long as the process.
    pub(super) fn memory() -> Self {
        Self {
            store: StoreHandle::new(InMemoryStore::new()),
            option: String::new(),
            lasting: false,
        }
    }

    /// Opens the store for writing, and makes it if there is none.
    pub(super) async fn open(arguments: &StoreArguments) -> Result<Self, Failure> {
        let location = location_of(arguments)?;
        if arguments.store.is_none() {
            location.make_folder()?;
        }
        Ok(Self {
            store: location.open().await?,
            option: option_of(arguments),
            lasting: true,
        })
    }

    /// Opens the store for reading; `None` when it was never made.
    pub(super) async fn open_to_read(arguments: &StoreArguments) -> Result<Option<Self>, Failure> {
        let location = location_of(arguments)?;
        if !location.is_there()? {
            return Ok(None);
        }
        let store = match location.open_to_read().await {
            // A database without tables.
            Err(StoreError::TooOld { found: 0, .. }) => return Ok(None),
            opened => opened?,
        };
        Ok(Some(Self {
            store,
            option: option_of(arguments),
            lasting: true,
        }))
    }

    /// Opens a store that must be there, for reading.
    pub(super) async fn open_what_is_there(arguments: &StoreArguments) -> Result<Self, Failure> {
        match Self::open_to_read(arguments).await? {
            Some(opened) => Ok(opened),
            None => Err(no_store(&location_of(arguments)?)),
        }
    }

    /// Opens the store for writing; `None` when it was never made, so that a mistyped name makes
    /// none.
    pub(super) async fn open_if_there(arguments: &StoreArguments) -> Result<Option<Self>, Failure> {
        match location_of(arguments)?.is_there() {
            Ok(false) => Ok(None),
            _ => Self::open(arguments).await.map(Some),
        }
    }

    /// Opens a store that must be there, for writing.
    pub(super) async fn open_to_change(arguments: &StoreArguments) -> Result<Self, Failure> {
        match Self::open_if_there(arguments).await? {
            Some(opened) => Ok(opened),
            None => Err(no_store(&location_of(arguments)?)),
        }
    }

    /// The position, in the order of commits, of a tree's last entry.
    pub(super) async fn last_position(&self, root: RunId) -> Result<u64, Failure> {
        let mut pages = TreePages::new(root, 0);
        while !pages.next(&self.store).await?.is_empty() {}
        Ok(pages.read_to())
    }

    /// The run with this id, or whose id begins with it.
    pub(super) async fn find(&self, prefix: &str) -> Result<RunRow, Failure> {
        if let Ok(run) = prefix.parse::<RunId>() {
            let row = self.store.run(run).await?;
            return match (row, self.store.deleted(run).await?) {
                (Some(row), _) => Ok(row),
                (None, Some(at)) => Err(StoreError::Deleted { run, at }.into()),
                (None, None) => Err(Failure::Usage(format!("there is no run {run}"))),
            };
        }
        let digits = prefix.replace('-', "").to_lowercase();
        let none = || {
            let store = self.store.description();
            Failure::Usage(format!(
                "no run begins with {prefix:?} in {store}; `ghostlight runs --all{}` lists them",
                self.option
            ))
        };
        if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err(none());
        }
        let mut filter = RunFilter::default();
        (filter.prefix, filter.limit) = (Some(digits), 10);
        let mut found = self.store.runs(filter).await?;
        match found.len() {
            0 => Err(none()),
            1 => Ok(found.remove(0)),
            _ => {
                let ids = found
                    .iter()
                    .map(|row| format!("\n  {} {}", row.run, row.agent));
                let ids: String = ids.collect();
                Err(Failure::Usage(format!(
                    "several runs begin with {prefix:?}; write more of the id:{ids}"
                )))
            }
        }
    }
}

/// The failure of a command whose store is not there.
pub(super) fn no_store(location: &Location) -> Failure {
    Failure::Usage(format!(
        "there is no store {location}; `ghostlight run` makes one, and `--store` names another"
    ))
}

/// The default path of the index of documents.
#[cfg(feature = "full")]
pub(super) fn index() -> Option<PathBuf> {
    Some(files::data_folder()?.join("documents.index"))
}

/// The file that remembers the lines typed in chats.
pub(super) fn history() -> Option<PathBuf> {
    let folder = files::data_folder()?;
    files::make_private_folder(&folder).ok()?;
    Some(folder.join("chat_history"))
}

fn option_of(arguments: &StoreArguments) -> String {
    match &arguments.store {
        Some(name) => format!(" --store {}", quoted(&Location::of(name).to_string())),
        None => String::new(),
    }
}

/// A word quoted for a shell, if it needs that.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/\\:._-+=,@%~".contains(c);
    if word.chars().all(plain) {
        return word.to_owned();
    }
    if cfg!(windows) {
        return format!("\"{word}\"");
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The store's location: from the option, the environment, or else the file in the user's data
/// directory.
pub(super) fn location_of(arguments: &StoreArguments) -> Result<Location, Failure> {
    let given = arguments
        .store
        .clone()
        .or_else(|| variable("GHOSTLIGHT_STORE"))
        .or_else(|| user_config::read_before().store.clone());
    let name = given
        .or_else(|| Some(files::data_folder()?.join("ghostlight.db")))
        .ok_or_else(|| {
            let message = "there is no data directory (HOME is not set): name a file with --store";
            Failure::Usage(message.to_owned())
        })?;
    let location = Location::of(&name);
    match &location {
        // Otherwise an address of another database would be a file in folders of strange names.
        Location::File(path) if path.to_string_lossy().contains("://") => {
            let message =
                format!("{location} is not a store: name a file, or postgres://USER@HOST/DATABASE");
            Err(Failure::Usage(message))
        }
        _ => Ok(location),
    }
}

pub(super) use ghostlight::files::variable_path as variable;
