//! The names of everything that a file holds.

use ghostlight_actors::{contract::Inventory, vocabulary::Digest};
use rusqlite::Connection;

use super::{
    deletion,
    fault::Fault,
    rows::{self, JournalRow, StateRow},
};

/// See `Index::inventory`. Each row is compared with its check.
pub(super) fn read(connection: &Connection) -> Result<Inventory, Fault> {
    let mut inventory = Inventory::default();
    let journals = "SELECT key, id, root, epoch, owner, digest FROM journals ORDER BY key";
    let mut select = connection.prepare(journals)?;
    let mut found = select.query([])?;
    while let Some(row) = found.next()? {
        let journal = JournalRow::from_row(row)?;
        let key = rows::needed(row, 0)?;
        // A root that only its children name was not claimed, and a journal being deleted counts as
        // gone.
        if journal.epoch > 0 && !deletion::is_doomed(key) {
            let odd = |_| Fault::Damaged(format!("journal {key} has an odd key"));
            inventory
                .journals
                .push((key.parse().map_err(odd)?, journal.epoch));
        }
    }
    let values = "SELECT scope, key, value, version, digest FROM state ORDER BY scope, key";
    let mut select = connection.prepare(values)?;
    let mut found = select.query([])?;
    while let Some(row) = found.next()? {
        let version = StateRow::from_row(row)?.version;
        let (scope, key) = (rows::needed(row, 0)?, rows::needed(row, 1)?);
        inventory
            .values
            .push((scope.to_owned(), key.to_owned(), version));
    }
    // The row that only keeps a mark from being reused is not an item.
    let items = "SELECT run, id, at, body, digest FROM inbox WHERE run <> '' ORDER BY mark";
    let mut select = connection.prepare(items)?;
    let mut found = select.query([])?;
    while let Some(row) = found.next()? {
        rows::read_item(row)?;
        let (run, id) = (rows::needed(row, 0)?, rows::needed(row, 1)?);
        let odd = |_| Fault::Damaged(format!("mailbox item {id} of an odd run {run}"));
        inventory
            .items
            .push((run.parse().map_err(odd)?, id.to_owned()));
    }
    let mut select = connection.prepare("SELECT hash FROM blobs ORDER BY hash")?;
    let blobs = select.query_map([], |row| Ok(Digest(row.get(0)?)))?;
    inventory.blobs = blobs.collect::<Result<_, _>>()?;
    Ok(inventory)
}
