//! A store that fails, dies or tells on demand.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::contract::{BoxFuture, DynStore, News, Notice, Store, StoreError, StoreWrapper};

/// When a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strike {
    /// Before the call takes effect.
    Before,
    /// After it took effect, but before its caller hears of it.
    After,
}

/// The effect of a fault.
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
    /// Its action.
    pub harm: Harm,
}

/// A wrapper around any store that fails or crashes at the Nth commit, or at the Nth call of any kind. Clones are the
/// same process.
///
/// After a crash no call returns, as in a dead process. The runner of the scenario waits for
/// [`crashed`](Self::crashed), ends what is left of the process, and continues with a store of its own over the same
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
            place: Store::description(&self.shared.inner),
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
            .field("inner", &Store::description(&self.shared.inner))
            .field("plan", &self.shared.plan.lock())
            .finish()
    }
}

impl<S: Store> StoreWrapper for FaultyStore<S> {
    fn inner(&self) -> &dyn DynStore {
        &self.shared.inner
    }

    async fn around<T: Send>(
        &self,
        method: &'static str,
        call: BoxFuture<'_, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match method {
            // The notices between processes are outside of the faults.
            "announce" | "advertise" | "address_of" | "close" => call.await,
            method => self.subject(method == "commit", call).await,
        }
    }

    fn news(&self, of: Notice) -> Option<BoxFuture<'static, ()>> {
        match &self.shared.news {
            Some(news) => Some(news.next(of)),
            None => DynStore::news(&self.shared.inner, of),
        }
    }

    fn description(&self) -> String {
        format!("{}, with faults", Store::description(&self.shared.inner))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::{
        contract::{Batch, Expected, StateWrite},
        testing::InMemoryStore,
        vocabulary::{JournalId, RunId},
    };

    async fn write(store: &FaultyStore<InMemoryStore>) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        batch.writes.push(StateWrite {
            scope: "s".into(),
            key: "k".into(),
            value: Some(serde_json::value::to_raw_value(&1).unwrap()),
            expected: Expected::Any,
        });
        DynStore::commit(store, vec![batch]).await.map(drop)
    }

    async fn written(memory: &InMemoryStore) -> u64 {
        memory.state("s".into(), "k".into()).await.unwrap().version
    }

    fn fault(call: u64, strike: Strike, harm: Harm) -> Fault {
        Fault { call, strike, harm }
    }

    /// A store whose process owns nothing any more.
    struct Lost(InMemoryStore);

    impl StoreWrapper for Lost {
        fn inner(&self) -> &dyn DynStore {
            &self.0
        }

        fn term(&self) -> Option<u64> {
            None
        }

        async fn around<T: Send>(
            &self,
            method: &'static str,
            _: BoxFuture<'_, Result<T, StoreError>>,
        ) -> Result<T, StoreError> {
            Err(StoreError::Unwritable {
                reason: method.to_owned(),
            })
        }
    }

    #[tokio::test]
    async fn no_wrapper_answers_in_the_place_of_its_store() {
        let store = FaultyStore::new(Lost(InMemoryStore::new()));
        let journal = || JournalId::Run(RunId::from_random(1));
        assert_eq!(DynStore::term(&store), None);
        let told = [
            DynStore::confirm(&store, journal(), 1).await.map(drop),
            DynStore::claim_below(&store, journal(), journal(), 1)
                .await
                .map(drop),
            DynStore::held_elsewhere(&store, vec![journal()])
                .await
                .map(drop),
            DynStore::inventory(&store).await.map(drop),
            DynStore::deletion(&store)
                .unwrap()
                .drop_blobs()
                .await
                .map(drop),
        ];
        let reached = told.map(|told| match told {
            Err(StoreError::Unwritable { reason }) => reason,
            other => panic!("{other:?}"),
        });
        let methods = [
            "confirm",
            "claim_below",
            "held_elsewhere",
            "inventory",
            "drop_blobs",
        ];
        assert_eq!(reached, methods);
        assert!(
            DynStore::membership(&store).is_none(),
            "the store in memory lists no processes"
        );
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
            let read = DynStore::state(&store, "s".into(), "k".into()).now_or_never();
            assert!(read.is_none(), "a dead process reads nothing either");
            assert_eq!(written(&memory).await, kept);
        }
    }
}
