//! Reads about owners: which journals other nodes have, and where those are reached.

use std::collections::HashSet;

use ghostlight_actors::{contract::StoreError, vocabulary::JournalId};

use crate::{fault::Fault, reader::Readers, rows::count, text::stored};

impl Readers {
    /// See `Journals::held_elsewhere`.
    pub(crate) async fn held(
        &self,
        node: &str,
        journals: &[JournalId],
    ) -> Result<Vec<bool>, Fault> {
        let key = |journal: &JournalId| stored(&journal.to_string()).into_owned();
        let keys: Vec<String> = journals.iter().map(key).collect();
        let held: HashSet<String> = {
            // Whether an owner lives is asked once, however many journals it has.
            let select = "WITH found AS MATERIALIZED (SELECT key, owner FROM journals \
                     WHERE key = ANY($1) AND owner <> $2 AND epoch > 0), \
                 living AS MATERIALIZED (SELECT owner FROM (SELECT DISTINCT owner FROM found) AS owners \
                     WHERE node_lives(owner)) \
                 SELECT key FROM found JOIN living USING (owner)";
            let found = self.rows(select, &[&keys, &node]).await?;
            let keys: Result<_, _> = found.iter().map(|row| row.try_get(0)).collect();
            keys?
        };
        Ok(keys.iter().map(|key| held.contains(key)).collect())
    }

    /// See `Membership::address_of`.
    pub(crate) async fn address_of(
        &self,
        node: &str,
        journal: &JournalId,
    ) -> Result<Option<String>, Fault> {
        let key = journal.to_string();
        let select = "SELECT n.address FROM journals AS j JOIN nodes AS n ON n.id = j.owner \
             WHERE j.key = $1 AND n.id <> $2 AND n.address IS NOT NULL AND node_lives(n.id)";
        let found = self.rows(select, &[&stored(&key), &node]).await?;
        Ok(found.first().map(|row| row.try_get(0)).transpose()?)
    }

    /// Refuses a journal that another node than this one owns, or that this one owns with another epoch.
    pub(crate) async fn is_owned(
        &self,
        node: &str,
        journal: &JournalId,
        epoch: u64,
    ) -> Result<(), Fault> {
        let key = journal.to_string();
        let select = "SELECT epoch, owner FROM journals WHERE key = $1";
        let found = self.rows(select, &[&stored(&key)]).await?;
        let (current, owner) = match found.first() {
            Some(row) => (count(row, 0)?, row.try_get::<_, Option<&str>>(1)?),
            None => (0, None),
        };
        match current == epoch && owner == Some(node) {
            true => Ok(()),
            false => Err(Fault::Told(StoreError::Stale {
                journal: journal.clone(),
                epoch,
                current,
            })),
        }
    }
}
