//! The sources of documents: a folder, the rows of a database, or an own implementation.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, types::ValueRef};

use super::{IndexError, SyncOptions, walk};
use crate::readers::{Metadata, ReaderError};

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

    /// Reads an entry that does not contain its bytes, at most [`SyncOptions::max_file_bytes`] of them. `tag` is the tag with
    /// which the document that the index holds was read.
    ///
    /// # Errors
    /// [`ReaderError::Failed`] if they cannot be read: the next sync tries again. What the index held of it is removed.
    fn read(
        &self,
        entry: &SourceEntry,
        tag: Option<&str>,
        options: &SyncOptions,
    ) -> impl Future<Output = Result<Reading, ReaderError>> + Send;
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

/// The result of reading a [`SourceEntry`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Its bytes.
    Content {
        /// The bytes.
        bytes: Vec<u8>,
        /// The name whose ending chooses the reader, if it is known only now; otherwise [`SourceEntry::read_as`] counts.
        read_as: Option<String>,
        /// The mark by which the source recognises this version, such as an `ETag`: given to the next [`Source::read`].
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
    ) -> Result<Reading, ReaderError> {
        let (folder, name, limit) = (self.0.clone(), entry.name.clone(), options.max_file_bytes);
        let read = blocking(move || walk::read(&folder.join(name), &folder, limit)).await;
        let failed = |error: String| ReaderError::Failed(error);
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
    ) -> Result<Reading, ReaderError> {
        // The text of a row that is too large was not kept.
        Err(ReaderError::Failed(String::from(
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
        if !statement.readonly() {
            return Err(refused(wrong_query()));
        }
        let columns = statement.column_names().map(str::to_owned);
        let mut read = RowEntries::new(source, columns, options).map_err(refused)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let value = |place: usize| match row.get_ref(place)? {
                ValueRef::Null => Ok(RowValue::Null),
                ValueRef::Integer(number) => Ok(RowValue::Number(number.to_string())),
                ValueRef::Real(number) => Ok(RowValue::Number(number.to_string())),
                ValueRef::Text(text) => Ok(RowValue::Text(text)),
                ValueRef::Blob(_) => Ok(RowValue::Bytes),
            };
            let values: rusqlite::Result<Vec<RowValue<'_>>> =
                (0..read.columns.len()).map(value).collect();
            read.add(&values.map_err(failed)?).map_err(refused)?;
        }
        Ok(read.entries())
    }
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum RowValue<'r> {
    /// None.
    Null,
    /// A number, in digits.
    Number(String),
    /// A text, of UTF-8 or nearly.
    Text(&'r [u8]),
    /// Anything else, which can be neither a document nor a property.
    Bytes,
}

/// The rows of a query as entries of a [`Source`]: the first column is the name of a document, the second its text, and
/// further columns are its properties.
#[derive(Debug)]
pub struct RowEntries {
    source: String,
    columns: Vec<String>,
    options: SyncOptions,
    entries: Vec<SourceEntry>,
    names: BTreeSet<String>,
    bytes: usize,
}

impl RowEntries {
    /// No rows yet of a query with these columns, within the bounds of these options.
    ///
    /// # Errors
    /// There are fewer than two columns, or more than 34.
    pub fn new(
        source: impl Into<String>,
        columns: impl IntoIterator<Item = String>,
        options: &SyncOptions,
    ) -> Result<Self, String> {
        let columns: Vec<String> = columns
            .into_iter()
            .map(|name| name.to_lowercase())
            .collect();
        if !(2..=MAX_COLUMNS).contains(&columns.len()) {
            return Err(wrong_query());
        }
        Ok(Self {
            source: source.into(),
            columns,
            options: options.clone(),
            entries: Vec::new(),
            names: BTreeSet::new(),
            bytes: 0,
        })
    }

    /// Adds a row. One without a text is left out.
    ///
    /// # Errors
    /// The fault of the row, or the bound that all of them exceed.
    pub fn add(&mut self, values: &[RowValue<'_>]) -> Result<(), String> {
        let [name, text, properties @ ..] = values else {
            return Err(wrong_query());
        };
        let name = match name {
            RowValue::Number(number) if !number.contains('.') => number.clone(),
            RowValue::Text(text) if !text.is_empty() && text.len() <= MAX_KEY_BYTES => {
                String::from_utf8_lossy(text).into_owned()
            }
            _ => {
                return Err(format!(
                    "a name is neither a whole number nor a text of at most {MAX_KEY_BYTES} bytes"
                ));
            }
        };
        let text = match text {
            RowValue::Text(text) => *text,
            RowValue::Null => return Ok(()),
            _ => return Err(format!("the text of {name:?} is not text")),
        };
        if !self.options.filter.admits(&self.source, &name) {
            return Ok(());
        }
        if self.entries.len() == self.options.max_files {
            return Err(format!(
                "the query gives more than {} rows; narrow it or raise the bound",
                self.options.max_files
            ));
        }
        if !self.names.insert(name.clone()) {
            return Err(format!("the name {name:?} stands in two rows"));
        }
        let fits = text.len() as u64 <= self.options.max_file_bytes;
        self.bytes += if fits { text.len() } else { 0 };
        if self.bytes > MAX_ROWS_BYTES {
            return Err(format!(
                "its texts have more than {MAX_ROWS_BYTES} bytes in all; index it with several queries"
            ));
        }
        let mut metadata = Metadata::new();
        for (column, value) in self.columns.iter().skip(2).zip(properties) {
            let value = match value {
                RowValue::Null => continue,
                RowValue::Number(number) => number.clone(),
                RowValue::Text(text) if text.len() <= MAX_KEY_BYTES => {
                    String::from_utf8_lossy(text).into_owned()
                }
                _ => {
                    return Err(format!(
                        "the column {column:?} of {name:?} is neither a number nor a text of at most {MAX_KEY_BYTES} bytes"
                    ));
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
        self.entries.push(SourceEntry {
            name,
            read_as: String::from("row.md"),
            bytes: text.len() as u64,
            version: Some(i64::from_le_bytes(*version)),
            held: fits.then(|| text.to_vec()),
            metadata,
        });
        Ok(())
    }

    /// All rows, by their names.
    pub fn entries(mut self) -> Vec<SourceEntry> {
        self.entries.sort_by(|a, b| a.name.cmp(&b.name));
        self.entries
    }
}

fn wrong_query() -> String {
    format!(
        "the query must be a SELECT of two columns, the name of a document and its text, and of at most {} more, which are \
         its properties",
        MAX_COLUMNS - 2
    )
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
