//! The sources of documents: a folder, the rows of a database, or an own implementation.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, types::ValueRef};

use super::{IndexError, SyncOptions, walk};
use crate::readers::{Metadata, ReadError};

/// The most bytes of all texts of one database query: 256 MiB.
const MAX_ROWS_BYTES: usize = 256 << 20;
/// The most columns of a query.
const MAX_COLUMNS: usize = 34;
/// The most bytes of a row's key, and of a property.
const MAX_KEY_BYTES: usize = 1_024;
/// How long to wait for a database that another program writes.
const PATIENCE: Duration = Duration::from_secs(10);

/// A source of documents. [`Index::sync_from`](super::Index::sync_from) lists all of its entries, and reads those that
/// are new or changed.
pub trait Source: Send + Sync + 'static {
    /// Its name in the index, which must be the same each time: documents under this name that are no longer among the
    /// entries are removed.
    fn name(&self) -> String;

    /// All entries, each name once.
    ///
    /// # Errors
    /// The entries cannot be listed. Then the index is left unchanged.
    fn entries(
        &self,
        options: &SyncOptions,
    ) -> impl Future<Output = Result<Vec<SourceEntry>, IndexError>> + Send;

    /// Reads an entry that does not contain its bytes, at most [`SyncOptions::file_bytes`] of them. `tag` is the tag with
    /// which the document that the index holds was read.
    ///
    /// # Errors
    /// [`ReadError::Failed`] if they cannot be read: the next sync tries again. What the index held of it is removed.
    fn read(
        &self,
        entry: &SourceEntry,
        tag: Option<&str>,
        options: &SyncOptions,
    ) -> impl Future<Output = Result<Reading, ReadError>> + Send;
}

/// A document of a [`Source`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceEntry {
    /// Its name in the source.
    pub name: String,
    /// The name whose ending chooses the reader, such as `page.html`.
    pub read_as: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// A number that differs when the document has changed, such as its time. A document with the same version and size
    /// as before is not read. `None` if only reading tells.
    pub version: Option<i64>,
    /// Its bytes, if the source has them already.
    pub held: Option<Vec<u8>>,
    /// Its properties, by which searches may be filtered, beside those that its reader finds.
    pub metadata: Metadata,
}

/// What became of reading a [`SourceEntry`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Its bytes.
    Content {
        /// The bytes.
        bytes: Vec<u8>,
        /// The name whose ending chooses the reader, if it is known only now; otherwise [`SourceEntry::read_as`] counts.
        read_as: Option<String>,
        /// What the source recognises this version by, such as an `ETag`: given to the next [`Source::read`].
        tag: Option<String>,
    },
    /// It is as it was when it had the given tag.
    Unchanged,
    /// It is gone for now or for good, with the reason: what the index held of it is removed, and it is asked for again
    /// at each sync.
    Gone(String),
    /// It cannot be reached now, with the reason. It is tried again after a pause, and at the next sync; what the index
    /// holds of it stays.
    Unavailable(String),
}

impl Reading {
    fn of(bytes: Vec<u8>) -> Self {
        Self::Content {
            bytes,
            read_as: None,
            tag: None,
        }
    }
}

/// The files of a folder. Links are not followed; files that are hidden or ignored by a `.gitignore` are skipped.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// This folder.
    ///
    /// # Errors
    /// There is no such folder.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, IndexError> {
        let path = path.into();
        let found = blocking(move || std::fs::canonicalize(&path).map_err(|error| (path, error)));
        found
            .await?
            .map(Self)
            .map_err(|(path, error)| IndexError::Folder {
                path,
                message: error.to_string(),
            })
    }
}

impl Source for Folder {
    fn name(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    async fn entries(&self, options: &SyncOptions) -> Result<Vec<SourceEntry>, IndexError> {
        let (folder, options) = (self.0.clone(), options.clone());
        blocking(move || walk::files(&folder, &options, |name| options.readers.reads(name))).await?
    }

    async fn read(
        &self,
        entry: &SourceEntry,
        _: Option<&str>,
        options: &SyncOptions,
    ) -> Result<Reading, ReadError> {
        let (folder, name, limit) = (self.0.clone(), entry.name.clone(), options.file_bytes);
        let read = blocking(move || walk::read(&folder.join(name), &folder, limit)).await;
        let failed = |error: String| ReadError::Failed(error);
        let read = read.map_err(|error| failed(error.to_string()))?;
        read.map(Reading::of)
            .map_err(|error| failed(error.to_string()))
    }
}

/// The rows of a SQLite query: the first column is the name of a document, the second its text, which may be Markdown.
/// Further columns are properties of the document under their names, by which searches may be filtered.
///
/// The file is opened read-only, and the query must only read. A row counts as changed if its text has changed.
///
/// ```no_run
/// use ghostlight_retrieval::index::{Index, Rows, SyncOptions};
///
/// # async fn notes(index: Index) -> Result<(), Box<dyn std::error::Error>> {
/// let notes = Rows::new("notes.db", "SELECT slug, '# ' || title || char(10) || body FROM notes");
/// index.sync_from(&notes, &SyncOptions::default(), |_| {}).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    file: PathBuf,
    select: String,
}

impl Rows {
    /// The rows of this query on this file.
    pub fn new(file: impl Into<PathBuf>, select: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            select: select.into(),
        }
    }
}

impl Source for Rows {
    fn name(&self) -> String {
        let file = std::fs::canonicalize(&self.file).unwrap_or_else(|_| self.file.clone());
        format!("{}: {}", file.display(), self.select.trim())
    }

    async fn entries(&self, options: &SyncOptions) -> Result<Vec<SourceEntry>, IndexError> {
        let (rows, options, name) = (self.clone(), options.clone(), self.name());
        blocking(move || rows.read_all(&name, &options)).await?
    }

    async fn read(
        &self,
        _: &SourceEntry,
        _: Option<&str>,
        _: &SyncOptions,
    ) -> Result<Reading, ReadError> {
        // The text of a row that is too large was not kept.
        Err(ReadError::Failed(String::from(
            "the row's text was not read",
        )))
    }
}

impl Rows {
    fn read_all(
        &self,
        source: &str,
        options: &SyncOptions,
    ) -> Result<Vec<SourceEntry>, IndexError> {
        let refused = |message: String| IndexError::Rows {
            file: self.file.clone(),
            message,
        };
        let failed = |error: rusqlite::Error| refused(error.to_string());
        let connection = read_only(&self.file).map_err(failed)?;
        let mut statement = connection.prepare(&self.select).map_err(failed)?;
        if !statement.readonly() || !(2..=MAX_COLUMNS).contains(&statement.column_count()) {
            return Err(refused(format!(
                "the query must be a SELECT of two columns, the name of a document and its text, and of at most {} more, \
                 which are its properties",
                MAX_COLUMNS - 2
            )));
        }
        let columns: Vec<String> = statement.column_names().map(str::to_lowercase).collect();
        let (mut entries, mut names, mut total) = (Vec::new(), BTreeSet::new(), 0);
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let name = match row.get_ref(0).map_err(failed)? {
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Text(text) if !text.is_empty() && text.len() <= MAX_KEY_BYTES => {
                    String::from_utf8_lossy(text).into_owned()
                }
                _ => {
                    return Err(refused(format!(
                        "a name is neither a whole number nor a text of at most {MAX_KEY_BYTES} bytes"
                    )));
                }
            };
            let text = match row.get_ref(1).map_err(failed)? {
                ValueRef::Text(text) => text,
                // A row without a text is no document.
                ValueRef::Null => continue,
                _ => return Err(refused(format!("the text of {name:?} is no text"))),
            };
            if !options.filter.admits(source, &name) {
                continue;
            }
            if entries.len() == options.files {
                return Err(refused(format!(
                    "the query gives more than {} rows; narrow it or raise the bound",
                    options.files
                )));
            }
            if !names.insert(name.clone()) {
                return Err(refused(format!("the name {name:?} stands in two rows")));
            }
            let fits = text.len() as u64 <= options.file_bytes;
            total += if fits { text.len() } else { 0 };
            if total > MAX_ROWS_BYTES {
                return Err(refused(format!(
                    "its texts have more than {MAX_ROWS_BYTES} bytes in all; index it with several queries"
                )));
            }
            let mut metadata = Metadata::new();
            for (place, column) in columns.iter().enumerate().skip(2) {
                let value = match row.get_ref(place).map_err(failed)? {
                    ValueRef::Null => continue,
                    ValueRef::Integer(number) => number.to_string(),
                    ValueRef::Real(number) => number.to_string(),
                    ValueRef::Text(text) if text.len() <= MAX_KEY_BYTES => {
                        String::from_utf8_lossy(text).into_owned()
                    }
                    _ => {
                        return Err(refused(format!(
                            "the column {column:?} of {name:?} is neither a number nor a text of at most \
                             {MAX_KEY_BYTES} bytes"
                        )));
                    }
                };
                metadata.insert(column.clone(), vec![value]);
            }
            let mut digest = blake3::Hasher::new();
            digest.update(text);
            if !metadata.is_empty() {
                digest.update(&serde_json::to_vec(&metadata).unwrap_or_default());
            }
            let digest = digest.finalize();
            let (version, _) = digest
                .as_bytes()
                .split_first_chunk()
                .unwrap_or((&[0; 8], &[]));
            entries.push(SourceEntry {
                name,
                read_as: String::from("row.md"),
                bytes: text.len() as u64,
                version: Some(i64::from_le_bytes(*version)),
                held: fits.then(|| text.to_vec()),
                metadata,
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
}

fn read_only(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, IndexError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| IndexError::Closed)
}
