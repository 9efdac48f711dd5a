//! Single documents: put into an index, and removed from it, without a source that is synchronised.

use std::sync::Arc;

use super::{
    DocumentRow, Index, IndexError, Reading, Source, SourceEntry, SyncOptions, actor::Request,
    file::Content, sync::Prepared,
};
use crate::readers::{Metadata, ReaderError};

/// One document for [`Index::put`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewDocument {
    /// The source that it counts to. A folder that is synchronised removes what it does not hold, so use a name of your
    /// own, such as `notes`.
    pub source: String,
    /// Its name in the source.
    pub name: String,
    /// The name whose ending chooses the reader; its own name when left out.
    pub read_as: Option<String>,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its properties, by which searches may be filtered, beside those that the document itself has.
    pub metadata: Metadata,
}

impl NewDocument {
    /// A text in Markdown under this name of this source.
    pub fn text(
        source: impl Into<String>,
        name: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Self {
            read_as: Some(String::from("text.md")),
            ..Self::file(source, name, text.into())
        }
    }

    /// A file whose name chooses the reader.
    pub fn file(
        source: impl Into<String>,
        name: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        Self {
            source: source.into(),
            name: name.into(),
            bytes: bytes.into(),
            ..Self::default()
        }
    }

    /// Adds a property.
    #[must_use]
    pub fn having(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let values = self.metadata.entry(name.into()).or_default();
        values.push(value.into());
        self
    }
}

/// A source that holds the bytes of its only entry.
struct Held;

impl Source for Held {
    fn name(&self) -> String {
        String::new()
    }

    async fn entries(&self, _: &SyncOptions) -> Result<Vec<SourceEntry>, IndexError> {
        Ok(Vec::new())
    }

    async fn read(
        &self,
        _: &SourceEntry,
        _: Option<&str>,
        _: &SyncOptions,
    ) -> Result<Reading, ReaderError> {
        Err(ReaderError::Unknown)
    }
}

impl Index {
    /// Adds one document, or puts it instead of the one with its name, in one commit. What is the same as before is
    /// not read or embedded again.
    ///
    /// # Errors
    /// [`IndexError::Document`] if it cannot be read: then what was there stays. Else the index fails, or no vectors can
    /// be made.
    pub async fn put(
        &self,
        document: NewDocument,
        options: &SyncOptions,
    ) -> Result<DocumentRow, IndexError> {
        let NewDocument {
            source,
            name,
            read_as,
            bytes,
            metadata,
        } = document;
        let before = self.one(&source, &name).await?;
        let entry = SourceEntry {
            read_as: read_as.unwrap_or_else(|| name.clone()),
            bytes: bytes.len() as u64,
            version: None,
            held: Some(bytes),
            metadata,
            name: name.clone(),
        };
        let kept = before.clone();
        let prepared = self
            .document(&Held, &source, entry, before, options)
            .await?;
        let refused = |message: String| IndexError::Document {
            name: name.clone(),
            message,
        };
        match prepared {
            Prepared::AsBefore(error) => match (kept, error) {
                (Some(row), None) => Ok(row),
                (_, error) => Err(refused(error.unwrap_or_default())),
            },
            Prepared::Gone(reason, _) => Err(refused(reason)),
            Prepared::Put { row, contents, .. } => {
                if let Some(error) = row.status.error() {
                    return Err(refused(error.to_owned()));
                }
                let (row, contents): (Arc<DocumentRow>, Arc<[Content]>) =
                    (Arc::new(row), contents.into());
                self.ask(|port| Request::Put(row.clone(), contents.clone(), port))
                    .await?;
                self.put_right().await?;
                Ok(DocumentRow::clone(&row))
            }
        }
    }

    /// Removes one document; `false` if there was none. A folder that holds it still brings it back with its next
    /// [`sync`](Self::sync).
    ///
    /// # Errors
    /// The index fails.
    pub async fn remove(&self, source: &str, name: &str) -> Result<bool, IndexError> {
        let Some(row) = self.one(source, name).await?.map(Arc::new) else {
            return Ok(false);
        };
        self.ask(|port| Request::Remove(row.clone(), port)).await?;
        self.put_right().await?;
        Ok(true)
    }

    /// The stored data of one document.
    async fn one(&self, source: &str, name: &str) -> Result<Option<DocumentRow>, IndexError> {
        let known = self.ask(|port| Request::Known(source.to_owned(), port));
        let rows = known.await?.into_iter().map(|known| known.row);
        Ok(rows.into_iter().find(|row| row.name == name))
    }
}
