//! Rows of a PostgreSQL database as documents.

use std::path::PathBuf;

use ghostlight_postgres::{Options, Query};
use secrecy::ExposeSecret as _;

use super::DatabaseSpec;
use crate::retrieval::{
    index::{IndexError, Reading, RowEntries, RowValue, Source, SourceEntry, SyncOptions},
    readers::ReaderError,
};

/// The schema of tables that a query names without one.
const SCHEMA: &str = "public";

/// A [`Source`] of the rows of a query, as [`Rows`](crate::retrieval::index::Rows) is one for SQLite.
#[derive(Clone, Debug)]
pub(super) struct ServerRows {
    query: Query,
    name: String,
}

impl ServerRows {
    pub(super) fn new(spec: &DatabaseSpec) -> Result<Self, String> {
        let url = spec.url.as_ref().ok_or("there is no `url`")?;
        let url = url.reveal().map_err(|error| error.to_string())?;
        let mut options = Options::default();
        SCHEMA.clone_into(&mut options.schema);
        let query = Query::new(url.expose_secret(), &options, &spec.select)
            .map_err(|error| error.to_string())?;
        let name = format!("{}: {}", query.place(), spec.select.trim());
        Ok(Self { query, name })
    }
}

impl Source for ServerRows {
    fn name(&self) -> String {
        self.name.clone()
    }

    async fn entries(&self, options: &SyncOptions) -> Result<Vec<SourceEntry>, IndexError> {
        let begin = |columns| RowEntries::new(&self.name, columns, options);
        let add = |read: &mut RowEntries, values: &[Option<&str>]| {
            let values = values.iter().map(|value| match value {
                Some(text) => RowValue::Text(text.as_bytes()),
                None => RowValue::Null,
            });
            read.add(&values.collect::<Vec<_>>())
        };
        let read = self.query.read(begin, add).await;
        let read = read.map_err(|error| IndexError::Rows {
            file: PathBuf::from(self.query.place()),
            message: error.to_string(),
        })?;
        Ok(read.entries())
    }

    async fn read(
        &self,
        _: &SourceEntry,
        _: Option<&str>,
        _: &SyncOptions,
    ) -> Result<Reading, ReaderError> {
        // The text of a row that is too large was not kept.
        Err(ReaderError::Failed(
            "the row's text was not read".to_owned(),
        ))
    }
}
