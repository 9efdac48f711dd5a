//! The processes that have the store open, what each carries, and how far each is behind.

use std::{collections::HashMap, time::Duration};

use ghostlight_actors::contract::{CarriedTeam, StoreError};
use tokio_postgres::Row;

use crate::{
    PostgresStore,
    fault::Fault,
    rows::{self, count},
};

/// A process that has a store open, or had it open within the last day.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatus {
    /// Its id, by which journals name their owner.
    pub id: String,
    /// Whether it is alive. The journals of a dead process are free.
    pub lives: bool,
    /// The number of its journals whose runs have not ended.
    pub open_runs: u64,
    /// The teams that it carries. An announcement is read here within a third of the lease.
    pub carries: Vec<CarriedTeam>,
    /// Whether it is this process.
    pub is_this: bool,
    /// How long ago it renewed its lease, by the database's clock; a healthy process does so every third of its lease.
    /// `None` for a program of before this was recorded.
    pub renewed: Option<Duration>,
    /// The work that it should have done by now. That of a process that is gone is nobody's: see
    /// [`PostgresStore::unclaimed`].
    pub lag: Lag,
}

/// Work that is due and not done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lag {
    /// The number of runs that should have gone on: those that slept past the time of their waking and, where no
    /// process carries them, those that were at work.
    pub late_runs: u64,
    /// The number of messages, answers and requests to open runs that no commit has taken yet. A message that its agent
    /// does not ask for counts until the run has ended.
    pub unread: u64,
    /// How long the oldest of these has waited, by the database's clock.
    pub oldest: Option<Duration>,
}

/// The open runs of each owner. Parked runs wait for a person, and so does what is posted to them.
const OPEN_RUNS: &str = "WITH living AS MATERIALIZED (SELECT id FROM nodes WHERE node_lives(id)), \
     clock AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now), \
     unread AS MATERIALIZED (SELECT run, count(*) AS items, min(at) AS at FROM inbox \
         WHERE body IS NOT NULL GROUP BY run), \
     open AS (SELECT j.owner, l.id IS NOT NULL AS lives, u.items, u.at, \
             CASE WHEN r.status = 'waiting' THEN r.wake_at \
                  WHEN l.id IS NULL AND r.status <> 'parked' THEN j.updated_at END AS due \
         FROM runs AS r JOIN journals AS j ON j.key = r.run LEFT JOIN living AS l ON l.id = j.owner \
             LEFT JOIN unread AS u ON u.run = r.run AND r.status <> 'parked' \
         WHERE r.OPEN) \
     SELECT owner, lives, count(*), count(*) FILTER (WHERE due <= now), coalesce(sum(items), 0)::bigint, \
         greatest(0, max(now) - least(min(at), min(due) FILTER (WHERE due <= now))) \
     FROM open, clock GROUP BY owner, lives";

/// The open runs of one owner.
struct OpenRuns {
    owner: Option<String>,
    lives: bool,
    count: u64,
    lag: Lag,
}

impl OpenRuns {
    fn read(row: &Row) -> Result<Self, Fault> {
        let oldest: Option<i64> = row.try_get(5)?;
        let (late_runs, unread) = (count(row, 3)?, count(row, 4)?);
        Ok(Self {
            owner: row.try_get(0)?,
            lives: row.try_get(1)?,
            count: count(row, 2)?,
            lag: Lag {
                late_runs,
                unread,
                // Without either the database computes the greatest of 0 and NULL, which is 0.
                oldest: oldest
                    .filter(|_| late_runs + unread > 0)
                    .map(|oldest| Duration::from_millis(oldest.cast_unsigned())),
            },
        })
    }
}

impl PostgresStore {
    /// The processes that have the store open, or had it open within the last day.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the database cannot be reached.
    pub async fn nodes(&self) -> Result<Vec<NodeStatus>, StoreError> {
        let select = "SELECT id, node_lives(id), carries, \
             (extract(epoch FROM clock_timestamp() - renewed_at) * 1000)::bigint FROM nodes ORDER BY opened_at, id";
        let read = async {
            let found = self.inner.readers.rows(select, &[]).await?;
            let mut open: HashMap<String, OpenRuns> = HashMap::new();
            for runs in self.open_runs().await? {
                if let Some(owner) = &runs.owner {
                    open.insert(owner.clone(), runs);
                }
            }
            let status = |row: &Row| {
                let id: String = row.try_get(0)?;
                let (lives, runs) = (row.try_get(1)?, open.get(&id));
                let renewed: Option<i64> = row.try_get(3)?;
                Ok(NodeStatus {
                    is_this: id == self.inner.node.id,
                    id,
                    lives,
                    open_runs: runs.map_or(0, |runs| runs.count),
                    // A later program may tell more than this one can read.
                    carries: serde_json::from_str(row.try_get(2)?).unwrap_or_default(),
                    renewed: renewed.map(|age| Duration::from_millis(age.max(0).cast_unsigned())),
                    lag: runs
                        .filter(|runs| runs.lives)
                        .map(|runs| runs.lag)
                        .unwrap_or_default(),
                })
            };
            found.iter().map(status).collect::<Result<_, Fault>>()
        };
        self.told(read.await)
    }

    /// The work of all runs that no living process carries. Where it does not become less, no process that is at work
    /// has the teams and the versions of these runs, or none has room for them.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the database cannot be reached.
    pub async fn unclaimed(&self) -> Result<Lag, StoreError> {
        let open = self.told(self.open_runs().await)?;
        let of_nobody = open.into_iter().filter(|runs| !runs.lives);
        Ok(of_nobody.fold(Lag::default(), |all, runs| Lag {
            late_runs: all.late_runs + runs.lag.late_runs,
            unread: all.unread + runs.lag.unread,
            oldest: all.oldest.max(runs.lag.oldest),
        }))
    }

    async fn open_runs(&self) -> Result<Vec<OpenRuns>, Fault> {
        let select = OPEN_RUNS.replace("OPEN", rows::OPEN);
        let found = self.inner.readers.rows(&select, &[]).await?;
        found.iter().map(OpenRuns::read).collect()
    }
}
