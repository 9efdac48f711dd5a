//! A store in which much goes on beside the System under test.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};

use ghostlight_actors::{
    actor::System,
    contract::{
        Batch, Claim, Committed, DynStore, MailboxItem, RunRow, StateSlot, Store, StoreError,
        StoreWrapper, StoredLine,
    },
    run::Agent,
    testing::InMemoryStore,
    vocabulary::{JournalId, RunId},
};
use tokio::sync::watch;

use crate::stage::{Stage, pause, silent};

/// A store in which others are faster, reads of state fail, or take their time.
#[derive(Debug)]
pub(crate) struct Contested {
    pub(crate) inner: InMemoryStore,
    /// How many of the next changes of state come too late.
    pub(crate) conflicts: Arc<AtomicU32>,
    /// How many of the next reads of state fail.
    pub(crate) failures: Arc<AtomicU32>,
    /// Whether reads of state wait.
    pub(crate) reads_wait: watch::Sender<bool>,
    /// Whether what is posted by itself waits.
    pub(crate) posts_wait: watch::Sender<bool>,
    /// Whether claims that are made together wait.
    pub(crate) claims_wait: watch::Sender<bool>,
    /// Whether claims of runs below other runs wait.
    pub(crate) claims_below_wait: watch::Sender<bool>,
    /// How many values were written at most in one commit.
    pub(crate) most_writes: Arc<AtomicUsize>,
    /// How often a journal was claimed, or asked for.
    pub(crate) claims: Arc<AtomicU32>,
    /// How often a run was looked up.
    pub(crate) lookups: Arc<AtomicU32>,
    /// How many of the next lookups of a run fail.
    pub(crate) failed_lookups: Arc<AtomicU32>,
    /// How many of the next posts by themselves fail.
    pub(crate) failed_posts: Arc<AtomicU32>,
    /// How many of the next reads of a mailbox fail.
    pub(crate) failed_mailboxes: Arc<AtomicU32>,
    /// How many of the next reads of a journal come before its first entry.
    pub(crate) early_reads: Arc<AtomicU32>,
    /// How many of the next reads of a journal fail.
    pub(crate) failed_reads: Arc<AtomicU32>,
    /// How long commits of changes take.
    pub(crate) commit_ms: u64,
}

impl Contested {
    pub(crate) fn over(inner: InMemoryStore) -> Self {
        Self {
            inner,
            conflicts: Arc::default(),
            failures: Arc::default(),
            reads_wait: watch::channel(false).0,
            posts_wait: watch::channel(false).0,
            claims_wait: watch::channel(false).0,
            claims_below_wait: watch::channel(false).0,
            most_writes: Arc::default(),
            claims: Arc::default(),
            lookups: Arc::default(),
            failed_lookups: Arc::default(),
            failed_posts: Arc::default(),
            failed_mailboxes: Arc::default(),
            early_reads: Arc::default(),
            failed_reads: Arc::default(),
            commit_ms: 0,
        }
    }
}

async fn go(waits: &watch::Sender<bool>) {
    // The sender lives as long as the store.
    let _ = waits.subscribe().wait_for(|waits| !waits).await;
}

fn one_of(count: &AtomicU32) -> bool {
    let less = |left: u32| left.checked_sub(1);
    count
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
        .is_ok()
}

fn failed(place: &str) -> StoreError {
    StoreError::Io {
        place: place.to_owned(),
        reason: "a fault of the test".to_owned(),
    }
}

impl StoreWrapper for Contested {
    fn inner(&self) -> &dyn DynStore {
        &self.inner
    }

    async fn read(
        &self,
        journal: JournalId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<StoredLine>, StoreError> {
        if one_of(&self.early_reads) {
            return Ok(Vec::new());
        }
        if one_of(&self.failed_reads) {
            return Err(failed("a journal"));
        }
        self.inner.read(journal, from, limit).await
    }

    async fn run(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        if one_of(&self.failed_lookups) {
            return Err(failed("a run"));
        }
        self.inner.run(run).await
    }

    async fn mailbox_after(
        &self,
        mailbox: JournalId,
        after: u64,
    ) -> Result<Vec<(u64, MailboxItem)>, StoreError> {
        if one_of(&self.failed_mailboxes) {
            return Err(failed("a mailbox"));
        }
        self.inner.mailbox_after(mailbox, after).await
    }

    async fn state(&self, scope: String, key: String) -> Result<StateSlot, StoreError> {
        // A System that starts looks whether the store is an unfinished copy; only reads of runs are held up.
        if scope == "copy" {
            return self.inner.state(scope, key).await;
        }
        go(&self.reads_wait).await;
        if one_of(&self.failures) {
            return Err(failed("a value"));
        }
        self.inner.state(scope, key).await
    }

    async fn post(&self, mailbox: JournalId, item: MailboxItem) -> Result<bool, StoreError> {
        go(&self.posts_wait).await;
        if one_of(&self.failed_posts) {
            return Err(failed("a mailbox"));
        }
        self.inner.post(mailbox, item).await
    }

    async fn claim(&self, journal: JournalId, take_over: bool) -> Result<Claim, StoreError> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        self.inner.claim(journal, take_over).await
    }

    async fn claim_below(
        &self,
        journal: JournalId,
        above: JournalId,
        epoch: u64,
    ) -> Result<Claim, StoreError> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        go(&self.claims_below_wait).await;
        self.inner.claim_below(journal, above, epoch).await
    }

    async fn claim_all(
        &self,
        journals: Vec<JournalId>,
    ) -> Result<Vec<Result<Claim, StoreError>>, StoreError> {
        go(&self.claims_wait).await;
        self.inner.claim_all(journals).await
    }

    async fn commit(
        &self,
        batches: Vec<Batch>,
    ) -> Result<Vec<Result<Committed, StoreError>>, StoreError> {
        let mut results = Vec::new();
        for batch in batches {
            self.most_writes
                .fetch_max(batch.writes.len(), Ordering::SeqCst);
            if !batch.writes.is_empty() && self.commit_ms > 0 {
                pause(self.commit_ms).await;
            }
            if let Some(write) = batch.writes.first()
                && one_of(&self.conflicts)
            {
                results.push(Err(StoreError::Conflict {
                    scope: write.scope.clone(),
                    key: write.key.clone(),
                    version: Some(7),
                }));
                continue;
            }
            results.extend(self.inner.commit(vec![batch]).await?);
        }
        Ok(results)
    }

    fn description(&self) -> String {
        "a contested store".to_owned()
    }
}

/// A System of this team over this store.
pub(crate) async fn start(stage: &Stage, store: impl Store, agent: Agent) -> System {
    System::builder(store)
        .options(stage.limits)
        .model("default", silent())
        .team(agent.into_team().unwrap())
        .start()
        .await
        .unwrap()
}
