//! The batches that are under way, as rows in the store.

use ghostlight_actors::{
    contract::{Batch, Expected, StateWrite, StoreError, StoreHandle},
    vocabulary::{Digest, ModelTicket, Timestamp},
};
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;

/// The key of the row that counts the batches which began.
const COUNT: &str = "begun";

/// The batches of one server and model.
pub(super) struct Rows {
    store: StoreHandle,
    /// The scope of how they stand. No agent has a scope of this name.
    standing: String,
    /// The scope of their requests, which do not change.
    requests: String,
    /// The scope of the count.
    count: String,
}

/// A batch that has not been dealt with to its end. It is uploaded first, then submitted, then answered; whoever takes it
/// a step further writes the row first, at the version that it has read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Open {
    /// When it began.
    pub(super) made_at: Timestamp,
    /// Until when the process that wrote this deals with it.
    pub(super) held_until: Timestamp,
    /// The mark of the account that submits it; `None` in rows of older programs.
    #[serde(default)]
    pub(super) account: Option<String>,
    /// The file of its requests; `None` while it is uploaded. No batch is made of it before it stands here.
    pub(super) file: Option<String>,
    /// The time by which whoever wrote the file's name has submitted it; `None` before, and in rows of older programs.
    #[serde(default)]
    pub(super) sent_by: Option<Timestamp>,
    /// The server's id of it; `None` while its submission is under way, or was cut short.
    pub(super) batch: Option<String>,
}

/// An open batch, with its key and the version of its row.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) open: Open,
    version: u64,
}

/// The open batches.
#[derive(Default)]
pub(super) struct Found {
    pub(super) rows: Vec<Row>,
    /// The key of a row that cannot be read, which is left to the version of the program that wrote it.
    pub(super) unreadable: Option<String>,
}

impl Rows {
    pub(super) fn of(store: StoreHandle, server: &str) -> Self {
        let name = &Digest::of(server.as_bytes()).to_string()[..16];
        Self {
            store,
            standing: format!("model-batches/{name}"),
            requests: format!("model-batches/{name}/requests"),
            count: format!("model-batches/{name}/count"),
        }
    }

    /// The open batches.
    pub(super) async fn all(&self) -> Result<Found, StoreError> {
        let mut all = Found::default();
        for (key, found) in self.store.scope(self.standing.clone()).await? {
            let version = found.version;
            match Open::deserialize(&found.value) {
                Ok(open) => all.rows.push(Row { key, open, version }),
                Err(error) => {
                    tracing::warn!(key, %error, "the row of a batch cannot be read");
                    all.unreadable = Some(key);
                }
            }
        }
        Ok(all)
    }

    /// The error that says that this row cannot be read.
    pub(super) fn unreadable(&self, key: &str) -> StoreError {
        let reason = "it was written by another version of the program, or is broken".to_owned();
        let place = format!("{}/{key}", self.standing);
        StoreError::Damaged { place, reason }
    }

    /// How many batches have begun. Whoever begins one on the strength of what it read after this learns whether another
    /// one began meanwhile.
    pub(super) async fn begun(&self) -> Result<u64, StoreError> {
        let count = self.store.state(self.count.clone(), COUNT.to_owned());
        Ok(count.await?.version)
    }

    /// The row as it is now, if there is one.
    pub(super) async fn now(&self, key: &str) -> Result<Option<Row>, StoreError> {
        let slot = self.store.state(self.standing.clone(), key.to_owned());
        let Some(found) = slot.await?.present() else {
            return Ok(None);
        };
        let open = Open::deserialize(&found.value).map_err(|_| self.unreadable(key))?;
        let (key, version) = (key.to_owned(), found.version);
        Ok(Some(Row { key, open, version }))
    }

    /// The requests of a batch; `None` where it was forgotten meanwhile.
    pub(super) async fn requests(&self, key: &str) -> Result<Option<Vec<ModelTicket>>, StoreError> {
        let slot = self.store.state(self.requests.clone(), key.to_owned());
        let Some(tickets) = slot.await?.value else {
            return Ok(None);
        };
        let tickets = Vec::deserialize(tickets).map_err(|error| StoreError::Damaged {
            place: format!("{}/{key}", self.requests),
            reason: error.to_string(),
        })?;
        Ok(Some(tickets))
    }

    /// Notes a batch that is about to be uploaded, unless another one has begun since that many had: that is a conflict.
    pub(super) async fn begin(
        &self,
        key: String,
        open: Open,
        tickets: &[ModelTicket],
        begun: u64,
    ) -> Result<Row, StoreError> {
        let count = Expected::Version(begun);
        let writes = vec![
            write(&self.count, COUNT, Some(&open.made_at), count)?,
            write(&self.requests, &key, Some(tickets), Expected::Any)?,
            write(&self.standing, &key, Some(&open), Expected::Absent)?,
        ];
        self.commit(writes).await?;
        // A key is never used again.
        let version = 1;
        Ok(Row { key, open, version })
    }

    /// Changes a row, unless somebody else was faster: that is a conflict.
    pub(super) async fn change(&self, row: &mut Row, open: Open) -> Result<(), StoreError> {
        let expected = Expected::Version(row.version);
        let change = write(&self.standing, &row.key, Some(&open), expected)?;
        self.commit(vec![change]).await?;
        row.version += 1;
        row.open = open;
        Ok(())
    }

    /// Forgets a batch about which nothing is known, unless somebody else has changed its row: that is a conflict.
    pub(super) async fn give_up(&self, row: &Row) -> Result<(), StoreError> {
        self.remove(row, Expected::Version(row.version)).await
    }

    /// Forgets a batch that is over, whoever has changed its row meanwhile.
    pub(super) async fn forget(&self, row: &Row) -> Result<(), StoreError> {
        self.remove(row, Expected::Any).await
    }

    async fn remove(&self, row: &Row, expected: Expected) -> Result<(), StoreError> {
        let none = None::<&()>;
        let writes = vec![
            write(&self.standing, &row.key, none, expected)?,
            write(&self.requests, &row.key, none, Expected::Any)?,
        ];
        self.commit(writes).await
    }

    async fn commit(&self, writes: Vec<StateWrite>) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        batch.writes = writes;
        let mut committed = self.store.commit(vec![batch]).await?;
        committed.pop().unwrap_or(Err(StoreError::Closed)).map(drop)
    }
}

fn write(
    scope: &str,
    key: &str,
    value: Option<&(impl Serialize + ?Sized)>,
    expected: Expected,
) -> Result<StateWrite, StoreError> {
    let value = value.map(|value| to_raw_value(value)).transpose();
    let value = value.map_err(|error| StoreError::Unwritable {
        reason: error.to_string(),
    })?;
    Ok(StateWrite {
        scope: scope.to_owned(),
        key: key.to_owned(),
        value,
        expected,
    })
}
