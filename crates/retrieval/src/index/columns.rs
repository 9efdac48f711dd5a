//! The columns of an index file, and the file itself.

use std::{fs::OpenOptions, path::Path, sync::Arc};

use rusqlite::{Connection, params};

use super::{DocumentRow, DocumentStatus, IndexError};
use crate::{chunking::Chunk, readers::Metadata};

pub(super) fn failed_at(path: &Path, error: &rusqlite::Error) -> IndexError {
    use rusqlite::ErrorCode;
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt) => "; delete it and index again: it holds nothing else",
        Some(ErrorCode::NotADatabase) => "; it is not an index: name another file",
        _ => "",
    };
    IndexError::File {
        path: path.to_owned(),
        message: format!("{error}{advice}"),
    }
}

pub(super) fn delete(connection: &Connection, row: &DocumentRow) -> rusqlite::Result<()> {
    let named = params![row.folder, row.name];
    connection
        .prepare_cached(
            "DELETE FROM chunks WHERE document IN (SELECT id FROM documents WHERE folder = ?1 AND name = ?2)",
        )?
        .execute(named)?;
    connection
        .prepare_cached("DELETE FROM documents WHERE folder = ?1 AND name = ?2")?
        .execute(named)?;
    Ok(())
}

pub(super) fn document_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<(i64, DocumentRow)> {
    let error: Option<String> = row.get("error")?;
    let retry = row.get("retry")?;
    let bytes: i64 = row.get("bytes")?;
    let metadata: String = row.get("metadata")?;
    let document = DocumentRow {
        folder: row.get("folder")?,
        name: row.get("name")?,
        title: row.get("title")?,
        bytes: bytes.max(0) as u64,
        modified: row.get("modified")?,
        digest: row.get("digest")?,
        tag: row.get("tag")?,
        metadata: read_metadata(&metadata),
        cut: row.get("cut")?,
        status: match error {
            None => DocumentStatus::Indexed,
            Some(error) => DocumentStatus::Failed { error, retry },
        },
    };
    Ok((row.get("id")?, document))
}

pub(super) fn read_metadata(text: &str) -> Metadata {
    serde_json::from_str(text).unwrap_or_default()
}

/// The chunk in the columns from this one on: start, line, headings and text.
pub(super) fn chunk(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Chunk> {
    let (start, line): (i64, i64) = (row.get(first)?, row.get(first + 1)?);
    let headings: String = row.get(first + 2)?;
    let text: String = row.get(first + 3)?;
    let start = usize::try_from(start).unwrap_or_default();
    Ok(Chunk {
        range: start..start + text.len(),
        line: usize::try_from(line).unwrap_or(1),
        headings: serde_json::from_str(&headings).unwrap_or_else(|_| Arc::from([])),
        text,
    })
}

pub(super) fn bytes(vector: &[f32]) -> Vec<u8> {
    vector
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

pub(super) fn numbers(bytes: &[u8]) -> Vec<f32> {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers
        .iter()
        .map(|number| f32::from_le_bytes(*number))
        .collect()
}

/// Creates an empty file that only its user can read, if there is none.
pub(super) fn make_private(path: &Path) -> std::io::Result<()> {
    if let Ok(found) = std::fs::metadata(path) {
        return match found.is_file() {
            true => Ok(()),
            false => Err(std::io::Error::other(
                "it is not a regular file; name another one",
            )),
        };
    }
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        // Another process has created it first.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        opened => opened.map(drop),
    }
}
