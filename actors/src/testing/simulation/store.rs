//! The disk as one process sees it.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::world::World;
use crate::{
    contract::{Batch, BoxFuture, Committed, DynStore, StoreError, StoreHandle, StoreWrapper},
    testing::Strike,
    vocabulary::{JournalId, SessionId},
};

/// How long a call may take before and after it takes effect, in milliseconds.
const DELAY_MS: u64 = 12;

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Running,
    /// It is frozen, as after SIGSTOP: its calls wait.
    Frozen,
    /// None of its calls ever returns.
    Dead,
}

/// The store of one process. Clones are the same process.
#[derive(Clone)]
pub(super) struct SimulatedStore(Arc<Shared>);

struct Shared {
    inner: StoreHandle,
    world: Arc<World>,
    faulty: bool,
    standing: Mutex<Standing>,
    /// The waiters are woken in the order in which they came.
    changed: Notify,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: u64,
    /// The call at which the process dies.
    crash: Option<(u64, Strike)>,
    /// Whether the process was frozen, so that another one may own its runs.
    fenced: bool,
    /// Until when the disk is full.
    full_until: Option<Instant>,
    /// Why the store refuses everything, if it does.
    poisoned: bool,
    /// Commits that are written and not yet acknowledged.
    in_flight: Vec<(u64, Vec<Batch>)>,
}

/// The fate of one call.
enum Fate {
    Fine,
    Crash(Strike),
    Fail(Strike, StoreError),
}

impl SimulatedStore {
    pub(super) fn new(inner: StoreHandle, world: Arc<World>, faulty: bool) -> Self {
        let (standing, state) = (Mutex::new(Standing::Running), Mutex::default());
        Self(Arc::new(Shared {
            inner,
            world,
            faulty,
            standing,
            changed: Notify::new(),
            state,
        }))
    }

    /// Makes the process die at one of its calls.
    pub(super) fn crash_at(&self, call: u64, strike: Strike) {
        self.0.state.lock().crash = Some((call, strike));
    }

    /// Makes the process die at one of its next calls.
    pub(super) fn crash_soon(&self, calls: u64, strike: Strike) {
        let mut state = self.0.state.lock();
        state.crash = Some((state.calls + calls, strike));
    }

    /// The process dies. Its unacknowledged writes reach the disk whole, in part, or not at all: each batch of a
    /// commit is whole, and batches become durable in their order.
    pub(super) fn kill(&self) {
        if self.is_dead() {
            return;
        }
        self.stand(Standing::Dead);
        let in_flight = std::mem::take(&mut self.0.state.lock().in_flight);
        for (_, mut batches) in in_flight {
            let kept = self.0.world.chance.below(batches.len() as u64 + 1);
            batches.truncate(usize::try_from(kept).unwrap_or(0));
            if !batches.is_empty() {
                self.0.world.strike("commit torn by a crash");
                // Nobody is left to hear the result.
                let _ = self.0.inner.commit(batches).now_or_never();
            }
        }
    }

    /// Freezes the process.
    pub(super) fn freeze(&self) {
        self.0.state.lock().fenced = true;
        if self.standing() == Standing::Running {
            self.stand(Standing::Frozen);
        }
    }

    /// Lets a frozen process go on.
    pub(super) fn thaw(&self) {
        if self.standing() == Standing::Frozen {
            self.stand(Standing::Running);
        }
    }

    fn standing(&self) -> Standing {
        *self.0.standing.lock()
    }

    fn stand(&self, standing: Standing) {
        *self.0.standing.lock() = standing;
        self.0.changed.notify_waiters();
    }

    async fn stands(&self, wanted: Standing) {
        loop {
            let mut changed = pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if self.standing() == wanted {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn is_dead(&self) -> bool {
        self.standing() == Standing::Dead
    }

    /// Whether another process may own the runs of this one by now.
    pub(super) fn is_fenced(&self) -> bool {
        self.0.state.lock().fenced
    }

    /// Waits until the process is dead.
    pub(super) async fn crashed(&self) {
        self.stands(Standing::Dead).await;
    }

    /// Waits until the process is not frozen; never returns when it is dead.
    pub(super) async fn runs(&self) {
        if self.standing() != Standing::Running {
            self.stands(Standing::Running).await;
        }
    }

    fn io(&self, reason: &str) -> StoreError {
        StoreError::Io {
            place: self.0.inner.description(),
            reason: reason.to_owned(),
        }
    }

    fn fate(&self, commit: bool) -> Fate {
        let world = &self.0.world;
        let mut state = self.0.state.lock();
        state.calls += 1;
        if state.poisoned {
            return Fate::Fail(Strike::Before, self.poisoned());
        }
        if let Some((_, strike)) = state.crash.filter(|(call, _)| *call == state.calls) {
            return Fate::Crash(strike);
        }
        if !self.0.faulty {
            return Fate::Fine;
        }
        if commit && state.full_until.is_some_and(|until| Instant::now() < until) {
            return Fate::Fail(Strike::Before, self.io("no space left on device"));
        }
        if !world.chance.happens(world.faults.store) {
            return Fate::Fine;
        }
        let strike = [Strike::Before, Strike::After][usize::from(world.chance.happens(0.5))];
        match (commit, world.chance.below(3)) {
            (true, 0 | 1) => {
                world.strike("disk full");
                state.full_until = Some(Instant::now() + world.chance.millis(800));
                Fate::Fail(Strike::Before, self.io("no space left on device"))
            }
            (true, _) => {
                world.strike("failed write");
                state.poisoned = true;
                Fate::Fail(strike, self.io("input/output error"))
            }
            (false, _) => {
                world.strike("failed call of the store");
                Fate::Fail(strike, self.io("input/output error"))
            }
        }
    }

    fn poisoned(&self) -> StoreError {
        StoreError::Poisoned {
            place: self.0.inner.description(),
            reason: "input/output error".to_owned(),
        }
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.0.state.lock().poisoned
    }

    async fn call<T>(
        &self,
        name: &str,
        commit: Option<Vec<Batch>>,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.runs().await;
        let fate = self.fate(commit.is_some());
        let number = self.0.state.lock().calls;
        let is_commit = commit.is_some();
        if let Some(batches) = commit {
            self.0.state.lock().in_flight.push((number, batches));
        }
        if is_commit {
            self.0.world.pause(DELAY_MS).await;
            self.runs().await;
        }
        self.0
            .state
            .lock()
            .in_flight
            .retain(|(of, _)| *of != number);
        let (strike, failure) = match fate {
            Fate::Fine => {
                let result = call.await;
                self.0.world.pause(DELAY_MS).await;
                self.runs().await;
                if is_commit {
                    let told = result.as_ref().err();
                    self.0.world.tell(format_args!("{name} {number}: {told:?}"));
                }
                return result;
            }
            Fate::Crash(strike) => (strike, None),
            Fate::Fail(strike, error) => (strike, Some(error)),
        };
        if strike == Strike::After {
            call.await?;
        }
        match failure {
            Some(error) => Err(error),
            None => {
                self.0
                    .world
                    .tell(format_args!("dies at {name}, call {number}"));
                self.kill();
                std::future::pending().await
            }
        }
    }
}

impl StoreWrapper for SimulatedStore {
    fn inner(&self) -> &dyn DynStore {
        &self.0.inner
    }

    async fn around<T: Send>(
        &self,
        method: &'static str,
        call: BoxFuture<'_, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.call(method, None, call).await
    }

    async fn commit(
        &self,
        batches: Vec<Batch>,
    ) -> Result<Vec<Result<Committed, StoreError>>, StoreError> {
        let in_flight = batches.clone();
        let call = self.0.inner.commit(batches);
        self.call("commit", Some(in_flight), call).await
    }

    /// This call is made forty times a second, so it gets neither delays nor faults of other calls.
    async fn posted(&self, after: u64) -> Result<(u64, Vec<JournalId>), StoreError> {
        self.runs().await;
        if self.is_poisoned() {
            return Err(self.poisoned());
        }
        self.0.inner.posted(after).await
    }

    /// A checkpoint may be lost with the process, or come back unreadable.
    async fn checkpoint(&self, session: SessionId) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.call("checkpoint", None, self.0.inner.checkpoint(session));
        let mut found = found.await?;
        let world = &self.0.world;
        if world.chance.happens(world.faults.store)
            && let Some(byte) = found.as_mut().and_then(|bytes| bytes.last_mut())
        {
            world.strike("damaged checkpoint");
            *byte ^= 0x5a;
        }
        Ok(found)
    }

    async fn put_checkpoint(
        &self,
        session: SessionId,
        bytes: Option<Vec<u8>>,
    ) -> Result<(), StoreError> {
        let world = &self.0.world;
        if world.chance.happens(world.faults.store * 4.0) {
            world.strike("lost checkpoint");
            return Ok(());
        }
        let call = self.0.inner.put_checkpoint(session, bytes);
        self.call("put_checkpoint", None, call).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.runs().await;
        self.0.inner.close().await
    }

    fn description(&self) -> String {
        "a simulated disk".to_owned()
    }
}

/// How long a process with a store that refuses everything goes on before somebody restarts it.
pub(super) async fn noticed_as_poisoned(store: &SimulatedStore, world: &World) {
    while !store.is_poisoned() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(world.chance.millis(400)).await;
}
