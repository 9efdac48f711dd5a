#![doc = include_str!("../README.md")]

mod burst;
mod chain;
mod committer;
mod connection;
mod deletion;
mod fault;
mod group;
mod health;
mod inventory;
mod libpq;
mod news;
mod node;
mod options;
mod ownership;
mod process;
mod query;
mod reader;
mod rows;
mod schema;
mod statements;
mod status;
mod text;
mod tls;
mod vectors;
mod wanted;
mod work;

use std::{fmt, sync::Arc, time::Duration};

use ghostlight_actors::{
    contract::{
        Batch, BoxFuture, CarriedTeam, Claim, Committed, Deleted, Deletion, DynDeletion,
        DynMembership, Expiry, Index, Inventory, Journals, MailboxItem, Mailboxes, Membership,
        Notice, RunFilter, RunRow, SessionFilter, SessionRow, State, StateSlot, StateValue, Store,
        StoreError, StoredLine, TreeLine,
    },
    vocabulary::{Digest, JournalId, RunId, SessionId, Timestamp},
};
use tokio::task::JoinSet;

use self::{
    committer::Committer,
    connection::Address,
    fault::Fault,
    health::Health,
    node::Node,
    reader::Readers,
    work::{Told, Work},
};
pub use self::{
    options::Options,
    query::Query,
    schema::SchemaVersion,
    status::{Lag, NodeStatus},
    vectors::{VECTOR_TABLE, VectorKey, Vectors},
};

/// The scope of a check by [`PostgresStore::verify`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// The number of journals.
    pub journals: u64,
    /// The number of entries.
    pub entries: u64,
}

/// A store in a PostgreSQL database. Clones share it; see the [crate](self) for what it promises.
///
/// Its methods must be called inside a tokio runtime, where it keeps two tasks. Dropping the last
/// clone releases its journals, as [`close`](Store::close) does, without waiting for the database.
#[derive(Clone)]
pub struct PostgresStore {
    inner: Arc<Inner>,
}

struct Inner {
    health: Arc<Health>,
    readers: Readers,
    committer: Committer,
    node: Node,
}

impl PostgresStore {
    /// Opens the store in the database at this address, such as
    /// `postgres://agent@db.example/agents`, and creates its tables if there are none. The address
    /// may contain `sslmode=require`; see the README for the rest.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the address is invalid or the database cannot be reached;
    /// [`StoreError::TooNew`] for tables of a later program, [`StoreError::TooOld`] for those of an earlier one
    /// without [`Options::migrate`], and [`StoreError::NoLongerRead`] for those from before the first version that is
    /// read.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(url, &Options::default()).await
    }

    /// Opens the store with these options.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub async fn open_with(url: &str, options: &Options) -> Result<Self, StoreError> {
        let address = Address::read(url, options)?;
        let health = Arc::new(Health::new(address.place.clone()));
        let pool = address.pool(options.readers)?;
        let readers = Readers {
            pool,
            health: health.clone(),
            patience: options.patience,
        };
        let lease = options.lease.max(Duration::from_millis(300));
        let prepared = async {
            let mut client = readers.client().await?;
            match options.migrate {
                true => {
                    schema::prepare(&mut client, &options.schema, &address.place).await?;
                }
                false => schema::check(&client, &address.place).await?,
            }
            // Statements that were prepared before the tables existed must be prepared again.
            drop(deadpool_postgres::Object::take(client));
            Node::register(address.clone(), lease).await
        };
        let node = prepared.await.map_err(|fault| fault.at(&health.place))?;
        let (id, news) = (node.id.clone(), node.news.clone());
        let committer = Committer::start(address, id, news, health.clone(), lease);
        let inner = Inner {
            health,
            readers,
            committer,
            node,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The versions of the tables in the database at this address. Nothing is changed.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the address is invalid or the database cannot be reached;
    /// [`StoreError::NoLongerRead`] as [`open`](Self::open).
    pub async fn schema_version(url: &str, options: &Options) -> Result<SchemaVersion, StoreError> {
        let address = Address::read(url, options)?;
        let read = async { schema::version(&address.connect().await?, &address.place).await };
        read.await.map_err(|fault| fault.at(&address.place))
    }

    /// Makes the tables in the database at this address, or migrates those of an earlier program, all steps or none;
    /// returns the versions before. Several processes may do so at once, and processes of the earlier program that
    /// have the store open go on.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the address is invalid or the database cannot be reached or refuses;
    /// [`StoreError::TooNew`] for tables of a later program; [`StoreError::NoLongerRead`] as [`open`](Self::open).
    pub async fn migrate(url: &str, options: &Options) -> Result<SchemaVersion, StoreError> {
        let address = Address::read(url, options)?;
        let migrated = async {
            let mut client = address.connect().await?;
            schema::prepare(&mut client, &options.schema, &address.place).await
        };
        migrated.await.map_err(|fault| fault.at(&address.place))
    }

    /// Whether the last attempted commit reached the database, for a readiness probe. A commit that has had no answer
    /// for the length of a lease has not.
    pub fn is_reached(&self) -> bool {
        self.inner.health.is_reached()
    }

    /// The id of this process among the nodes.
    pub fn node(&self) -> &str {
        &self.inner.node.id
    }

    /// Reads every journal, a page at a time, and checks every hash.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for the first damage.
    pub async fn verify(&self) -> Result<Verified, StoreError> {
        let read = async {
            let mut verified = Verified {
                journals: 0,
                entries: 0,
            };
            let mut last = String::new();
            loop {
                let page = "SELECT j.key, j.entries, j.id, j.entries = 0 OR coalesce(e.hash = j.hash, false) \
                     FROM journals AS j \
                     LEFT JOIN entries AS e ON e.journal = j.id AND e.sequence = j.entries - 1 \
                     WHERE j.key > $1 AND NOT (j.key >= 'deleted:' AND j.key < 'deleted;') \
                     ORDER BY j.key LIMIT 200";
                let found = self.inner.readers.rows(page, &[&last]).await?;
                for row in &found {
                    last = row.try_get(0)?;
                    let journal: JournalId = text::read(&last)
                        .parse()
                        .map_err(|_| Fault::Damaged(format!("journal {last} has an odd key")))?;
                    let entries = rows::count(row, 1)?;
                    let read = self.entries(&journal).await?;
                    // The journal may have grown since.
                    let ends_as_said: bool = row.try_get(3)?;
                    if read < entries || !ends_as_said {
                        let id: i64 = row.try_get(2)?;
                        let is_there = "SELECT FROM journals WHERE key = $1 AND id = $2";
                        if self
                            .inner
                            .readers
                            .rows(is_there, &[&last, &id])
                            .await?
                            .is_empty()
                        {
                            // Its deletion began.
                            continue;
                        }
                        return Err(Fault::Damaged(match ends_as_said {
                            true => format!("{last} has {read} entries instead of {entries}"),
                            false => format!("{last} ends with another entry than its row says"),
                        }));
                    }
                    verified.journals += 1;
                    verified.entries += read;
                }
                if found.is_empty() {
                    return Ok(verified);
                }
            }
        };
        self.told(read.await)
    }

    /// The number of entries of a journal, after checking that they form a chain.
    async fn entries(&self, journal: &JournalId) -> Result<u64, Fault> {
        let mut next = 0;
        loop {
            let page = self.inner.readers.entries(journal, next, 10_000).await?;
            if page.is_empty() {
                return Ok(next);
            }
            next += page.len() as u64;
        }
    }

    /// Reads in a task of its own, which ends with the caller. A caller that does something else for a while, as a branch
    /// of a `select!` may, then keeps no connection that others need.
    async fn reads<T, F>(&self, read: impl FnOnce(Arc<Inner>) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let mut task = JoinSet::new();
        task.spawn(read(self.inner.clone()));
        match task.join_next().await {
            Some(Ok(result)) => self.told(result),
            ended => Err(StoreError::Io {
                place: self.inner.health.place.clone(),
                reason: match ended {
                    Some(Err(error)) => format!("a read did not end: {error}"),
                    _ => "a read did not end".to_owned(),
                },
            }),
        }
    }

    fn told<T>(&self, result: Result<T, Fault>) -> Result<T, StoreError> {
        result.map_err(|fault| fault.at(&self.inner.health.place))
    }

    async fn claims(
        &self,
        journals: Vec<JournalId>,
        take_over: bool,
        above: Option<(JournalId, u64)>,
    ) -> Result<Vec<Result<Claim, StoreError>>, StoreError> {
        let work = Work::Claim {
            journals,
            take_over,
            above,
        };
        match self.inner.committer.submit(work).await? {
            Told::Claimed(claims) => Ok(claims),
            _ => Err(StoreError::Closed),
        }
    }

    async fn one_claim(
        &self,
        journal: JournalId,
        take_over: bool,
        above: Option<(JournalId, u64)>,
    ) -> Result<Claim, StoreError> {
        let mut claims = self.claims(vec![journal], take_over, above).await?;
        claims.pop().unwrap_or(Err(StoreError::Closed))
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresStore({})", self.inner.health.place)
    }
}

impl Journals for PostgresStore {
    async fn commit(
        &self,
        batches: Vec<Batch>,
    ) -> Result<Vec<Result<Committed, StoreError>>, StoreError> {
        match self.inner.committer.submit(Work::Commit(batches)).await? {
            Told::Committed(committed) => Ok(committed),
            _ => Err(StoreError::Closed),
        }
    }

    async fn claim(&self, journal: JournalId, take_over: bool) -> Result<Claim, StoreError> {
        self.one_claim(journal, take_over, None).await
    }

    async fn claim_below(
        &self,
        journal: JournalId,
        above: JournalId,
        epoch: u64,
    ) -> Result<Claim, StoreError> {
        self.one_claim(journal, true, Some((above, epoch))).await
    }

    async fn claim_all(
        &self,
        journals: Vec<JournalId>,
    ) -> Result<Vec<Result<Claim, StoreError>>, StoreError> {
        self.claims(journals, false, None).await
    }

    fn term(&self) -> Option<u64> {
        self.inner.node.term()
    }

    async fn confirm(&self, journal: JournalId, epoch: u64) -> Result<u64, StoreError> {
        let inner = &self.inner;
        while let Some(term) = inner.node.in_term().await {
            let owned = self.told(
                inner
                    .readers
                    .is_owned(&inner.node.id, &journal, epoch)
                    .await,
            );
            match owned {
                // Nobody can claim it between the beginning of the term and its end: see `Registration::connect`.
                Ok(()) if inner.node.term() == Some(term) => return Ok(term),
                Ok(()) => {}
                // The database went away again.
                Err(StoreError::Io { .. }) if inner.node.term().is_none() => {}
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Closed)
    }

    async fn held_elsewhere(&self, journals: Vec<JournalId>) -> Result<Vec<bool>, StoreError> {
        self.reads(move |inner| async move { inner.readers.held(&inner.node.id, &journals).await })
            .await
    }

    async fn read(
        &self,
        journal: JournalId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<StoredLine>, StoreError> {
        self.reads(move |inner| async move { inner.readers.entries(&journal, from, limit).await })
            .await
    }

    async fn read_tree(
        &self,
        root: RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<TreeLine>, StoreError> {
        self.reads(move |inner| async move { inner.readers.tree(root, after, limit).await })
            .await
    }
}

impl State for PostgresStore {
    async fn state(&self, scope: String, key: String) -> Result<StateSlot, StoreError> {
        self.reads(move |inner| async move { inner.readers.state(&scope, &key).await })
            .await
    }

    async fn scope(&self, scope: String) -> Result<Vec<(String, StateValue)>, StoreError> {
        self.reads(move |inner| async move { inner.readers.scope(&scope).await })
            .await
    }

    async fn blob(&self, digest: Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.reads(move |inner| async move { inner.readers.blob(digest).await })
            .await
    }

    async fn checkpoint(&self, session: SessionId) -> Result<Option<Vec<u8>>, StoreError> {
        self.reads(move |inner| async move { inner.readers.checkpoint(&session).await })
            .await
    }

    async fn put_checkpoint(
        &self,
        session: SessionId,
        bytes: Option<Vec<u8>>,
    ) -> Result<(), StoreError> {
        self.reads(move |inner| async move {
            let put = inner.readers.put_checkpoint(&session, bytes.as_deref());
            put.await
        })
        .await
    }
}

impl Mailboxes for PostgresStore {
    async fn post(&self, mailbox: JournalId, item: MailboxItem) -> Result<bool, StoreError> {
        let work = Work::Post(mailbox, Box::new(item));
        match self.inner.committer.submit(work).await? {
            Told::Posted(posted) => posted,
            _ => Err(StoreError::Closed),
        }
    }

    async fn mailbox_after(
        &self,
        mailbox: JournalId,
        after: u64,
    ) -> Result<Vec<(u64, MailboxItem)>, StoreError> {
        self.reads(move |inner| async move { inner.readers.mailbox_after(&mailbox, after).await })
            .await
    }

    async fn posted(&self, after: u64) -> Result<(u64, Vec<JournalId>), StoreError> {
        self.reads(move |inner| async move { inner.readers.posted(after).await })
            .await
    }

    fn news(&self, of: Notice) -> Option<BoxFuture<'static, ()>> {
        Some(self.inner.node.news.next(of))
    }
}

impl Index for PostgresStore {
    async fn run(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        self.reads(move |inner| async move { inner.readers.run(run).await })
            .await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>, StoreError> {
        self.reads(move |inner| async move { inner.readers.runs(&filter).await })
            .await
    }

    async fn sessions(&self, filter: SessionFilter) -> Result<Vec<SessionRow>, StoreError> {
        self.reads(move |inner| async move { inner.readers.sessions(&filter).await })
            .await
    }

    async fn inventory(&self) -> Result<Inventory, StoreError> {
        self.reads(move |inner| async move { inventory::read(&inner.readers).await })
            .await
    }
}

impl Deletion for PostgresStore {
    async fn expired(&self, expiry: Expiry) -> Result<Vec<RunRow>, StoreError> {
        self.reads(move |inner| async move { inner.readers.expired(&expiry).await })
            .await
    }

    async fn delete_tree(
        &self,
        root: RunId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Deleted, StoreError> {
        self.told(deletion::delete_tree(&self.inner.readers, root, at, limit).await)
    }

    async fn delete_session(
        &self,
        session: SessionId,
        limit: usize,
    ) -> Result<Deleted, StoreError> {
        let inner = &self.inner;
        let told = deletion::delete_session(&inner.readers, &inner.node.id, &session, limit);
        self.told(told.await)
    }

    async fn deleted(&self, run: RunId) -> Result<Option<Timestamp>, StoreError> {
        self.reads(move |inner| async move { inner.readers.deleted(run).await })
            .await
    }

    async fn drop_blobs(&self) -> Result<u64, StoreError> {
        self.told(deletion::drop_blobs(&self.inner.readers).await)
    }
}

impl Membership for PostgresStore {
    async fn announce(&self, carried: Vec<CarriedTeam>) -> Result<(), StoreError> {
        let carries = serde_json::to_string(&carried);
        let carries = carries.map_err(|error| StoreError::Unwritable {
            reason: format!("the teams of this process: {error}"),
        })?;
        let (node, tell) = (
            &self.inner.node,
            "UPDATE nodes SET carries = $2 WHERE id = $1",
        );
        node.announce(carries.clone());
        self.told(self.inner.readers.rows(tell, &[&node.id, &carries]).await)
            .map(drop)
    }

    async fn advertise(&self, address: Option<String>) -> Result<(), StoreError> {
        let (node, tell) = (
            &self.inner.node,
            "UPDATE nodes SET address = $2 WHERE id = $1",
        );
        node.advertise(address.clone());
        self.told(self.inner.readers.rows(tell, &[&node.id, &address]).await)
            .map(drop)
    }

    async fn address_of(&self, journal: JournalId) -> Result<Option<String>, StoreError> {
        self.reads(
            move |inner| async move { inner.readers.address_of(&inner.node.id, &journal).await },
        )
        .await
    }
}

impl Store for PostgresStore {
    async fn close(&self) -> Result<(), StoreError> {
        self.inner.health.close();
        self.inner.node.leave().await;
        self.inner.readers.pool.close();
        Ok(())
    }

    fn description(&self) -> String {
        self.inner.health.place.clone()
    }

    fn deletion(&self) -> Option<&dyn DynDeletion> {
        Some(self)
    }

    fn membership(&self) -> Option<&dyn DynMembership> {
        Some(self)
    }
}
