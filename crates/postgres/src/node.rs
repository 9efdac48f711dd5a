//! This process among the nodes that have the store open.
//!
//! A node is alive as long as it holds the advisory lock of its number and its lease has not
//! expired. The lock ends with the connection, so the journals of a dead process are free as soon
//! as the server notices its end. The lease ends the ownership of a frozen or disconnected process.
//! Lock and lease only decide when other nodes *may* claim; the former owner is fenced by the epoch
//! in each append.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::oneshot, task::JoinHandle, time};
use tokio_postgres::Client;

use crate::{connection::Address, fault::Fault};

/// The first of the two numbers of our advisory locks; `schema/1.sql` uses it too.
const LOCKS: i32 = 1_735_943_795;

/// How many commits are remembered, so that a node can find its own.
const COMMITS_KEPT: i64 = 100_000;

/// This process's registration. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: String,
    /// What this process carries, as JSON.
    carries: Arc<Mutex<String>>,
    closing: Mutex<Option<oneshot::Sender<oneshot::Sender<()>>>>,
    task: JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Node {
    /// Registers under an id that is never reused, and renews the lease from then on.
    pub(crate) async fn register(address: Address, lease: Duration) -> Result<Self, Fault> {
        let id = format!("{}-{:016x}", std::process::id(), rand::random::<u64>());
        let carries = Arc::new(Mutex::new("[]".to_owned()));
        let registration = Registration {
            id: id.clone(),
            carries: carries.clone(),
            address,
            lease,
        };
        let first = registration.connect().await?;
        let (closing, close) = oneshot::channel();
        let task = tokio::spawn(registration.keep(first, close));
        Ok(Self {
            id,
            carries,
            closing: Mutex::new(Some(closing)),
            task,
        })
    }

    /// Sets what this process carries, as JSON; each renewal of the lease tells it anew.
    pub(crate) fn announce(&self, carries: String) {
        *self.carries.lock() = carries;
    }

    /// Releases all journals of this process.
    pub(crate) async fn leave(&self) {
        let closing = self.closing.lock().take();
        if let Some(closing) = closing {
            let (done, left) = oneshot::channel();
            if closing.send(done).is_ok() {
                // If the sender was dropped, the task is over as well.
                let _ = left.await;
            }
        }
    }
}

/// An owner, for people.
pub(crate) fn in_words(id: &str) -> String {
    let process = id.split('-').next().unwrap_or(id);
    format!("process {process} (node {id})")
}

/// A connection, and the task that drives it.
struct Line {
    client: Client,
    carrier: JoinHandle<()>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.carrier.abort();
    }
}

struct Registration {
    id: String,
    carries: Arc<Mutex<String>>,
    address: Address,
    lease: Duration,
}

impl Registration {
    async fn keep(self, first: Line, mut close: oneshot::Receiver<oneshot::Sender<()>>) {
        let mut line = Some(first);
        let beat = self.lease / 3;
        loop {
            tokio::select! {
                asked = &mut close => {
                    if let (Ok(done), Some(line)) = (asked, &line) {
                        self.remove(line).await;
                        drop(done);
                    }
                    return;
                }
                () = time::sleep(beat) => {}
            }
            let kept = match &line {
                Some(line) => self.renew(line).await,
                None => Err(Fault::Away("it is not connected".to_owned())),
            };
            if let Err(fault) = kept {
                tracing::warn!(node = %self.id, ?fault, "the lease was not renewed; connecting again");
                // The old connection is closed first, which releases the lock of the old number.
                drop(line.take());
                match time::timeout(self.lease, self.connect()).await {
                    Ok(Ok(again)) => line = Some(again),
                    Ok(Err(fault)) => tracing::warn!(node = %self.id, ?fault, "no connection"),
                    Err(_) => tracing::warn!(node = %self.id, "no connection in time"),
                }
            }
        }
    }

    /// Connects, takes the lock of a new number and begins the lease.
    async fn connect(&self) -> Result<Line, Fault> {
        let (client, connection) = self
            .address
            .config
            .connect(self.address.tls.clone())
            .await?;
        let carrier = tokio::spawn(async move {
            // The next renewal reports why the connection broke.
            let _ = connection.await;
        });
        let line = Line { client, carrier };
        let number = loop {
            let number = rand::random::<i32>().saturating_abs();
            let lock = "SELECT pg_try_advisory_lock($1, $2)";
            let row = line.client.query_one(lock, &[&LOCKS, &number]).await?;
            if row.try_get(0)? {
                break number;
            }
        };
        let begin = "INSERT INTO nodes(id, number, lease_until, carries) \
             VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond', $4) \
             ON CONFLICT (id) DO UPDATE SET number = excluded.number, lease_until = excluded.lease_until";
        let (lease, carries) = (self.lease.as_millis() as f64, self.carries.lock().clone());
        line.client
            .execute(begin, &[&self.id, &number, &lease, &carries])
            .await?;
        Ok(line)
    }

    async fn renew(&self, line: &Line) -> Result<(), Fault> {
        let renew = "UPDATE nodes SET lease_until = clock_timestamp() + $2 * interval '1 millisecond', \
             carries = $3 WHERE id = $1";
        let (lease, carries) = (self.lease.as_millis() as f64, self.carries.lock().clone());
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&self.id, &lease, &carries];
        let renewed = line.client.execute(renew, &parameters);
        let in_time = time::timeout(self.lease / 3, renewed).await;
        let rows = in_time.map_err(|_| Fault::Away("no answer in time".to_owned()))??;
        if rows == 0 {
            return Err(Fault::Away("its row is gone".to_owned()));
        }
        let forget = "WITH old AS (DELETE FROM nodes WHERE lease_until < clock_timestamp() - interval '1 day') \
             DELETE FROM commits WHERE number < (SELECT commit FROM tail) - $1";
        line.client.execute(forget, &[&COMMITS_KEPT]).await?;
        Ok(())
    }

    async fn remove(&self, line: &Line) {
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&self.id];
        let removed = line
            .client
            .execute("DELETE FROM nodes WHERE id = $1", &parameters);
        if !matches!(time::timeout(self.lease, removed).await, Ok(Ok(_))) {
            // The lock ends with the connection, and the lease expires.
            tracing::debug!(node = %self.id, "the node's row was not removed");
        }
    }
}
