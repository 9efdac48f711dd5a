//! The task that commits: requests are collected while a commit is under way, and the next commit
//! takes them all.
//!
//! A commit takes two round trips. The first locks the row `tail` and loads what the group names and this node does
//! not keep (`heads`); the group is then checked in memory ([`Group`]); the second writes the changes and commits.
//! One round trip does both if this node keeps all that a group names, and other nodes have not committed for a while: the
//! node goes by the end of the store as its last commit left it. If another node has committed since, the number of the commit
//! is taken, and the database refuses it.
//! When the connection breaks during a commit, its outcome is unknown. The next connection determines
//! the outcome by the commit's number and digest, and repeats the commit only if it did not happen.

use std::{
    collections::{HashMap, VecDeque},
    future,
    sync::Arc,
    time::Duration,
};

use futures_util::TryFutureExt as _;
use ghostlight_actors::{
    contract::{BoxFuture, News, Notice, StoreError},
    vocabulary::Digest,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time,
};
use tokio_postgres::{Client, Error, types::ToSql};

use crate::{
    burst, chain,
    connection::Address,
    fault::Fault,
    group::{Group, Head, Tail},
    health::Health,
    rows::{count, digest, number},
    statements::Statements,
    wanted::Wanted,
    work::{Told, Work},
};

/// The most requests in one commit.
const GROUP: usize = 512;

/// Has the planner use indexes, and make each plan once; without compiling plans, since the one row of `tail` has no
/// key, so its plan would count as costly. Each statement sees what was committed before it, whatever the database's
/// default.
const BY_KEY: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
     SET plan_cache_mode = force_generic_plan; SET jit = off; \
     SET default_transaction_isolation = 'read committed'";

/// The most bytes in one commit. PostgreSQL ends the connection of a client whose message has 1 GB or more, and says
/// nothing; half of it leaves room for what comes with the texts.
const LARGEST: usize = 512 << 20;

/// The most journals whose heads are kept.
const HEADS: usize = 16_384;

/// After how many commits in a row the next one is expected to follow this node's own. If that fails, it is made twice.
const UNDISTURBED: u32 = 8;

/// The longest pause between two attempts to reach the database.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

struct Request {
    work: Work,
    reply: oneshot::Sender<Result<Told, StoreError>>,
}

/// The handle of the committer. Dropping it ends the task.
#[derive(Debug)]
pub(crate) struct Committer {
    sender: mpsc::UnboundedSender<Request>,
    health: Arc<Health>,
    task: JoinHandle<()>,
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Committer {
    /// Starts the task. A database that has not answered for `silence` counts as away.
    pub(crate) fn start(
        address: Address,
        node: String,
        news: News,
        health: Arc<Health>,
        silence: Duration,
    ) -> Self {
        let (sender, requests) = mpsc::unbounded_channel();
        let service = Service {
            address,
            node,
            news,
            health: health.clone(),
            silence,
            link: None,
            last: None,
            doubtful: None,
            heads: HashMap::new(),
            assumes: false,
            end: None,
            undisturbed: 0,
        };
        let task = tokio::spawn(service.run(requests));
        Self {
            sender,
            health,
            task,
        }
    }

    /// Submits a request, and returns when the result is durable.
    pub(crate) async fn submit(&self, work: Work) -> Result<Told, StoreError> {
        self.health.check()?;
        let (reply, told) = oneshot::channel();
        let sent = self.sender.send(Request { work, reply });
        sent.map_err(|_| StoreError::Closed)?;
        told.await.unwrap_or(Err(StoreError::Closed))
    }
}

/// A connection with its prepared statements.
pub(crate) struct Link {
    pub(crate) client: Client,
    carrier: JoinHandle<()>,
    pub(crate) statements: Statements,
    /// Whether nothing was committed over it yet.
    is_fresh: bool,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.carrier.abort();
    }
}

/// A commit whose outcome is unknown.
struct Doubtful {
    number: u64,
    digest: Digest,
    told: Vec<Told>,
}

struct Service {
    address: Address,
    node: String,
    news: News,
    health: Arc<Health>,
    silence: Duration,
    link: Option<Link>,
    /// The last commit that this process knows of.
    last: Option<(u64, Digest)>,
    doubtful: Option<Doubtful>,
    /// Journals of this node by their keys, as its last commits left them. They are not read again: the database compares
    /// owner, epoch and number of entries when it writes the next entries, and refuses the commit if one differs.
    heads: HashMap<String, Head>,
    /// Whether the commit under way goes by such heads.
    assumes: bool,
    /// The end of the store as the last commit of this node left it.
    end: Option<Tail>,
    /// The number of commits of this node that followed each other without one of another node between them.
    undisturbed: u32,
}

impl Service {
    async fn run(mut self, mut requests: mpsc::UnboundedReceiver<Request>) {
        let mut group = Vec::new();
        while requests.recv_many(&mut group, GROUP).await > 0 {
            let (works, replies): (Vec<Work>, VecDeque<_>) = group
                .drain(..)
                .map(|Request { work, reply }| (work, reply))
                .unzip();
            let mut told = VecDeque::from(self.carry(&works).await);
            for reply in replies {
                // The caller may have stopped waiting.
                let _ = reply.send(told.pop_front().unwrap_or(Err(StoreError::Closed)));
            }
        }
    }

    /// Carries requests in one commit. If the database refuses something in them, such as a key that is too long for
    /// an index, halves are carried by themselves, until only the refused request or batch is told.
    fn carry<'s>(&'s mut self, works: &'s [Work]) -> BoxFuture<'s, Vec<Result<Told, StoreError>>> {
        Box::pin(async move {
            let size: usize = works.iter().map(Work::size).sum();
            let refused = match size > LARGEST {
                true => StoreError::Io {
                    place: self.health.place.clone(),
                    reason: format!(
                        "{size} bytes are more than the {LARGEST} that one commit may have"
                    ),
                },
                false => match self.together(works).await {
                    Ok(told) => return told.into_iter().map(Ok).collect(),
                    Err(refused) => refused,
                },
            };
            match works {
                _ if !matches!(refused, StoreError::Io { .. }) => {}
                [] => {}
                [Work::Commit(batches)] if batches.len() > 1 => {
                    let (first, second) = batches.split_at(batches.len() / 2);
                    let mut committed = Vec::with_capacity(batches.len());
                    for half in [first, second] {
                        let alone = [Work::Commit(half.to_vec())];
                        match self.carry(&alone).await.pop() {
                            Some(Ok(Told::Committed(told))) => committed.extend(told),
                            Some(Err(error)) => {
                                committed.extend(half.iter().map(|_| Err(error.clone())))
                            }
                            _ => {}
                        }
                    }
                    return vec![Ok(Told::Committed(committed))];
                }
                [_] => {}
                _ => {
                    let (first, second) = works.split_at(works.len() / 2);
                    let mut told = self.carry(first).await;
                    told.extend(self.carry(second).await);
                    return told;
                }
            }
            let told = |work: &Work| match refused.clone() {
                StoreError::Io { place, reason } => {
                    let to = work.place();
                    StoreError::Refused { place, to, reason }
                }
                other => other,
            };
            works.iter().map(|work| Err(told(work))).collect()
        })
    }

    /// Retries until the database has accepted or refused the requests.
    async fn together(&mut self, works: &[Work]) -> Result<Vec<Told>, StoreError> {
        // Requests that were refused while their commit was in doubt have had their answer.
        self.doubtful = None;
        let mut pause = Duration::from_millis(10);
        loop {
            self.health.check()?;
            let (health, silence) = (self.health.clone(), self.silence);
            let silent = async move {
                time::sleep(silence).await;
                health.away("it does not answer");
                std::future::pending().await
            };
            let attempted = tokio::select! {
                attempted = self.attempt(works) => attempted,
                never = silent => never,
            };
            let fault = match attempted {
                Ok(told) => return Ok(told),
                Err(fault) => fault,
            };
            self.link = None;
            self.heads.clear();
            self.end = None;
            match fault {
                Fault::Away(reason) => {
                    self.health.away(&reason);
                    time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                // Perhaps another node has taken a journal. All are looked up now.
                _ if std::mem::take(&mut self.assumes) => {}
                // The transaction was rolled back, so other nodes may continue.
                other => {
                    let error = other.at(&self.health.place);
                    if matches!(error, StoreError::Truncated { .. }) {
                        self.health.fail(error.clone());
                    }
                    return Err(error);
                }
            }
        }
    }

    async fn attempt(&mut self, works: &[Work]) -> Result<Vec<Told>, Fault> {
        let mut link = match self.link.take() {
            Some(link) if !link.client.is_closed() => link,
            _ => self.connect().await?,
        };
        let told = self.transaction(&link, works).await?;
        link.is_fresh = false;
        self.link = Some(link);
        self.health.back();
        Ok(told)
    }

    async fn connect(&self) -> Result<Link, Fault> {
        let (client, connection) = self
            .address
            .config
            .connect(self.address.tls.clone())
            .await?;
        let carrier = tokio::spawn(async move {
            // The next request reports why the connection broke.
            let _ = connection.await;
        });
        // A commit is acknowledged only when it is on disk, whatever the database's default.
        let durable = "SELECT set_config('synchronous_commit', 'on', false) \
             WHERE current_setting('synchronous_commit') IN ('off', 'local')";
        client.query(durable, &[]).await?;
        // Every statement here finds its rows by a key. Without statistics, which a new table does not have, the
        // planner reads the whole table for each group instead, and keeps the plan as the table grows.
        client.batch_execute(BY_KEY).await?;
        let statements = Statements::prepare(&client).await?;
        Ok(Link {
            client,
            carrier,
            statements,
            is_fresh: true,
        })
    }

    async fn transaction(&mut self, link: &Link, works: &[Work]) -> Result<Vec<Told>, Fault> {
        let client = &link.client;
        let mut wanted = Wanted::of(works, &mut self.heads);
        self.assumes = !wanted.assumed.is_empty();
        let node = self.node.clone();
        let expected = self.end.take().filter(|_| {
            self.undisturbed >= UNDISTURBED && !link.is_fresh && wanted.nothing_is_to_be_found()
        });
        if let Some(end) = expected {
            let mut group = Group::new(&node, end);
            group.heads = std::mem::take(&mut wanted.assumed);
            let told = answers(&mut group, works);
            if !group.is_empty() && !told.iter().any(Told::is_refusal) {
                let begin = client.batch_execute("BEGIN");
                let lock = client.query_one(&link.statements.lock, &[]);
                let opening = async move { futures_util::try_join!(begin, lock).map(drop) };
                match self.write(link, opening, group, told).await {
                    Err(Fault::Refused(_)) => {}
                    written => return written,
                }
                // A statement that could not be sent has left the transaction open.
                client.batch_execute("ROLLBACK").await?;
                (self.doubtful, self.undisturbed) = (None, 0);
            }
            // What is told to the caller rests on rows that were read.
            (self.heads, self.assumes) = (HashMap::new(), false);
            wanted = Wanted::of(works, &mut self.heads);
        }
        let lock = client.query_one(&link.statements.lock, &[]);
        // All are sent at once. The database carries them one after the other, each with what was committed before it.
        let begin = client.batch_execute("BEGIN");
        let ((), row, found) = futures_util::try_join!(begin, lock, wanted.find(link, &node))?;
        let tail = Tail {
            commit: count(&row, 0)?,
            digest: digest(&row, 1)?,
            position: count(&row, 2)?,
            journal: row.try_get(3)?,
            mark: count(&row, 4)?,
            now: row.try_get(5)?,
        };
        if self.find_out(link, tail).await? {
            // The answer to this may be lost too: only then is the outcome forgotten.
            client.batch_execute("ROLLBACK").await?;
            return Ok(self.settle());
        }
        let follows = self.last.is_some_and(|(last, _)| last == tail.commit);
        self.undisturbed = if follows {
            self.undisturbed.saturating_add(1)
        } else {
            0
        };
        let mut group = Group::new(&node, tail);
        group.heads = std::mem::take(&mut wanted.assumed);
        found.read_into(&mut group)?;
        let mut told = answers(&mut group, works);
        if self.assumes && told.iter().any(Told::is_refusal) {
            // A refusal is told to the caller, so it must rest on rows that were read, not on heads that were kept.
            (self.heads, self.assumes) = (HashMap::new(), false);
            wanted = Wanted::of(works, &mut self.heads);
            let found = wanted.find(link, &node).await?;
            group = Group::new(&node, tail);
            found.read_into(&mut group)?;
            told = answers(&mut group, works);
        }
        if group.is_empty() {
            client.batch_execute("ROLLBACK").await?;
            return Ok(told);
        }
        self.write(link, future::ready(Ok(())), group, told).await
    }

    /// Writes the changes of a group and commits them. The transaction begins with `opening`, or has begun.
    async fn write(
        &mut self,
        link: &Link,
        opening: impl Future<Output = Result<(), Error>>,
        group: Group<'_>,
        told: Vec<Told>,
    ) -> Result<Vec<Told>, Fault> {
        let commit = group.tail.commit + 1;
        let changed = group.changed.iter().filter_map(|key| group.heads.get(key));
        let mut hashes: Vec<&Digest> = changed.map(|head| &head.hash).collect();
        hashes.sort_unstable_by_key(|digest| digest.0);
        let before = &group.tail.digest;
        let digest = chain::commit(before, commit, group.node, hashes.into_iter());
        self.doubtful = Some(Doubtful {
            number: commit,
            digest,
            told,
        });
        // All are sent at once. If a statement is refused, the database answers COMMIT by rolling back, and the refusal is
        // the result.
        let write = burst::write(link, &group, commit, digest);
        let end = link.client.batch_execute("COMMIT").map_err(Fault::from);
        futures_util::try_join!(opening.map_err(Fault::from), write, end)?;
        // Where this answer is lost, those who wait here look after a second.
        for run in group.rested() {
            self.news.tell(Notice::Rested(run));
        }
        self.end = Some(Tail {
            commit,
            digest,
            ..group.tail
        });
        self.remember(group.heads);
        Ok(self.settle())
    }

    /// Keeps the heads of this node's journals for the next commits.
    fn remember(&mut self, heads: HashMap<String, Head>) {
        if self.heads.len() > HEADS {
            self.heads.clear();
        }
        for (key, mut head) in heads {
            if head.entries > 0 && head.owner.as_deref() == Some(&self.node) {
                head.before = head.entries;
                (head.is_new, head.beyond_end) = (false, false);
                self.heads.insert(key, head);
            }
        }
    }

    /// Takes note that the doubtful commit happened, and returns its results.
    fn settle(&mut self) -> Vec<Told> {
        let Some(done) = self.doubtful.take() else {
            return Vec::new();
        };
        self.last = Some((done.number, done.digest));
        done.told
    }

    /// Whether the commit with the unknown outcome happened; refuses a database that lost commits.
    async fn find_out(&self, link: &Link, tail: Tail) -> Result<bool, Fault> {
        let found = async |wanted: u64| {
            if wanted == tail.commit {
                return Ok(Some(tail.digest));
            }
            let parameters: [&(dyn ToSql + Sync); 1] = [&number(wanted)];
            let row = link
                .client
                .query_opt(&link.statements.find_commit, &parameters);
            row.await?.map(|row| digest(&row, 0)).transpose()
        };
        if let Some((last, known)) = self.last {
            // If other nodes have made so many commits since that its record is gone, the commit is
            // assumed to exist.
            let is_there = tail.commit > last || (tail.commit == last && tail.digest == known);
            let differs = is_there
                && link.is_fresh
                && found(last).await?.is_some_and(|digest| digest != known);
            if !is_there || differs {
                return Err(Fault::Told(StoreError::Truncated {
                    place: self.health.place.clone(),
                    have: tail.commit,
                    expected: last,
                }));
            }
        }
        match &self.doubtful {
            Some(doubtful) => Ok(found(doubtful.number).await? == Some(doubtful.digest)),
            None => Ok(false),
        }
    }
}

fn answers<'r>(group: &mut Group<'r>, works: &'r [Work]) -> Vec<Told> {
    works.iter().map(|work| answer(group, work)).collect()
}

fn answer<'r>(group: &mut Group<'r>, work: &'r Work) -> Told {
    match work {
        Work::Commit(batches) => {
            Told::Committed(batches.iter().map(|batch| group.commit(batch)).collect())
        }
        Work::Claim {
            journals,
            take_over,
            above,
        } => {
            let claim = |journal| group.claim(journal, *take_over, above.as_ref());
            Told::Claimed(journals.iter().map(claim).collect())
        }
        Work::Post(mailbox, item) => Told::Posted(group.post(mailbox, item)),
    }
}
