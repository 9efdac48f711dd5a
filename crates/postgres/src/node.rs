//! This process among the nodes that have the store open.
//!
//! A node is alive as long as it holds the advisory lock of its number and its lease has not
//! expired. The lock ends with the connection, so the journals of a dead process are free as soon
//! as the server notices its end. The lease ends the ownership of a frozen or disconnected process.
//! Lock and lease only decide when other nodes *may* claim; the former owner is fenced by the epoch
//! in each append.
//!
//! A frozen process may have been told of an append, and act on it after another process has taken its
//! place. So the time for which the lease surely held is a *term*, by this process's own clock: it
//! begins when the lease is made, and ends when the lease is not renewed in time or its connection ends. The time in which
//! its machine was asleep counts too, which only the wall clock tells.
//!
//! This process hears later than the database that its connection ended, and an effect begins a moment after its run looked
//! at the term. So a journal keeps until when its former owner may still begin effects (`settles_at`), which is one lease
//! after that owner's lease, unless it left or is seen to have ended: no run asks before what became of an effect.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use ghostlight_actors::contract::News;
use parking_lot::Mutex;
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{self, Instant},
};
use tokio_postgres::Client;

use crate::{
    connection::Address,
    fault::Fault,
    news::{self, LEFT},
    process,
};

/// The first of the two numbers of our advisory locks; `schema/1.sql` uses it too.
const LOCKS: i32 = 1_735_943_795;

/// The pauses between two attempts to connect again.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Read before a term begins: a claim that found this node dead is committed once this gets the lock, and a later one
/// finds it alive.
const LAST: &str = "SELECT FROM tail FOR SHARE";

/// How many commits are remembered, so that a node can find its own.
const COMMITS_KEPT: i64 = 100_000;

/// This process's registration. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: String,
    told: Arc<Mutex<Told>>,
    lease: watch::Receiver<Lease>,
    /// Between two connections no notice of another node is heard, but nothing is owned either; the next connection counts
    /// as a notice of each kind.
    pub(crate) news: News,
    closing: Mutex<Option<oneshot::Sender<oneshot::Sender<()>>>>,
    task: JoinHandle<()>,
}

/// The facts that a process tells the others of itself.
#[derive(Clone, Debug)]
struct Told {
    /// The teams that it carries, as JSON.
    carries: String,
    /// Where its server is reached.
    address: Option<String>,
}

/// The knowledge of this process about its lease.
#[derive(Clone, Copy, Debug)]
struct Lease {
    term: u64,
    /// Until when it surely holds; `None` without a connection.
    until: Option<End>,
}

impl Lease {
    fn term(&self) -> Option<u64> {
        self.until
            .is_some_and(|until| !until.has_come())
            .then_some(self.term)
    }

    /// Begins the next term.
    fn begun(&mut self, until: End) {
        self.term += 1;
        self.until = Some(until);
    }
}

/// A time by both clocks: the monotonic one stands still while the machine is asleep, and the other one may be set back.
#[derive(Clone, Copy, Debug)]
struct End {
    monotonic: Instant,
    wall: SystemTime,
}

impl End {
    fn after(time: Duration) -> Self {
        Self {
            monotonic: Instant::now() + time,
            wall: SystemTime::now() + time,
        }
    }

    fn has_come(self) -> bool {
        self.monotonic <= Instant::now() || self.wall <= SystemTime::now()
    }
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
        let told = Arc::new(Mutex::new(Told {
            carries: "[]".to_owned(),
            address: None,
        }));
        let (held, lease_held) = watch::channel(Lease {
            term: 0,
            until: None,
        });
        let news = News::default();
        let registration = Registration {
            id: id.clone(),
            news: news.clone(),
            told: told.clone(),
            address,
            lease,
            held: Arc::new(held),
        };
        let first = registration.connect().await?;
        let (closing, close) = oneshot::channel();
        let task = tokio::spawn(registration.keep(first, close));
        Ok(Self {
            id,
            told,
            lease: lease_held,
            news,
            closing: Mutex::new(Some(closing)),
            task,
        })
    }

    /// Sets what this process carries, as JSON; each renewal of the lease tells it anew.
    pub(crate) fn announce(&self, carries: String) {
        self.told.lock().carries = carries;
    }

    /// Sets where the server of this process is reached; each renewal of the lease tells it anew.
    pub(crate) fn advertise(&self, address: Option<String>) {
        self.told.lock().address = address;
    }

    /// See `Journals::term`.
    pub(crate) fn term(&self) -> Option<u64> {
        self.lease.borrow().term()
    }

    /// Waits until a term has begun.
    pub(crate) async fn in_term(&self) -> Option<u64> {
        let mut lease = self.lease.clone();
        let held = lease.wait_for(|lease| lease.term().is_some()).await;
        // Without the task that renews it, the store was closed.
        held.ok().and_then(|lease| lease.term())
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

/// Returns when the connection has ended; never without one.
async fn ended(line: &mut Option<Line>) {
    match line {
        Some(line) if line.carrier.is_finished() => {}
        Some(line) => {
            let _ = (&mut line.carrier).await;
        }
        None => std::future::pending().await,
    }
}

struct Registration {
    id: String,
    told: Arc<Mutex<Told>>,
    address: Address,
    lease: Duration,
    news: News,
    held: Arc<watch::Sender<Lease>>,
}

impl Registration {
    async fn keep(self, first: Line, mut close: oneshot::Receiver<oneshot::Sender<()>>) {
        let mut line = Some(first);
        let beat = self.lease / 3;
        let mut pause = FIRST_PAUSE;
        loop {
            // Without a connection nothing is owned and no notice is heard, so it is tried again soon.
            let wait = match line {
                Some(_) => beat,
                None => pause.min(beat),
            };
            tokio::select! {
                asked = &mut close => {
                    self.held.send_modify(|lease| lease.until = None);
                    if let (Ok(done), Some(line)) = (asked, &line) {
                        self.remove(line).await;
                        drop(done);
                    }
                    return;
                }
                () = time::sleep(wait) => {}
                // What this process owns is free from now on, so it registers again at once.
                () = ended(&mut line) => {}
            }
            let kept = match &line {
                Some(line) => self.renew(line).await,
                None => Err(Fault::Away("it is not connected".to_owned())),
            };
            if let Err(fault) = kept {
                tracing::warn!(node = %self.id, ?fault, "the lease was not renewed; connecting again");
                self.held.send_modify(|lease| lease.until = None);
                // The old connection is closed first, which releases the lock of the old number, and others may claim.
                drop(line.take());
                pause = (pause * 2).min(LONGEST_PAUSE);
                match time::timeout(self.lease, self.connect()).await {
                    Ok(Ok(again)) => (line, pause) = (Some(again), FIRST_PAUSE),
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
        let (held, news, id) = (self.held.clone(), self.news.clone(), self.id.clone());
        let carrier = tokio::spawn(async move {
            // The next renewal reports why the connection broke.
            news::hear(&news, connection, &id).await;
            held.send_modify(|lease| lease.until = None);
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
        let listen = format!("LISTEN \"{}\"", self.address.schema);
        line.client.batch_execute(&listen).await?;
        let begin = "INSERT INTO nodes(id, number, lease_until, carries, address, process, renewed_at) \
             VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond', $4, $5, $6, clock_timestamp()) \
             ON CONFLICT (id) DO UPDATE SET number = excluded.number, lease_until = excluded.lease_until, \
             renewed_at = excluded.renewed_at";
        let (lease, told) = (self.lease.as_millis() as f64, self.told.lock().clone());
        let until = End::after(self.lease);
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 6] = [
            &self.id,
            &number,
            &lease,
            &told.carries,
            &told.address,
            &process::this(),
        ];
        line.client.execute(begin, &parameters).await?;
        line.client.query_one(LAST, &[]).await?;
        self.held.send_modify(|lease| lease.begun(until));
        // The notices that were given before this connection listened were told to nobody.
        self.news.tell_all();
        Ok(line)
    }

    async fn renew(&self, line: &Line) -> Result<(), Fault> {
        let renew = "WITH before AS (SELECT lease_until > clock_timestamp() AS held FROM nodes WHERE id = $1 FOR UPDATE) \
             UPDATE nodes SET lease_until = clock_timestamp() + $2 * interval '1 millisecond', \
             carries = $3, address = $4, renewed_at = clock_timestamp() FROM before WHERE id = $1 RETURNING held";
        let (lease, told) = (self.lease.as_millis() as f64, self.told.lock().clone());
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&self.id, &lease, &told.carries, &told.address];
        let until = End::after(self.lease);
        let renewed = line.client.query_opt(renew, &parameters);
        let in_time = time::timeout(self.lease / 3, renewed).await;
        let row = in_time.map_err(|_| Fault::Away("no answer in time".to_owned()))??;
        let row = row.ok_or_else(|| Fault::Away("its row is gone".to_owned()))?;
        // Between two terms others might claim what is this node's, so the database is asked too.
        let is_unbroken = row.try_get::<_, bool>(0)? && self.held.borrow().term().is_some();
        match is_unbroken {
            true => self.held.send_modify(|lease| lease.until = Some(until)),
            false => {
                self.held.send_modify(|lease| lease.until = None);
                let last = time::timeout(self.lease, line.client.query_one(LAST, &[]));
                last.await
                    .map_err(|_| Fault::Away("no answer in time".to_owned()))??;
                self.held.send_modify(|lease| lease.begun(until));
            }
        }
        let forget = "WITH old AS (DELETE FROM nodes WHERE lease_until < clock_timestamp() - interval '1 day') \
             DELETE FROM commits WHERE number < (SELECT commit FROM tail) - $1";
        line.client.execute(forget, &[&COMMITS_KEPT]).await?;
        Ok(())
    }

    async fn remove(&self, line: &Line) {
        let leave = "WITH gone AS (DELETE FROM nodes WHERE id = $1 RETURNING id) \
             SELECT pg_notify(current_schema(), $2 || id) FROM gone";
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&self.id, &LEFT];
        let removed = line.client.execute(leave, &parameters);
        if !matches!(time::timeout(self.lease, removed).await, Ok(Ok(_))) {
            // The lock ends with the connection, and the lease expires.
            tracing::debug!(node = %self.id, "the node's row was not removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_by_whichever_clock_says_so_first() {
        let (ahead, past) = (Duration::from_secs(60), Duration::from_secs(1));
        let mut lease = Lease {
            term: 0,
            until: None,
        };
        assert_eq!(lease.term(), None);
        lease.begun(End::after(ahead));
        assert_eq!(lease.term(), Some(1));
        // The machine was asleep, and its monotonic clock stood still.
        let mut slept = End::after(ahead);
        slept.wall = SystemTime::now() - past;
        // Or its wall clock was set back.
        let mut set_back = End::after(ahead);
        set_back.monotonic = Instant::now();
        for over in [slept, set_back] {
            lease.until = Some(over);
            assert_eq!(lease.term(), None);
        }
        lease.begun(End::after(ahead));
        assert_eq!(lease.term(), Some(2));
    }
}
