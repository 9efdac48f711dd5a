//! Vectors in a table, by the extension pgvector.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use deadpool_postgres::{Pool, PoolError, Transaction};
use ghostlight_actors::contract::StoreError;
use tokio::{sync::Mutex, time};
use tokio_postgres::error::SqlState;

use crate::{Options, connection::Address, fault::Fault, text};

/// The id of a vector.
pub type VectorKey = [u8; 16];

/// The name of a table of vectors when none is given.
pub const VECTOR_TABLE: &str = "ghostlight_vectors";

/// The dimensions that a column of pgvector can have.
const MAX_DIMENSION: usize = 16_000;
/// The dimensions that pgvector can index.
const MAX_INDEXED: usize = 2_000;
/// How many candidates pgvector's graph is searched for, at least and at most.
const CANDIDATES: (usize, usize) = (200, 1_000);
/// Connections at once.
const CONNECTIONS: usize = 4;
/// How long a search waits for the database.
const SEARCH_PATIENCE: Duration = Duration::from_secs(10);
/// The beginning of the comment on a table of vectors, before the name of the embedder's space.
const MARK: &str = "Ghostlight's vectors of ";

/// A table of vectors of one dimension in a PostgreSQL database with the extension pgvector. Clones share its
/// connections.
///
/// The first use makes the extension, the table and an index (HNSW), where they are missing and the role may. The table
/// belongs to one index of documents: whoever else writes into it loses what that index does not know.
#[derive(Clone)]
pub struct Vectors(Arc<Inner>);

struct Inner {
    address: Address,
    pool: Pool,
    table: String,
    dimension: usize,
    space: String,
    patience: Duration,
    /// The schemas that a transaction looks into, once the table is known to be there.
    schemas: Mutex<Option<String>>,
}

impl Vectors {
    /// The table of this name in the database at this address, in [`Options::schema`], for vectors of this dimension and
    /// of the space of this name. Nothing is connected yet.
    ///
    /// # Errors
    /// The address does not read, the name is not one of at most 48 small letters, digits and underscores that begins with a
    /// letter, or pgvector has no vectors of that dimension.
    pub fn new(
        url: &str,
        options: &Options,
        table: &str,
        dimension: usize,
        space: &str,
    ) -> Result<Self, StoreError> {
        let refused = |reason: String| StoreError::Io {
            place: "the table of vectors".to_owned(),
            reason,
        };
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_named = table.len() <= 48
            && table.starts_with(|c: char| c.is_ascii_lowercase())
            && table.chars().all(is_name);
        if !is_named {
            return Err(refused(format!(
                "the table {table:?} is not a name of small letters, digits and underscores, at most 48, that begins \
                 with a letter"
            )));
        }
        if !(1..=MAX_DIMENSION).contains(&dimension) {
            return Err(refused(format!(
                "pgvector keeps vectors of 1 to {MAX_DIMENSION} numbers, and the embedder gives {dimension}"
            )));
        }
        let address = Address::read(url, options)?;
        let pool = address.pool(CONNECTIONS)?;
        Ok(Self(Arc::new(Inner {
            address,
            pool,
            table: table.to_owned(),
            dimension,
            space: space.to_owned(),
            patience: options.patience.max(Duration::from_secs(1)),
            schemas: Mutex::new(None),
        })))
    }

    /// The address for people, without the password, and the table.
    pub fn place(&self) -> String {
        format!("{}, table {}", self.0.address.place, self.0.table)
    }

    /// The ids of all its vectors.
    ///
    /// # Errors
    /// The database cannot be reached, has no pgvector, or the table holds other vectors.
    pub async fn keys(&self) -> Result<Vec<VectorKey>, StoreError> {
        let sql = format!("SELECT id FROM {}", self.0.quoted());
        self.0
            .within(self.0.patience, async |work| {
                let rows = work.query(&sql, &[]).await?;
                rows.iter().map(|row| key(row.try_get(0)?)).collect()
            })
            .await
    }

    /// Keeps vectors, each instead of the one of its id: all of them or none.
    ///
    /// # Errors
    /// As [`keys`](Self::keys), and when a vector has another dimension or holds what is no number.
    pub async fn put(&self, vectors: &[(VectorKey, Vec<f32>)]) -> Result<(), StoreError> {
        let mut last = BTreeMap::new();
        for (key, vector) in vectors {
            last.insert(key, self.0.literal(vector)?);
        }
        let keys: Vec<&[u8]> = last.keys().map(|key| key.as_slice()).collect();
        let texts: Vec<&str> = last.values().map(String::as_str).collect();
        let sql = format!(
            "INSERT INTO {} (id, vector) SELECT id, text::vector FROM unnest($1::bytea[], $2::text[]) AS given (id, text) \
             ON CONFLICT (id) DO UPDATE SET vector = excluded.vector",
            self.0.quoted()
        );
        self.0
            .within(self.0.patience, async |work| {
                work.execute(&sql, &[&keys, &texts]).await?;
                Ok(())
            })
            .await
    }

    /// Removes vectors; unknown ids are not an error.
    ///
    /// # Errors
    /// As [`keys`](Self::keys).
    pub async fn remove(&self, keys: &[VectorKey]) -> Result<(), StoreError> {
        let keys: Vec<&[u8]> = keys.iter().map(VectorKey::as_slice).collect();
        let sql = format!("DELETE FROM {} WHERE id = ANY($1)", self.0.quoted());
        self.0
            .within(self.0.patience, async |work| {
                work.execute(&sql, &[&keys]).await?;
                Ok(())
            })
            .await
    }

    /// The vectors nearest to this one by their cosine, the best first; of these ids alone, where some are given. With
    /// `may_miss` pgvector's graph is searched, which can miss some of the best; a search within ids is always exact.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn nearest(
        &self,
        vector: &[f32],
        limit: usize,
        may_miss: bool,
        within: Option<&[VectorKey]>,
    ) -> Result<Vec<(VectorKey, f32)>, StoreError> {
        let literal = self.0.literal(vector)?;
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let is_estimated = may_miss && within.is_none() && limit <= CANDIDATES.1;
        let how = match is_estimated {
            true => {
                let candidates = (limit * 4).clamp(CANDIDATES.0, CANDIDATES.1);
                format!("SET LOCAL hnsw.ef_search = {candidates}; SET LOCAL enable_seqscan = off")
            }
            // The graph is the only index in this order, so without it all vectors are compared.
            false => "SET LOCAL enable_indexscan = off".to_owned(),
        };
        let keys: Option<Vec<&[u8]>> =
            within.map(|keys| keys.iter().map(VectorKey::as_slice).collect());
        let filter = match &keys {
            Some(_) => "WHERE id = ANY($3)",
            None => "",
        };
        let order = match is_estimated {
            true => "",
            false => ", id",
        };
        let sql = format!(
            "SELECT id, (-(vector <#> $1::text::vector))::real FROM {} {filter} \
             ORDER BY vector <#> $1::text::vector{order} LIMIT $2",
            self.0.quoted()
        );
        self.0
            .within(SEARCH_PATIENCE.min(self.0.patience), async |work| {
                work.batch_execute(&how).await?;
                let rows = match &keys {
                    Some(keys) => work.query(&sql, &[&literal, &most, keys]).await?,
                    None => work.query(&sql, &[&literal, &most]).await?,
                };
                let hits = rows
                    .iter()
                    .map(|row| Ok((key(row.try_get(0)?)?, row.try_get(1)?)));
                hits.collect()
            })
            .await
    }

    /// Drops the table, if it is one of vectors: the next use makes it anew.
    ///
    /// # Errors
    /// The database cannot be reached or refuses, or the table is not one of vectors.
    pub async fn clear(&self) -> Result<(), StoreError> {
        let cleared = async {
            let mut schemas = self.0.schemas.lock().await;
            *schemas = None;
            let mut client = self.0.client().await?;
            let work = client.transaction().await?;
            if self.0.comment(&work).await?.is_some() {
                work.batch_execute(&format!("DROP TABLE {}", self.0.quoted()))
                    .await?;
            }
            work.commit().await?;
            Ok(())
        };
        self.0.timed(self.0.patience, cleared).await
    }
}

impl fmt::Debug for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vectors")
            .field("place", &self.place())
            .field("dimension", &self.0.dimension)
            .finish_non_exhaustive()
    }
}

fn key(bytes: &[u8]) -> Result<VectorKey, Fault> {
    let key = VectorKey::try_from(bytes);
    key.map_err(|_| Fault::Damaged("an id of a vector has a wrong length".to_owned()))
}

impl Inner {
    /// The table in SQL. Both names hold letters, digits and underscores only.
    fn quoted(&self) -> String {
        format!("\"{}\".\"{}\"", self.address.schema, self.table)
    }

    /// A vector of length 1 as pgvector reads it: then the inner product is the cosine, and that of zeros is 0.
    fn literal(&self, vector: &[f32]) -> Result<String, StoreError> {
        let refused = |reason: String| StoreError::Io {
            place: format!("the table of vectors {}", self.table),
            reason,
        };
        if vector.len() != self.dimension {
            return Err(refused(format!(
                "its vectors have {} numbers, and this one has {}",
                self.dimension,
                vector.len()
            )));
        }
        if vector.iter().any(|number| !number.is_finite()) {
            return Err(refused("a vector holds what is no number".to_owned()));
        }
        let squares: f64 = vector.iter().map(|number| f64::from(*number).powi(2)).sum();
        let length = match squares > 0.0 {
            true => squares.sqrt(),
            false => 1.0,
        };
        let numbers = vector
            .iter()
            .map(|number| format!("{:e}", f64::from(*number) / length));
        Ok(format!("[{}]", numbers.collect::<Vec<_>>().join(",")))
    }

    async fn client(&self) -> Result<deadpool_postgres::Object, Fault> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => error.into(),
            other => Fault::Away(other.to_string()),
        })
    }

    async fn timed<T>(
        &self,
        patience: Duration,
        work: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, StoreError> {
        let late = |_| Fault::Away("it does not answer".to_owned());
        let done = time::timeout(patience, work).await.map_err(late);
        done.and_then(|done| done)
            .map_err(|fault| fault.at(&self.address.place))
    }

    /// Runs work in a transaction that finds the table and pgvector's types.
    async fn within<T>(
        &self,
        patience: Duration,
        work: impl AsyncFnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let run = async {
            let schemas = self.prepared().await?;
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let limit = patience.as_millis();
            let settings = format!(
                "SET LOCAL search_path = {schemas}; SET LOCAL statement_timeout = {limit}; SET LOCAL jit = off"
            );
            transaction.batch_execute(&settings).await?;
            let done = work(&transaction).await?;
            transaction.commit().await?;
            Ok(done)
        };
        let done = self.timed(patience, run).await;
        if done.is_err() {
            // The table may have been dropped, or the database be another one by now.
            *self.schemas.lock().await = None;
        }
        done
    }

    /// The schemas of the table and of pgvector, after both were found or made.
    async fn prepared(&self) -> Result<String, Fault> {
        let mut schemas = self.schemas.lock().await;
        if let Some(schemas) = &*schemas {
            return Ok(schemas.clone());
        }
        let mut client = self.client().await?;
        let work = client.transaction().await?;
        // Two processes that make the same table at once would fail at each other's.
        work.batch_execute("SELECT pg_advisory_xact_lock(7103812094415)")
            .await?;
        let of_extension = match extension(&work).await? {
            Some(schema) => schema,
            None => {
                let made = self.make_extension(&work).await;
                made?;
                let schema = extension(&work).await?;
                schema.ok_or_else(|| Fault::Refused(LACKING.to_owned()))?
            }
        };
        let found = format!("\"{}\", {of_extension}", self.address.schema);
        work.batch_execute(&format!("SET LOCAL search_path = {found}"))
            .await?;
        match self.comment(&work).await? {
            Some(comment) => self.compare(&comment)?,
            None => self.make_table(&work).await?,
        }
        work.commit().await?;
        *schemas = Some(found.clone());
        Ok(found)
    }

    async fn make_extension(&self, work: &Transaction<'_>) -> Result<(), Fault> {
        self.make_schema(work).await?;
        let made = work.batch_execute("CREATE EXTENSION IF NOT EXISTS vector");
        made.await.map_err(|error| {
            let code = error.code().cloned();
            match Fault::from(error) {
                Fault::Refused(reason) if code == Some(SqlState::INSUFFICIENT_PRIVILEGE) => {
                    Fault::Refused(format!(
                        "{reason}; let an administrator execute CREATE EXTENSION vector in this database"
                    ))
                }
                Fault::Refused(reason) => Fault::Refused(format!("{LACKING} ({reason})")),
                other => other,
            }
        })
    }

    async fn make_schema(&self, work: &Transaction<'_>) -> Result<(), Fault> {
        let schema = &self.address.schema;
        let there = work
            .query_one("SELECT to_regnamespace($1::text) IS NOT NULL", &[schema])
            .await?;
        if !there.try_get::<_, bool>(0)? {
            work.batch_execute(&format!("CREATE SCHEMA \"{schema}\""))
                .await?;
        }
        Ok(())
    }

    /// The comment on the table, which a table of vectors always has. `None` if there is no such table.
    async fn comment(&self, work: &Transaction<'_>) -> Result<Option<String>, Fault> {
        let found = work
            .query_opt(
                "SELECT coalesce(obj_description(c.oid, 'pg_class'), '') FROM pg_class AS c \
                 JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2",
                &[&self.address.schema, &self.table],
            )
            .await?;
        let Some(row) = found else { return Ok(None) };
        let comment: String = row.try_get(0)?;
        if !comment.starts_with(MARK) {
            return Err(Fault::Refused(format!(
                "the table {} holds something else than vectors of Ghostlight and is left as it is; name another table",
                self.table
            )));
        }
        Ok(Some(comment))
    }

    /// The comment on the table.
    fn mark(&self) -> String {
        let space = text::stored(&self.space);
        format!("{MARK}{} numbers by {space}", self.dimension)
    }

    fn compare(&self, comment: &str) -> Result<(), Fault> {
        if comment == self.mark() {
            return Ok(());
        }
        let there = comment.strip_prefix(MARK).unwrap_or(comment);
        Err(Fault::Refused(format!(
            "the table {} holds vectors of {}, and the embedder gives {} numbers by {}; name another table, or empty \
             the index (`ghostlight docs index --empty`)",
            self.table,
            text::read(there),
            self.dimension,
            self.space
        )))
    }

    async fn make_table(&self, work: &Transaction<'_>) -> Result<(), Fault> {
        self.make_schema(work).await?;
        let (table, dimension) = (self.quoted(), self.dimension);
        let mut sql = format!(
            "CREATE TABLE {table} (id bytea PRIMARY KEY, vector vector({dimension}) NOT NULL);"
        );
        if dimension <= MAX_INDEXED {
            sql.push_str(&format!(
                "CREATE INDEX ON {table} USING hnsw (vector vector_ip_ops);"
            ));
        }
        work.batch_execute(&sql).await?;
        // The server quotes what a statement of this kind cannot take as a parameter.
        let comment = work
            .query_one(
                "SELECT format('COMMENT ON TABLE %I.%I IS %L', $1::text, $2::text, $3::text)",
                &[&self.address.schema, &self.table, &self.mark()],
            )
            .await?;
        work.batch_execute(comment.try_get(0)?).await?;
        Ok(())
    }
}

const LACKING: &str = "this PostgreSQL has no extension `vector`: install pgvector there (Debian: postgresql-NN-pgvector)";

/// The schema of pgvector, quoted.
async fn extension(work: &Transaction<'_>) -> Result<Option<String>, Fault> {
    let found = work
        .query_opt(
            "SELECT quote_ident(n.nspname) FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace \
             WHERE e.extname = 'vector'",
            &[],
        )
        .await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?)
}
