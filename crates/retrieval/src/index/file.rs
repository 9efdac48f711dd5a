//! The file of an index.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ghostlight_actors::contract::EmbeddingSpace;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use super::{
    Filter, Found, IndexError, IndexStatistics,
    columns::{
        bytes, chunk, delete, document_row, failed_at, make_private, numbers, read_metadata,
    },
    loaded::RankedChunk,
};
use crate::{chunking::Chunk, readers::Metadata};

/// The application id of an index file: the letters `GLix`.
const APPLICATION: i32 = i32::from_be_bytes(*b"GLix");
/// The version of the file format. An index of another version is emptied.
const VERSION: i32 = 3;

/// How long to wait for another process that writes.
const PATIENCE: Duration = Duration::from_secs(30);

const TABLES: &str = "
    CREATE TABLE space (name TEXT NOT NULL, dimension INTEGER NOT NULL, kind TEXT NOT NULL);
    CREATE TABLE documents (
        id INTEGER PRIMARY KEY,
        folder TEXT NOT NULL,
        name TEXT NOT NULL,
        title TEXT,
        bytes INTEGER NOT NULL,
        modified INTEGER NOT NULL,
        digest BLOB NOT NULL,
        tag TEXT,
        metadata TEXT NOT NULL,
        cut TEXT NOT NULL,
        error TEXT,
        retry INTEGER NOT NULL,
        UNIQUE (folder, name)
    );
    CREATE TABLE chunks (
        id INTEGER PRIMARY KEY,
        document INTEGER NOT NULL REFERENCES documents (id),
        start INTEGER NOT NULL,
        line INTEGER NOT NULL,
        headings TEXT NOT NULL,
        text TEXT NOT NULL,
        digest BLOB NOT NULL,
        vector BLOB,
        context TEXT
    );
    CREATE INDEX chunks_of_document ON chunks (document);
    CREATE INDEX chunks_by_digest ON chunks (digest);
";

/// The status of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentStatus {
    /// Its chunks are in the index.
    Indexed,
    /// It could not be read, for this reason. Says whether the next sync tries again although the file is the same.
    Failed {
        /// The reason.
        error: String,
        /// Whether it is tried again.
        retry: bool,
    },
}

/// The stored data of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentRow {
    /// The folder that was indexed, or the name of another source.
    pub folder: String,
    /// Its path below the folder, with `/` between its parts, or its name in another source.
    pub name: String,
    /// Its own title, if it has one.
    pub title: Option<String>,
    /// The size of the file.
    pub bytes: u64,
    /// The time of its last change, in nanoseconds since 1970, or the version that another source gives.
    pub modified: i64,
    /// The BLAKE3 digest of the file's bytes, and of the properties that its source gave.
    pub digest: [u8; 32],
    /// The mark by which its source recognises this version.
    pub tag: Option<String>,
    /// Its properties.
    pub metadata: Metadata,
    /// How it was cut into chunks: with other settings it is cut again.
    pub cut: String,
    /// The result.
    pub status: DocumentStatus,
}

impl DocumentStatus {
    /// Why it could not be read, if it could not.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Indexed => None,
            Self::Failed { error, .. } => Some(error),
        }
    }
}

/// The data of a document that a sync needs before it examines the file.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) row: DocumentRow,
}

/// A chunk with its vector.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) chunk: Chunk,
    /// The digest of the text that was embedded.
    pub(super) digest: [u8; 32],
    pub(super) vector: Option<Vec<f32>>,
    /// The text by which it is found, where an enricher has written one.
    pub(super) context: Option<String>,
}

impl Content {
    /// The text for the search by words. It contains the nearest heading twice, since a word there says more than one
    /// in the text.
    pub(super) fn searched(&self, title: &str) -> String {
        let nearest = self.chunk.headings.last().map_or("", |heading| heading);
        match &self.context {
            Some(context) => format!("{nearest} {context}"),
            None => format!("{nearest} {}", self.chunk.in_context(title)),
        }
    }
}

/// An open index file.
#[derive(Debug)]
pub(super) struct IndexFile {
    path: PathBuf,
    connection: Connection,
    dimension: Option<usize>,
    /// SQLite's counter of changes by other connections.
    seen: i64,
}

/// The place of an index.
#[derive(Clone, Debug)]
pub(super) enum Place {
    File(PathBuf),
    Memory,
}

impl Place {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Memory => Path::new(":memory:"),
        }
    }
}

/// The vector space of an index: the embedder's name, the dimension, and the kind.
type Space = (String, i64, String);

impl IndexFile {
    /// Opens a file. An index with vectors of another space is emptied if that is allowed.
    pub(super) fn open(
        place: &Place,
        space: Option<&EmbeddingSpace>,
        may_empty: bool,
    ) -> Result<Self, IndexError> {
        let path = place.path();
        let failed = |message: String| IndexError::File {
            path: path.to_owned(),
            message,
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match place {
            Place::File(path) => {
                make_private(path).map_err(|error| failed(error.to_string()))?;
                Connection::open_with_flags(path, flags)
            }
            Place::Memory => Connection::open_in_memory(),
        };
        let mut file = Self {
            path: path.to_owned(),
            connection: connection.map_err(|error| failed_at(path, &error))?,
            dimension: space.map(|space| space.dimension),
            seen: 0,
        };
        file.set_up(space, may_empty)?;
        file.changed_elsewhere()?;
        Ok(file)
    }

    fn set_up(
        &mut self,
        space: Option<&EmbeddingSpace>,
        may_empty: bool,
    ) -> Result<(), IndexError> {
        let path = self.path.clone();
        let failed = |error: rusqlite::Error| failed_at(&path, &error);
        self.connection.busy_timeout(PATIENCE).map_err(failed)?;
        let number = |sql: &str| -> Result<i64, IndexError> {
            let read = self.connection.query_row(sql, [], |row| row.get(0));
            read.map_err(failed)
        };
        let is_new = number("SELECT count(*) FROM sqlite_schema")? == 0;
        if !is_new && number("PRAGMA application_id")? != i64::from(APPLICATION) {
            return Err(IndexError::File {
                path: self.path.clone(),
                message: String::from("it is a database and no index; name another file"),
            });
        }
        let is_current = !is_new && number("PRAGMA user_version")? == i64::from(VERSION);
        let wanted: Option<Space> = space.map(|space| {
            let kind = format!("{:?}", space.kind).to_lowercase();
            (space.name.clone(), space.dimension as i64, kind)
        });
        if is_current {
            let kept = self.space().map_err(failed)?;
            let is_empty = number("SELECT count(*) FROM documents")? == 0;
            if kept == wanted {
                return Ok(());
            }
            if !may_empty && !is_empty {
                let shown = |space: &Option<Space>| match space {
                    Some((name, dimension, kind)) => {
                        format!("{name} ({dimension} numbers, {kind})")
                    }
                    None => String::from("no embedder"),
                };
                return Err(IndexError::OtherVectors {
                    path: self.path.clone(),
                    kept: shown(&kept),
                    wanted: shown(&wanted),
                });
            }
        }
        self.make(wanted).map_err(failed)
    }

    fn space(&self) -> rusqlite::Result<Option<Space>> {
        let sql = "SELECT name, dimension, kind FROM space";
        let read = self
            .connection
            .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        read.optional()
    }

    /// Creates the tables, and drops existing ones.
    fn make(&mut self, space: Option<Space>) -> rusqlite::Result<()> {
        self.connection
            .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")?;
        let transaction = self.connection.transaction()?;
        transaction.execute_batch(
            "DROP TABLE IF EXISTS chunks; DROP TABLE IF EXISTS documents; DROP TABLE IF EXISTS space;",
        )?;
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        if let Some((name, dimension, kind)) = space {
            transaction.execute(
                "INSERT INTO space VALUES (?1, ?2, ?3)",
                params![name, dimension, kind],
            )?;
        }
        transaction.commit()
    }

    /// The dimension of its vectors.
    pub(super) fn dimension(&self) -> Option<usize> {
        self.dimension
    }

    /// Whether another process has written since the last call.
    pub(super) fn changed_elsewhere(&mut self) -> Result<bool, IndexError> {
        let version: i64 = self
            .connection
            .query_row("PRAGMA data_version", [], |row| row.get(0))
            .map_err(|error| self.failed(&error))?;
        let changed = self.seen != 0 && self.seen != version;
        self.seen = version;
        Ok(changed)
    }

    pub(super) fn documents(&self) -> Result<Vec<DocumentRow>, IndexError> {
        let known = self.rows("SELECT * FROM documents ORDER BY folder, name", params![])?;
        Ok(known.into_iter().map(|known| known.1).collect())
    }

    pub(super) fn known(&self, folder: &str) -> Result<Vec<Known>, IndexError> {
        let rows = self.rows(
            "SELECT * FROM documents WHERE folder = ?1 ORDER BY name",
            params![folder],
        )?;
        Ok(rows.into_iter().map(|(_, row)| Known { row }).collect())
    }

    fn rows(
        &self,
        sql: &str,
        parameters: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<(i64, DocumentRow)>, IndexError> {
        let read = || -> rusqlite::Result<Vec<(i64, DocumentRow)>> {
            let mut statement = self.connection.prepare_cached(sql)?;
            let rows = statement.query_map(parameters, document_row)?;
            rows.collect()
        };
        read().map_err(|error| self.failed(&error))
    }

    /// The stored vectors of texts with these digests.
    pub(super) fn vectors(
        &self,
        digests: &[[u8; 32]],
    ) -> Result<Vec<Option<Vec<f32>>>, IndexError> {
        let read = || -> rusqlite::Result<Vec<Option<Vec<f32>>>> {
            let sql = "SELECT vector FROM chunks WHERE digest = ?1 AND vector IS NOT NULL LIMIT 1";
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut vector = |digest: &[u8; 32]| -> rusqlite::Result<Option<Vec<f32>>> {
                let bytes: Option<Vec<u8>> =
                    statement.query_row([digest], |row| row.get(0)).optional()?;
                Ok(bytes.map(|bytes| numbers(&bytes)))
            };
            digests.iter().map(&mut vector).collect()
        };
        read().map_err(|error| self.failed(&error))
    }

    /// The stored vector of this chunk.
    pub(super) fn vector(&self, chunk: i64) -> Result<Option<Vec<f32>>, IndexError> {
        let read = || -> rusqlite::Result<Option<Vec<u8>>> {
            let sql = "SELECT vector FROM chunks WHERE id = ?1";
            let mut statement = self.connection.prepare_cached(sql)?;
            let read = |row: &rusqlite::Row<'_>| row.get::<_, Option<Vec<u8>>>(0);
            let found = statement.query_row([chunk], read).optional()?;
            Ok(found.flatten())
        };
        let read = read().map_err(|error| self.failed(&error))?;
        Ok(read.map(|bytes| numbers(&bytes)))
    }

    /// Replaces the document with this name in one commit, and returns the numbers of its chunks.
    pub(super) fn put(
        &mut self,
        row: &DocumentRow,
        contents: &[Content],
    ) -> Result<Vec<i64>, IndexError> {
        let path = self.path.clone();
        let mut write = || -> rusqlite::Result<Vec<i64>> {
            let transaction = self.connection.transaction()?;
            delete(&transaction, row)?;
            let (error, retry) = match &row.status {
                DocumentStatus::Indexed => (None, false),
                DocumentStatus::Failed { error, retry } => (Some(error), *retry),
            };
            let metadata = serde_json::to_string(&row.metadata).unwrap_or_default();
            transaction.execute(
                "INSERT INTO documents (folder, name, title, bytes, modified, digest, tag, error, retry, \
                 metadata, cut) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                params![
                    row.folder, row.name, row.title, row.bytes as i64, row.modified, row.digest, row.tag, error, retry,
                    metadata, row.cut
                ],
            )?;
            let document = transaction.last_insert_rowid();
            let mut chunks = Vec::with_capacity(contents.len());
            {
                let mut statement = transaction.prepare_cached(
                    "INSERT INTO chunks (document, start, line, headings, text, digest, vector, context) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                )?;
                for Content {
                    chunk,
                    digest,
                    vector,
                    context,
                } in contents
                {
                    let headings = serde_json::to_string(&chunk.headings).unwrap_or_default();
                    let vector = vector.as_ref().map(|vector| bytes(vector));
                    statement.execute(params![
                        document,
                        chunk.range.start as i64,
                        chunk.line as i64,
                        headings,
                        chunk.text,
                        digest,
                        vector,
                        context
                    ])?;
                    chunks.push(transaction.last_insert_rowid());
                }
            }
            transaction.commit()?;
            Ok(chunks)
        };
        write().map_err(|error| failed_at(&path, &error))
    }

    /// Removes a document in one commit.
    pub(super) fn remove(&mut self, row: &DocumentRow) -> Result<(), IndexError> {
        let path = self.path.clone();
        let mut write = || {
            let transaction = self.connection.transaction()?;
            delete(&transaction, row)?;
            transaction.commit()
        };
        write().map_err(|error| failed_at(&path, &error))
    }

    /// Visits each document with its chunks and their numbers.
    pub(super) fn each_document(
        &mut self,
        mut take: impl FnMut(&DocumentRow, &[Content], &[i64]) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let documents = self.rows(
            "SELECT * FROM documents WHERE error IS NULL ORDER BY id",
            params![],
        )?;
        for (document, row) in documents {
            let read = || -> rusqlite::Result<Vec<(i64, Content)>> {
                let sql = "SELECT id, start, line, headings, text, digest, vector, context FROM chunks \
                           WHERE document = ?1 ORDER BY id";
                let mut statement = self.connection.prepare_cached(sql)?;
                let rows = statement.query_map([document], |row| {
                    let vector: Option<Vec<u8>> = row.get(6)?;
                    let content = Content {
                        chunk: chunk(row, 1)?,
                        digest: row.get(5)?,
                        vector: vector.map(|bytes| numbers(&bytes)),
                        context: row.get(7)?,
                    };
                    Ok((row.get(0)?, content))
                })?;
                rows.collect()
            };
            let (chunks, contents): (Vec<i64>, Vec<Content>) = read()
                .map_err(|error| self.failed(&error))?
                .into_iter()
                .unzip();
            take(&row, &contents, &chunks)?;
        }
        Ok(())
    }

    /// The stored data of these chunks. A chunk that was removed since they were ranked is left out. Its number may
    /// belong to a chunk of another document by now, so the row alone says which document it is of, and the filter is
    /// asked again.
    pub(super) fn found(
        &mut self,
        ranked: Vec<RankedChunk>,
        filter: &Filter,
    ) -> Result<Vec<Found>, IndexError> {
        let read = || -> rusqlite::Result<Vec<Found>> {
            let sql = "SELECT folder, name, title, metadata, start, line, headings, text FROM chunks \
                       JOIN documents ON documents.id = chunks.document WHERE chunks.id = ?1";
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut found = Vec::with_capacity(ranked.len());
            for RankedChunk { chunk: id, score } in &ranked {
                let row = statement.query_row([id], |row| {
                    let (folder, name): (String, String) = (row.get(0)?, row.get(1)?);
                    let title: Option<String> = row.get(2)?;
                    let metadata: String = row.get(3)?;
                    Ok((
                        folder,
                        name,
                        title,
                        read_metadata(&metadata),
                        chunk(row, 4)?,
                    ))
                });
                let row = row.optional()?;
                let row = row.filter(|(folder, name, _, metadata, _)| {
                    filter.admits(folder, name) && filter.holds(metadata)
                });
                if let Some((_, name, title, _, chunk)) = row {
                    found.push(Found {
                        document: name.into(),
                        title: title.map(Arc::from),
                        headings: chunk.headings,
                        line: chunk.line,
                        range: chunk.range,
                        text: chunk.text,
                        score: *score,
                    });
                }
            }
            Ok(found)
        };
        read().map_err(|error| self.failed(&error))
    }

    pub(super) fn statistics(&self) -> Result<IndexStatistics, IndexError> {
        let read = || -> rusqlite::Result<IndexStatistics> {
            let sql = "SELECT (SELECT count(*) FROM documents WHERE error IS NULL), \
                       (SELECT count(*) FROM documents WHERE error IS NOT NULL), count(*), \
                       coalesce(sum(length(CAST(text AS BLOB))), 0) FROM chunks";
            self.connection.query_row(sql, [], |row| {
                let count =
                    |place: usize| row.get::<_, i64>(place).map(|count| count.max(0) as u64);
                Ok(IndexStatistics {
                    documents: count(0)? as usize,
                    failed: count(1)? as usize,
                    chunks: count(2)? as usize,
                    text_bytes: count(3)?,
                    vector_bytes: 0,
                    file_bytes: self.bytes(),
                })
            })
        };
        read().map_err(|error| self.failed(&error))
    }

    /// The bytes of the file, and of the log beside it with what is not in the file yet.
    fn bytes(&self) -> u64 {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        let files = [self.path.as_path(), Path::new(&log)];
        let found = files.iter().filter_map(|file| std::fs::metadata(file).ok());
        found.map(|file| file.len()).sum()
    }

    fn failed(&self, error: &rusqlite::Error) -> IndexError {
        failed_at(&self.path, error)
    }
}
