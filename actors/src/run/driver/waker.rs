//! How the function is polled.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::{FutureExt, task::AtomicWaker};
use tokio::task::{Unconstrained, unconstrained};

use crate::{
    run::{AgentFunction, Returned, leg::Leg, run_machine::Next},
    vocabulary::AgentError,
};

/// How many times in a row a function that wakes itself is polled before other tasks get a turn.
const POLLS: u32 = 32;

/// The number of such turns after which a function counts as one that wakes itself for ever.
const TURNS: u32 = 1024;

/// The least number of holders of a function's waker: the function, its task, and its driver.
const HOLDERS: usize = 3;

/// The finding where a function ends that the journal knows to go on.
const END_OF_FUNCTION: &str = "the end of the function";

/// Wakes the driver when the function can go on.
pub(in crate::run) struct FunctionWaker {
    woken: AtomicBool,
    pub(super) driver: AtomicWaker,
    /// How many turns in a row the function used up by waking itself.
    turns: AtomicU32,
}

impl Wake for FunctionWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.driver.wake();
    }
}

impl FunctionWaker {
    pub(super) fn new(woken: bool) -> Arc<Self> {
        Arc::new(Self {
            woken: AtomicBool::new(woken),
            driver: AtomicWaker::new(),
            turns: AtomicU32::new(0),
        })
    }

    /// Whether the function can go on.
    pub(in crate::run) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }

    /// Whether the function has woken itself so often that it seems never to come to rest. Its
    /// operations are begun all the same, since it may wait for one of them.
    pub(in crate::run) fn is_restless(&self) -> bool {
        self.turns.load(Ordering::Relaxed) >= TURNS
    }

    /// Whether the function can go on, and must do so before anything else happens.
    pub(in crate::run) fn comes_first(&self) -> bool {
        self.is_woken() && !self.is_restless()
    }
}

/// A leg's function, which is polled by the driver that delivers its results.
pub(in crate::run) struct Function {
    /// The future, polled outside of tokio's cooperative budget. Within that budget, tokio's
    /// primitives can be pending only because the task was busy, and a function that waits for one
    /// would seem to ask for nothing.
    future: Option<Unconstrained<AgentFunction>>,
    waker: Arc<FunctionWaker>,
    task: Waker,
    /// Whether it was polled since the runtime last had the chance to wake it.
    is_fresh: bool,
    /// How often in a row the runtime woke it.
    yields: u32,
}

/// The next move after a poll of a function.
pub(in crate::run) enum Step {
    Returned(Returned),
    /// It ended where the journal knows it to go on.
    Diverged(AgentError),
    /// It goes on by itself.
    Again,
    /// It has done all that it can do by now.
    Rests(Next),
}

impl Function {
    pub(in crate::run) fn new(future: AgentFunction) -> Self {
        let waker = FunctionWaker::new(true);
        Self {
            future: Some(unconstrained(future)),
            task: Waker::from(waker.clone()),
            waker,
            is_fresh: false,
            yields: 0,
        }
    }

    pub(in crate::run) fn waker(&self) -> Arc<FunctionWaker> {
        self.waker.clone()
    }

    /// Polls the function, has `after_poll` take what it noted and dropped, and says what comes next for it.
    pub(in crate::run) async fn step<E>(
        &mut self,
        leg: &Leg,
        after_poll: impl FnOnce() -> Result<(), E>,
    ) -> Result<Step, E> {
        let returned = self.poll();
        after_poll()?;
        if let Some(returned) = returned {
            let missed = leg.machine().missed(END_OF_FUNCTION);
            return Ok(missed.map_or(Step::Returned(returned), Step::Diverged));
        }
        if self.waker.comes_first() {
            step_back().await;
            return Ok(Step::Again);
        }
        if self.has_yielded(leg).await {
            return Ok(Step::Again);
        }
        Ok(Step::Rests(leg.machine().next()))
    }

    /// Polls the function as long as it can go on, within a bound.
    fn poll(&mut self) -> Option<Returned> {
        let mut cx = Context::from_waker(&self.task);
        for _ in 0..POLLS {
            let future = self.future.as_mut()?;
            if !self.waker.woken.swap(false, Ordering::AcqRel) {
                break;
            }
            self.is_fresh = true;
            if let Poll::Ready(returned) = future.poll_unpin(&mut cx) {
                self.future = None;
                return Some(returned);
            }
        }
        let turns = match self.waker.is_woken() {
            true => self.waker.turns.load(Ordering::Relaxed).saturating_add(1),
            false => 0,
        };
        self.waker.turns.store(turns, Ordering::Relaxed);
        None
    }

    /// Gives the runtime the chance to wake a function that has yielded to other tasks. `true` if the
    /// runtime woke it: it goes on before it gets another result. Otherwise the order in which
    /// its parts go on would depend on how long the result takes, and a replay would differ.
    async fn has_yielded(&mut self, leg: &Leg) -> bool {
        let was_polled = std::mem::take(&mut self.is_fresh);
        if !was_polled || self.yields >= TURNS || !self.may_go_on(leg) {
            return false;
        }
        runtime_turn().await;
        let woken = self.waker.is_woken();
        self.yields = if woken { self.yields + 1 } else { 0 };
        woken
    }

    /// Whether something other than the results of its operations may wake the function: the
    /// runtime, if the function yielded to other tasks, or an event outside of the engine.
    pub(in crate::run) fn may_go_on(&self, leg: &Leg) -> bool {
        let waits = leg.machine().waits_with(&self.task);
        Arc::strong_count(&self.waker) > HOLDERS + waits
    }
}

/// Waits until the runtime has woken what yielded on this thread. The driver may be awake earlier
/// for another reason. It is polled first in the same poll as the function, and so on the same thread.
async fn runtime_turn() {
    let turn = FunctionWaker::new(false);
    let waker = Waker::from(turn.clone());
    // The runtime wakes all that yielded together, so this waker stands for the function's.
    let mut yielding = pin!(tokio::task::yield_now());
    let _ = yielding.as_mut().poll(&mut Context::from_waker(&waker));
    poll_fn(|cx| {
        turn.driver.register(cx.waker());
        match turn.is_woken() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

/// Lets other tasks run before this one goes on.
///
/// `tokio::task::yield_now`, and so `consume_budget`, keep a task with its thread until that thread has nothing else to
/// do. A call that the run began in a task of its own is next on this thread. If the tool's code blocks, the run
/// would hear nothing until the tool is done. A task that wakes itself can be taken by any thread.
pub(in crate::run) async fn step_back() {
    let mut woken = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut woken, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
