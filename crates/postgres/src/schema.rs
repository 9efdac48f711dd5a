//! The tables and their versions.

use ghostlight_actors::contract::StoreError;
use tokio_postgres::{Client, GenericClient};

use crate::fault::Fault;

/// The first version that is read. Databases of earlier versions were never promised to be.
const FIRST: u32 = 8;

/// The first step makes the tables of the first version, and each later one leads from the version before to the next. A
/// released step is never changed; new ones are appended.
const MIGRATIONS: &[&str] = &[include_str!("schema/8.sql"), include_str!("schema/9.sql")];

/// The steps that are left from a version on, each with the version to which it leads.
fn steps(found: u32) -> impl Iterator<Item = (u32, &'static str)> {
    (FIRST..)
        .zip(MIGRATIONS.iter().copied())
        .filter(move |(number, _)| *number > found)
}

/// The lock that one process holds while it creates or migrates the tables.
const LOCK: i64 = 0x6768_7374_0000_0001;

/// The versions of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaVersion {
    /// The version that the database has; 0 where the tables are not made yet.
    pub found: u32,
    /// The version that this program needs.
    pub known: u32,
}

impl SchemaVersion {
    /// The migrations that are not applied yet: the version to which each leads, and what it is for.
    pub fn pending(&self) -> Vec<(u32, &'static str)> {
        // The first line says it, as a comment.
        let about = |sql: &'static str| sql.lines().next().unwrap_or_default();
        let about = |sql| about(sql).trim_start_matches("-- ");
        let steps = steps(self.found);
        steps.map(|(number, sql)| (number, about(sql))).collect()
    }
}

/// The versions of the tables as they are, refused from before the first version that is read. Nothing is changed.
pub(crate) async fn version(
    client: &impl GenericClient,
    place: &str,
) -> Result<SchemaVersion, Fault> {
    let is_there = "SELECT to_regclass('version') IS NOT NULL";
    let found = match client.query_one(is_there, &[]).await?.try_get(0)? {
        true => {
            let found = "SELECT coalesce(max(number), 0) FROM version";
            client.query_one(found, &[]).await?.try_get::<_, i32>(0)?
        }
        false => 0,
    };
    let found = found.cast_unsigned();
    if (1..FIRST).contains(&found) {
        return Err(Fault::Told(StoreError::NoLongerRead {
            place: place.to_owned(),
            found,
            oldest: FIRST,
        }));
    }
    Ok(SchemaVersion {
        found,
        known: FIRST - 1 + u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX / 2),
    })
}

/// Refuses tables of another version than this program's.
pub(crate) async fn check(client: &Client, place: &str) -> Result<(), Fault> {
    let SchemaVersion { found, known } = version(client, place).await?;
    let place = place.to_owned();
    match found.cmp(&known) {
        std::cmp::Ordering::Less => Err(Fault::Told(StoreError::TooOld {
            place,
            found,
            known,
        })),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(Fault::Told(StoreError::TooNew {
            place,
            found,
            known,
        })),
    }
}

/// Creates the tables, or migrates them to the version of this program, all steps or none. Several
/// processes may do so at once. Returns the versions before.
pub(crate) async fn prepare(
    client: &mut Client,
    schema: &str,
    place: &str,
) -> Result<SchemaVersion, Fault> {
    let transaction = client.transaction().await?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])
        .await?;
    // A schema that already exists is used; creating one needs more rights.
    let is_there = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)";
    if !transaction
        .query_one(is_there, &[&schema])
        .await?
        .try_get::<_, bool>(0)?
    {
        transaction
            .batch_execute(&format!("CREATE SCHEMA {schema}"))
            .await?;
    }
    transaction
        .batch_execute("CREATE TABLE IF NOT EXISTS version(number integer NOT NULL)")
        .await?;
    let before = version(&transaction, place).await?;
    if before.found > before.known {
        return Err(Fault::Told(StoreError::TooNew {
            place: place.to_owned(),
            found: before.found,
            known: before.known,
        }));
    }
    for (number, step) in steps(before.found) {
        transaction.batch_execute(step).await?;
        transaction
            .execute("INSERT INTO version VALUES ($1)", &[&number.cast_signed()])
            .await?;
    }
    transaction.commit().await?;
    Ok(before)
}
