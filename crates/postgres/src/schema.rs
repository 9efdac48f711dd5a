//! The tables and their versions.

use ghostlight_actors::contract::StoreError;
use tokio_postgres::Client;

use crate::fault::Fault;

/// The migration at each index leads from that version to the next. A released migration is never
/// changed; new ones are appended.
const MIGRATIONS: &[&str] = &[include_str!("schema/1.sql")];

/// The lock that one process holds while it creates or migrates the tables.
const LOCK: i64 = 0x6768_7374_0000_0001;

/// Creates the tables, or migrates them to the version of this program. Several processes may do so
/// at once.
pub(crate) async fn prepare(client: &mut Client, schema: &str, place: &str) -> Result<(), Fault> {
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
    let row = transaction
        .query_one("SELECT coalesce(max(number), 0) FROM version", &[])
        .await?;
    let found = row.try_get::<_, i32>(0)?.cast_unsigned();
    let known = u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX);
    if found > known {
        return Err(Fault::Told(StoreError::TooNew {
            place: place.to_owned(),
            found,
            known,
        }));
    }
    for (step, number) in MIGRATIONS.iter().zip(1..).skip(found as usize) {
        transaction.batch_execute(step).await?;
        let number: i32 = number;
        transaction
            .execute("INSERT INTO version VALUES ($1)", &[&number])
            .await?;
    }
    transaction.commit().await?;
    Ok(())
}
