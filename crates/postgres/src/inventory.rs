//! The names of everything that the tables hold.

use ghostlight_actors::contract::Inventory;
use tokio_postgres::IsolationLevel;

use crate::{
    fault::Fault,
    reader::Readers,
    rows::{count, digest},
    text,
};

/// See `Index::inventory`. One transaction sees one moment.
pub(crate) async fn read(readers: &Readers) -> Result<Inventory, Fault> {
    readers.health.check().map_err(Fault::Told)?;
    let mut client = readers.client().await?;
    let transaction = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let mut inventory = Inventory::default();
    // Journals that are being deleted are excluded, and roots that are only named by their children
    // were never claimed.
    let journals = "SELECT key, epoch FROM journals WHERE epoch > 0 \
         AND NOT (key >= 'deleted:' AND key < 'deleted;')";
    for row in transaction.query(journals, &[]).await? {
        let key = text::read(row.try_get(0)?);
        let odd = |_| Fault::Damaged(format!("journal {key} has an odd key"));
        let journal = key.parse().map_err(odd)?;
        inventory.journals.push((journal, count(&row, 1)?));
    }
    // Texts are stored with escapes, so the database sorts them slightly differently.
    inventory
        .journals
        .sort_by_cached_key(|(journal, _)| journal.to_string());
    let values = "SELECT scope, key, version FROM state";
    for row in transaction.query(values, &[]).await? {
        let (scope, key) = (text::read(row.try_get(0)?), text::read(row.try_get(1)?));
        inventory.values.push((scope, key, count(&row, 2)?));
    }
    inventory.values.sort_unstable();
    let items = "SELECT run, id FROM inbox ORDER BY mark";
    for row in transaction.query(items, &[]).await? {
        let of = text::read(row.try_get(0)?);
        let odd = |_| Fault::Damaged(format!("a mailbox item of an odd run {of}"));
        let mailbox = of.parse().map_err(odd)?;
        inventory.items.push((mailbox, text::read(row.try_get(1)?)));
    }
    let blobs = "SELECT hash FROM blobs ORDER BY hash";
    for row in transaction.query(blobs, &[]).await? {
        inventory.blobs.push(digest(&row, 0)?);
    }
    transaction.commit().await?;
    Ok(inventory)
}
