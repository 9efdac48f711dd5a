//! How far each tree was exported, and which process exports: rows in the store.

use std::time::Duration;

use ghostlight_actors::{
    contract::{Batch, Expected, RunFilter, StateSlot, StateWrite, StoreError, StoreHandle},
    vocabulary::{Digest, JournalId, RunId},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::Instant;

/// The purpose for which the trees of a store are followed. Each purpose has a right and rows of its own: what the server counts
/// takes no spans from a process that exports, and does not wait for its collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To a collector.
    Export,
    /// For Prometheus, which asks.
    Scrape,
}

impl Purpose {
    /// The scope of the places of trees; agents have no scopes of these names.
    fn trees(self) -> &'static str {
        match self {
            Self::Export => "opentelemetry",
            Self::Scrape => "prometheus",
        }
    }

    /// The scope of what is known of the store.
    fn exporter(self) -> &'static str {
        match self {
            Self::Export => "opentelemetry-exporter",
            Self::Scrape => "prometheus-exporter",
        }
    }

    /// The journal whose owner follows. No run has its id.
    fn journal(self) -> JournalId {
        let name: &[u8] = match self {
            Self::Export => b"the exporter of OpenTelemetry",
            Self::Scrape => b"the exporter for Prometheus",
        };
        let mut bits = [0; 16];
        bits.copy_from_slice(&Digest::of(name).0[..16]);
        RunId::from_random(u128::from_be_bytes(bits)).into()
    }
}

const FOUND: &str = "found";
/// How often the right to export is asked for while another process has it.
const ASKED: Duration = Duration::from_secs(5);

/// Which trees are exported, and up to which beginning they were found; in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    /// Trees that began by then are left out if they had ended.
    pub(crate) began_ms: u64,
    /// Trees that began by then were found.
    pub(crate) until_ms: u64,
}

/// How far a tree was exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The position of the last entry whose spans were taken.
    pub(crate) after: u64,
}

/// A place, and the version of its row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) after: u64,
    pub(crate) version: u64,
}

/// The rows in a store.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    store: StoreHandle,
    purpose: Purpose,
}

impl Places {
    pub(crate) fn of(store: StoreHandle, purpose: Purpose) -> Self {
        Self { store, purpose }
    }

    /// Notes that this store is followed, unless it was before.
    pub(crate) async fn begin(&self) -> Result<(), StoreError> {
        let slot = self.slot(FOUND).await?;
        if slot.version > 0 {
            return Ok(());
        }
        let mut latest = RunFilter::default();
        latest.limit = 1;
        let latest = self.store.runs(latest).await?;
        let began_ms = latest.first().map_or(0, |row| row.started_at.0);
        let found = Found {
            began_ms,
            until_ms: began_ms,
        };
        // Another process may have been faster, and then it is right.
        self.put(FOUND, Some(&found), Expected::Version(0))
            .await
            .map(drop)
    }

    pub(crate) async fn found(&self) -> Result<Found, StoreError> {
        let slot = self.slot(FOUND).await?;
        let found = slot.value.map(|value| read(FOUND, value)).transpose()?;
        Ok(found.unwrap_or(Found {
            began_ms: 0,
            until_ms: 0,
        }))
    }

    pub(crate) async fn put_found(&self, found: Found) -> Result<(), StoreError> {
        self.put(FOUND, Some(&found), Expected::Any).await.map(drop)
    }

    /// The trees that are not exported to their ends.
    pub(crate) async fn all(&self) -> Result<Vec<(RunId, Row)>, StoreError> {
        let rows = self.store.scope(self.purpose.trees().to_owned()).await?;
        let row = |(key, row): (String, ghostlight_actors::contract::StateValue)| {
            let root = key.parse().ok()?;
            Some(read(&key, row.value).map(|place: Place| {
                let (after, version) = (place.after, row.version);
                (root, Row { after, version })
            }))
        };
        rows.into_iter().filter_map(row).collect()
    }

    /// The row of a tree; `None` where it was exported to its end.
    pub(crate) async fn tree(&self, root: RunId) -> Result<Option<Row>, StoreError> {
        let key = root.to_string();
        let slot = self
            .store
            .state(self.purpose.trees().to_owned(), key.clone())
            .await?;
        let StateSlot { value, version } = slot;
        match value {
            None if version > 0 => Ok(None),
            None => Ok(Some(Row::default())),
            Some(value) => {
                let place: Place = read(&key, value)?;
                let after = place.after;
                Ok(Some(Row { after, version }))
            }
        }
    }

    /// Writes down how far trees were exported, each with the version of its row so far; `true` for those that are over.
    /// The result is `false` if another process has written one of the rows.
    pub(crate) async fn move_on(&self, moved: &[(RunId, Row, bool)]) -> Result<bool, StoreError> {
        let batch = |(root, row, is_over): &(RunId, Row, bool)| {
            let key = root.to_string();
            let place = Place { after: row.after };
            let expected = Expected::Version(row.version);
            let mut batch = write(self.purpose.trees(), &key, Some(&place), expected)?;
            if *is_over {
                // The deletion of a row that is there leaves its version.
                let expected = Expected::Version(row.version + 1);
                let deletion = write(self.purpose.trees(), &key, None::<&Place>, expected)?;
                batch.writes.extend(deletion.writes);
            }
            Ok(batch)
        };
        let batches = moved
            .iter()
            .map(batch)
            .collect::<Result<Vec<_>, StoreError>>()?;
        let mut are_ours = true;
        for committed in self.store.commit(batches).await? {
            match committed {
                Ok(_) => {}
                Err(StoreError::Conflict { .. }) => are_ours = false,
                Err(error) => return Err(error),
            }
        }
        Ok(are_ours)
    }

    async fn slot(&self, key: &str) -> Result<StateSlot, StoreError> {
        self.store
            .state(self.purpose.exporter().to_owned(), key.to_owned())
            .await
    }

    async fn put<T: Serialize>(
        &self,
        key: &str,
        value: Option<&T>,
        expected: Expected,
    ) -> Result<bool, StoreError> {
        let batch = write(self.purpose.exporter(), key, value, expected)?;
        match self.store.commit(vec![batch]).await?.pop() {
            Some(Err(StoreError::Conflict { .. })) => Ok(false),
            Some(Err(error)) => Err(error),
            Some(Ok(_)) | None => Ok(true),
        }
    }
}

/// The right to export the trees of a store, which one process has at a time: it owns a journal without entries, as
/// processes own those of the runs that they carry. A process that lost it without noticing is stopped by the versions
/// of the rows.
#[derive(Debug)]
pub(crate) struct Right {
    store: StoreHandle,
    purpose: Purpose,
    /// The epoch of our claim, and the term in which it was confirmed.
    held: Option<(u64, Option<u64>)>,
    /// When it was asked for in vain.
    refused: Option<Instant>,
}

impl Right {
    pub(crate) fn of(store: StoreHandle, purpose: Purpose) -> Self {
        Self {
            store,
            purpose,
            held: None,
            refused: None,
        }
    }

    /// Whether this process has the right now. It takes it where no living process has it, and with `now` it asks for it
    /// at once.
    pub(crate) async fn hold(&mut self, now: bool) -> Result<bool, StoreError> {
        let journal = self.purpose.journal();
        if let Some((epoch, term)) = self.held {
            if term.is_some() && self.store.term() == term {
                return Ok(true);
            }
            match self.store.confirm(journal.clone(), epoch).await {
                Ok(term) => {
                    self.held = Some((epoch, Some(term)));
                    return Ok(true);
                }
                Err(StoreError::Stale { .. }) => self.held = None,
                Err(error) => return Err(error),
            }
        }
        if !now && self.refused.is_some_and(|at| at.elapsed() < ASKED) {
            return Ok(false);
        }
        match self.store.claim(journal, false).await {
            Ok(claim) => {
                (self.held, self.refused) = (Some((claim.epoch, None)), None);
                Ok(true)
            }
            Err(StoreError::Owned { .. }) => {
                self.refused = Some(Instant::now());
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

fn read<T: DeserializeOwned>(key: &str, value: serde_json::Value) -> Result<T, StoreError> {
    serde_json::from_value(value).map_err(|error| StoreError::Damaged {
        place: format!("the place {key:?} of OpenTelemetry's exporter"),
        reason: error.to_string(),
    })
}

fn write<T: Serialize>(
    scope: &str,
    key: &str,
    value: Option<&T>,
    expected: Expected,
) -> Result<Batch, StoreError> {
    let value: Option<Result<Box<RawValue>, _>> = value.map(to_raw_value);
    let value = value.transpose().map_err(|error| StoreError::Unwritable {
        reason: error.to_string(),
    })?;
    let mut batch = Batch::default();
    batch.writes.push(StateWrite {
        scope: scope.to_owned(),
        key: key.to_owned(),
        value,
        expected,
    });
    Ok(batch)
}
