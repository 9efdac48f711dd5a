//! A store that fails, dies or tells on demand.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    contract::{
        Batch, BoxFuture, CarriedTeam, Claim, Committed, Deleted, Expiry, Inventory, MailboxItem,
        News, Notice, RunFilter, RunRow, SessionFilter, SessionRow, StateSlot, StateValue, Store,
        StoreError, StoredLine, TreeLine,
    },
    vocabulary::{Digest, JournalId, RunId, SessionId, Timestamp},
};

/// When a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strike {
    /// Before the call takes effect.
    Before,
    /// After it took effect, but before its caller hears of it.
    After,
}

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Harm {
    /// The process dies: neither this call nor any later one ever returns.
    Crash,
    /// The call fails with [`StoreError::Io`].
    Fail,
    /// This call and all later ones of its kind fail with [`StoreError::Io`].
    FailForEver,
}

/// One fault, at one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The number of the call, from 1, among those that are counted.
    pub call: u64,
    /// When it strikes.
    pub strike: Strike,
    /// What it does.
    pub harm: Harm,
}

/// A wrapper around any store that fails or crashes at the Nth commit, or at the Nth call of any kind. Clones are the
/// same process.
///
/// After a crash no call returns, as in a dead process. The runner of the scenario waits for
/// [`crashed`](Self::crashed), ends what is left of the process, and goes on with a store of its own over the same
/// data. The caller must release ownership inside the wrapped store (see
/// [`InMemoryStore::crash`](super::InMemoryStore::crash)).
pub struct FaultyStore<S> {
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    inner: S,
    news: Option<News>,
    plan: Mutex<Plan>,
    dead: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Plan {
    fault: Option<Fault>,
    every_call: bool,
    /// The calls so far, of the kind that is counted.
    calls: u64,
    failing: bool,
}

/// The fate of one call.
enum Fate {
    Fine,
    Crash(Strike),
    Fail(Strike),
}

impl<S: Store> FaultyStore<S> {
    /// A store that only counts its commits.
    pub fn new(inner: S) -> Self {
        Self::with(inner, None)
    }

    /// A store that counts its calls, of any kind, and tells the notices that the test [gives](News::tell).
    pub fn telling(inner: S, news: News) -> Self {
        let store = Self::with(inner, Some(news));
        store.shared.plan.lock().every_call = true;
        store
    }

    fn with(inner: S, news: Option<News>) -> Self {
        let (plan, dead) = (Mutex::default(), watch::channel(false).0);
        let shared = Arc::new(Shared {
            inner,
            news,
            plan,
            dead,
        });
        Self { shared }
    }

    /// A store that only counts its calls, of any kind.
    pub fn counting_calls(inner: S) -> Self {
        let store = Self::new(inner);
        store.shared.plan.lock().every_call = true;
        store
    }

    /// A store with a fault at one of its commits.
    pub fn at_commit(inner: S, fault: Fault) -> Self {
        let store = Self::new(inner);
        store.shared.plan.lock().fault = Some(fault);
        store
    }

    /// A store with a fault at one of its calls, of any kind.
    pub fn at_call(inner: S, fault: Fault) -> Self {
        let store = Self::at_commit(inner, fault);
        store.shared.plan.lock().every_call = true;
        store
    }

    /// The number of counted calls so far: commits, or all calls where the fault is at one of those.
    pub fn calls(&self) -> u64 {
        self.shared.plan.lock().calls
    }

    /// The wrapped store.
    pub fn inner(&self) -> &S {
        &self.shared.inner
    }

    /// Kills the process now.
    pub fn kill(&self) {
        self.shared.dead.send_replace(true);
    }

    /// Whether the process is dead.
    pub fn is_dead(&self) -> bool {
        *self.shared.dead.borrow()
    }

    /// Waits until the process is dead.
    pub async fn crashed(&self) {
        let mut dead = self.shared.dead.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = dead.wait_for(|dead| *dead).await;
    }

    fn fate(&self, commit: bool) -> Fate {
        let mut plan = self.shared.plan.lock();
        if !commit && !plan.every_call {
            return Fate::Fine;
        }
        plan.calls += 1;
        if plan.failing {
            return Fate::Fail(Strike::Before);
        }
        match plan.fault {
            Some(fault) if fault.call == plan.calls => match fault.harm {
                Harm::Crash => Fate::Crash(fault.strike),
                Harm::Fail => Fate::Fail(fault.strike),
                Harm::FailForEver => {
                    plan.failing = true;
                    Fate::Fail(fault.strike)
                }
            },
            _ => Fate::Fine,
        }
    }

    async fn subject<T>(
        &self,
        commit: bool,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if self.is_dead() {
            return std::future::pending().await;
        }
        let (strike, crash) = match self.fate(commit) {
            Fate::Fine => {
                let result = call.await;
                if self.is_dead() {
                    return std::future::pending().await;
                }
                return result;
            }
            Fate::Crash(strike) => (strike, true),
            Fate::Fail(strike) => (strike, false),
        };
        if strike == Strike::After {
            call.await?;
        }
        if crash {
            self.kill();
            return std::future::pending().await;
        }
        Err(StoreError::Io {
            place: self.shared.inner.description(),
            reason: "a fault of the test".to_owned(),
        })
    }
}

impl<S> Clone for FaultyStore<S> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<S: Store> fmt::Debug for FaultyStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore")
            .field("inner", &self.shared.inner.description())
            .field("plan", &self.shared.plan.lock())
            .finish()
    }
}

macro_rules! pass_on {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(async fn $name(&self, $($argument: $type),*) -> Result<$result, StoreError> {
            self.subject(false, self.shared.inner.$name($($argument),*)).await
        })*
    };
}

impl<S: Store> Store for FaultyStore<S> {
    async fn commit(
        &self,
        batches: Vec<Batch>,
    ) -> Result<Vec<Result<Committed, StoreError>>, StoreError> {
        self.subject(true, self.shared.inner.commit(batches)).await
    }

    pass_on! {
        fn claim(journal: JournalId, take_over: bool) -> Claim;
        fn claim_below(journal: JournalId, above: JournalId, epoch: u64) -> Claim;
        fn confirm(journal: JournalId, epoch: u64) -> u64;
        fn held_elsewhere(journals: Vec<JournalId>) -> Vec<bool>;
        fn read(journal: JournalId, from: u64, limit: usize) -> Vec<StoredLine>;
        fn read_tree(root: RunId, after: u64, limit: usize) -> Vec<TreeLine>;
        fn run(run: RunId) -> Option<RunRow>;
        fn runs(filter: RunFilter) -> Vec<RunRow>;
        fn sessions(filter: SessionFilter) -> Vec<SessionRow>;
        fn state(scope: String, key: String) -> StateSlot;
        fn scope(scope: String) -> Vec<(String, StateValue)>;
        fn blob(digest: Digest) -> Option<Arc<[u8]>>;
        fn post(run: RunId, item: MailboxItem) -> bool;
        fn mailbox_after(run: RunId, after: u64) -> Vec<(u64, MailboxItem)>;
        fn expired(expiry: Expiry) -> Vec<RunRow>;
        fn delete_tree(root: RunId, at: Timestamp, limit: usize) -> Deleted;
        fn delete_session(session: SessionId, limit: usize) -> Deleted;
        fn deleted(run: RunId) -> Option<Timestamp>;
        fn drop_blobs() -> u64;
        fn inventory() -> Inventory;
        fn posted(after: u64) -> (u64, Vec<RunId>);
        fn checkpoint(session: SessionId) -> Option<Vec<u8>>;
        fn put_checkpoint(session: SessionId, bytes: Option<Vec<u8>>) -> ();
    }

    // Notices between processes are outside of the faults. A default would silently answer in the place of the store.
    fn term(&self) -> Option<u64> {
        self.shared.inner.term()
    }

    async fn announce(&self, carried: Vec<CarriedTeam>) -> Result<(), StoreError> {
        self.shared.inner.announce(carried).await
    }

    async fn advertise(&self, address: Option<String>) -> Result<(), StoreError> {
        self.shared.inner.advertise(address).await
    }

    async fn address_of(&self, journal: JournalId) -> Result<Option<String>, StoreError> {
        self.shared.inner.address_of(journal).await
    }

    fn news(&self, of: Notice) -> Option<BoxFuture<'static, ()>> {
        match &self.shared.news {
            Some(news) => Some(news.next(of)),
            None => self.shared.inner.news(of),
        }
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.shared.inner.close().await
    }

    fn description(&self) -> String {
        format!("{}, with faults", self.shared.inner.description())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::{
        contract::{Expected, StateWrite},
        testing::InMemoryStore,
    };

    async fn write(store: &FaultyStore<InMemoryStore>) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        batch.writes.push(StateWrite {
            scope: "s".into(),
            key: "k".into(),
            value: Some(serde_json::value::to_raw_value(&1).unwrap()),
            expected: Expected::Any,
        });
        store.commit(vec![batch]).await.map(drop)
    }

    async fn written(memory: &InMemoryStore) -> u64 {
        memory.state("s".into(), "k".into()).await.unwrap().version
    }

    fn fault(call: u64, strike: Strike, harm: Harm) -> Fault {
        Fault { call, strike, harm }
    }

    /// A method with a default in the contract is easily dropped by a store around another one.
    #[test]
    fn no_wrapper_answers_in_the_place_of_its_store() {
        let contract = include_str!("../contract/store.rs");
        let methods = contract.split("pub trait Store").nth(1).unwrap();
        let methods = methods.split("\n}\n").next().unwrap();
        let names = methods.split("\n    fn ").skip(1);
        let names: Vec<&str> = names.map(|rest| rest.split('(').next().unwrap()).collect();
        assert!(names.contains(&"term") && names.len() > 25, "{names:?}");
        // The defaults of these call other methods of the wrapper; a store that is partly in memory cannot be copied.
        let derived = ["claim_all", "read_all", "mailbox"];
        for (wrapper, source, own) in [
            ("FaultyStore", include_str!("faulty_store.rs"), &[][..]),
            (
                "the store of volatile teams",
                include_str!("../actor/volatile.rs"),
                &["inventory"],
            ),
        ] {
            let dropped: Vec<&&str> = names
                .iter()
                .filter(|name| !derived.contains(name) && !own.contains(name))
                .filter(|name| !source.contains(&format!("fn {name}(")))
                .collect();
            assert!(dropped.is_empty(), "{wrapper} drops {dropped:?}");
        }
    }

    #[tokio::test]
    async fn a_failure_strikes_once_or_for_ever_before_or_after_the_effect() {
        for (strike, kept) in [(Strike::Before, 2), (Strike::After, 3)] {
            let memory = InMemoryStore::new();
            let store = FaultyStore::at_commit(memory.clone(), fault(2, strike, Harm::Fail));
            let mut failed = Vec::new();
            for _ in 0..3 {
                failed.push(write(&store).await.is_err());
            }
            assert_eq!(failed, [false, true, false]);
            assert_eq!(written(&memory).await, kept);
        }
        let for_ever = fault(2, Strike::Before, Harm::FailForEver);
        let store = FaultyStore::at_commit(InMemoryStore::new(), for_ever);
        let results = [
            write(&store).await,
            write(&store).await,
            write(&store).await,
        ];
        assert_eq!(results.map(|r| r.is_err()), [false, true, true]);
    }

    #[tokio::test]
    async fn a_crash_answers_nobody_any_more_and_tells_the_test() {
        for (strike, kept) in [(Strike::Before, 0), (Strike::After, 1)] {
            let memory = InMemoryStore::new();
            let store = FaultyStore::at_commit(memory.clone(), fault(1, strike, Harm::Crash));
            assert!(store.crashed().now_or_never().is_none());
            assert!(write(&store).now_or_never().is_none());
            assert!(store.crashed().now_or_never().is_some());
            let read = store.state("s".into(), "k".into()).now_or_never();
            assert!(read.is_none(), "a dead process reads nothing either");
            assert_eq!(written(&memory).await, kept);
        }
    }
}
