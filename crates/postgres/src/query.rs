//! A query that reads tables of others.

use std::{pin::pin, time::Duration};

use futures_util::TryStreamExt;
use ghostlight_actors::contract::StoreError;
use tokio_postgres::{IsolationLevel, SimpleQueryMessage};

use crate::{Options, connection::Address, fault::Fault};

/// How long the database may work on a query.
const PATIENCE: Duration = Duration::from_secs(600);

/// A `SELECT` on any PostgreSQL database, whose rows are read as texts. It runs in a transaction that only reads, so it changes
/// no table of that database. A function that it calls may still act elsewhere, as `pg_terminate_backend` and `dblink_exec` do:
/// connect as a role that may read what is needed, and nothing else.
#[derive(Clone)]
pub struct Query {
    address: Address,
    select: String,
}

impl Query {
    /// This query on the database at this address. Tables without a schema are those of [`Options::schema`].
    ///
    /// # Errors
    /// The address does not read.
    pub fn new(
        url: &str,
        options: &Options,
        select: impl Into<String>,
    ) -> Result<Self, StoreError> {
        let (address, select) = (Address::read(url, options)?, select.into());
        Ok(Self { address, select })
    }

    /// The address for people, without the password.
    pub fn place(&self) -> &str {
        &self.address.place
    }

    /// Reads all rows: `begin` gets the names of the columns, and `add` each row, in which `None` is NULL. Rows are not
    /// gathered here, so `add` bounds how many are kept.
    ///
    /// # Errors
    /// The database cannot be reached or refuses the query, which must be one statement; and what `begin` and `add` refuse.
    pub async fn read<T>(
        &self,
        begin: impl FnOnce(Vec<String>) -> Result<T, String> + Send,
        mut add: impl FnMut(&mut T, &[Option<&str>]) -> Result<(), String> + Send,
    ) -> Result<T, StoreError>
    where
        T: Send,
    {
        let place = &self.address.place;
        let refused = |reason: String| StoreError::Io {
            place: place.clone(),
            reason,
        };
        let failed = |error: tokio_postgres::Error| Fault::from(error).at(place);
        let connected = self.address.connect().await;
        let mut client = connected.map_err(|fault| fault.at(place))?;
        let reading = client.build_transaction().read_only(true);
        let reading = reading.isolation_level(IsolationLevel::RepeatableRead);
        let reading = reading.start().await.map_err(failed)?;
        let limit = format!("SET LOCAL statement_timeout = {}", PATIENCE.as_millis());
        reading.batch_execute(&limit).await.map_err(failed)?;
        // More than one statement cannot be prepared.
        let prepared = reading.prepare(&self.select).await.map_err(failed)?;
        let columns = prepared.columns().iter();
        let mut made =
            begin(columns.map(|column| column.name().to_owned()).collect()).map_err(refused)?;
        let rows = reading
            .client()
            .simple_query_raw(&self.select)
            .await
            .map_err(failed)?;
        let mut rows = pin!(rows);
        while let Some(message) = rows.try_next().await.map_err(failed)? {
            if let SimpleQueryMessage::Row(row) = message {
                let values: Vec<Option<&str>> =
                    (0..row.len()).map(|place| row.get(place)).collect();
                add(&mut made, &values).map_err(refused)?;
            }
        }
        Ok(made)
    }
}

impl std::fmt::Debug for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Query")
            .field("place", &self.address.place)
            .field("select", &self.select)
            .finish_non_exhaustive()
    }
}
