//! One life of a child: how it is started outside the supervisor's handler, and how its actual end
//! is noticed.

use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use ractor::concurrency::JoinHandle;
use ractor::{ActorCell, ActorRef, ActorStatus, SpawnErr};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::unconstrained;
use tokio_util::task::AbortOnDropHandle;

use super::actor::{Request, SupervisorMessage};
use super::child::{Child, Ignore, Spawned};
use super::exit::chain;
use super::machine::{Incarnation, Timer};

/// How long to wait for ractor's report of an end after the end itself. The report has been sent by
/// then; only a sender whose thread the operating system has suspended can delay it.
const REPORT_WAIT_MAX: Duration = Duration::from_secs(5);

/// An event from one of the supervisor's own tasks.
#[derive(Debug)]
pub(super) enum Event {
    Started(Incarnation, ActorCell),
    StartFailed(Incarnation, String),
    Ignored(Incarnation),
    /// The actor's task has ended (or its start was dropped), and so have its descendants.
    Ended {
        incarnation: Incarnation,
        /// Whether waiting for ractor's report was in vain.
        settled: bool,
    },
    TimerFired(Timer),
}

/// The queue of events. The supervisor can also wait on it while it starts and ends, when ractor
/// delivers no messages. The number of children and timers bounds its length.
#[derive(Debug, Clone)]
pub(super) struct Events {
    queue: mpsc::UnboundedSender<Event>,
    supervisor: ActorRef<SupervisorMessage>,
}

impl Events {
    pub(super) fn new(
        supervisor: ActorRef<SupervisorMessage>,
    ) -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (queue, mailbox) = mpsc::unbounded_channel();
        (Self { queue, supervisor }, mailbox)
    }

    pub(super) fn send(&self, event: Event) {
        // Both fail only while the supervisor is ending. Then it reads the queue, or nobody needs
        // the event.
        let _ = self.queue.send(event);
        let _ = self.supervisor.cast(SupervisorMessage(Request::Wake));
    }
}

/// The handle of one life. Dropping it drops a start that is under way.
#[derive(Debug)]
pub(super) struct ChildLife {
    pub(super) actor: Option<ActorCell>,
    cancel: Option<oneshot::Sender<()>>,
    below: Arc<Mutex<Vec<ActorCell>>>,
    awaits_report: bool,
    waits: Waits,
}

/// The guard that waits for the end of a life, as long as it is not dropped.
#[derive(Debug)]
enum Waits {
    /// A task, which may have to start the child first.
    Task { _task: AbortOnDropHandle<()> },
    /// The end itself.
    Watch(Arc<Watch>),
}

impl Waits {
    fn in_task(task: impl Future<Output = ()> + Send + 'static) -> Self {
        let _task = AbortOnDropHandle::new(tokio::spawn(task));
        Self::Task { _task }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        if let Self::Watch(watch) = self {
            // The actor's task holds the watch as its waker, and goes on without it.
            let watched = watch.watched.lock().take();
            drop(watched);
        }
    }
}

/// A life whose end is noticed by the waker of its actor's task. A task that waits for the end would
/// cost each start another wake of a thread.
struct Watch {
    watched: Mutex<Option<(Life, JoinHandle<()>)>>,
    runtime: Handle,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut watched = self.watched.lock();
        let Some((_, task)) = &mut *watched else {
            return;
        };
        // Within the budget of the task that runs now, a handle may wake its waker instead of looking, under this lock.
        let ended = unconstrained(task).poll_unpin(&mut Context::from_waker(&waker));
        if ended.is_ready()
            && let Some((life, _)) = watched.take()
        {
            drop(watched);
            if life.below.lock().is_empty() {
                life.ended();
            } else {
                self.runtime.spawn(life.after_descendants());
            }
        }
    }
}

impl ChildLife {
    /// Starts a life. Returns its actor if the actor is there at once.
    pub(super) fn start(
        child: &Child,
        incarnation: Incarnation,
        events: Events,
    ) -> (Self, Option<ActorCell>) {
        let mut cancel = None;
        let below = Arc::new(Mutex::new(Vec::new()));
        let supervisor = events.supervisor.get_cell();
        let life = Life {
            incarnation,
            supervisor,
            below: Arc::clone(&below),
            events,
        };
        let mut start = child.spawn(life.supervisor.clone());
        let asked = child.is_at_once().then(|| (&mut start).now_or_never());
        let (waits, started) = match asked.flatten() {
            Some(Ok(Ok((actor, task)))) => {
                drop(start);
                life.adopt(&actor);
                let watch = Arc::new(Watch {
                    watched: Mutex::new(Some((life, task))),
                    runtime: Handle::current(),
                });
                watch.clone().wake();
                (Waits::Watch(watch), Some(actor))
            }
            Some(outcome) => (Waits::in_task(life.lead(Some(outcome))), None),
            None => {
                let (sender, cancelled) = oneshot::channel();
                cancel = Some(sender);
                let task = async move {
                    // The start is a local of this block, so it is dropped before its end is
                    // reported.
                    let outcome = {
                        let start = start;
                        tokio::select! {
                            biased;
                            _ = cancelled => None,
                            outcome = start => Some(outcome),
                        }
                    };
                    life.lead(outcome).await;
                };
                (Waits::in_task(task), None)
            }
        };
        let keeper = Self {
            actor: None,
            cancel,
            below,
            awaits_report: false,
            waits,
        };
        (keeper, started)
    }

    /// The actor has ended and ractor has not reported how. Waits for the report for a limited
    /// time, because for a child that unlinked itself it never comes.
    pub(super) fn await_report(&mut self, incarnation: Incarnation, events: Events) {
        self.awaits_report = true;
        self.waits = Waits::in_task(async move {
            tokio::time::sleep(REPORT_WAIT_MAX).await;
            events.send(Event::Ended {
                incarnation,
                settled: true,
            });
        });
    }

    pub(super) fn awaits_report(&self) -> bool {
        self.awaits_report
    }

    pub(super) fn cancel_start(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            let _ = cancel.send(());
        }
    }

    pub(super) fn stop(&self, reason: &str) {
        if let Some(actor) = &self.actor {
            self.remember_descendants(actor);
            actor.stop(Some(reason.to_owned()));
        }
    }

    pub(super) fn kill(&self) {
        if let Some(actor) = &self.actor {
            self.remember_descendants(actor);
            actor.kill();
        }
    }

    /// ractor tells descendants to die with their ancestor but does not wait for them; we do. The
    /// descendants of an actor that ends by itself are unknown: it has released them before we
    /// learn of its end.
    fn remember_descendants(&self, actor: &ActorCell) {
        let mut found = self.below.lock();
        let mut pending = actor.get_children();
        while let Some(descendant) = pending.pop() {
            pending.extend(descendant.get_children());
            found.push(descendant);
        }
    }
}

struct Life {
    incarnation: Incarnation,
    supervisor: ActorCell,
    below: Arc<Mutex<Vec<ActorCell>>>,
    events: Events,
}

impl Life {
    async fn lead(self, outcome: Option<Result<Spawned, Box<dyn std::any::Any + Send>>>) {
        let incarnation = self.incarnation;
        match outcome {
            None => {}
            Some(Ok(Ok((actor, task)))) => {
                self.adopt(&actor);
                self.events.send(Event::Started(incarnation, actor));
                return self.watch(task).await;
            }
            Some(Ok(Err(SpawnErr::StartupFailed(error)))) if error.is::<Ignore>() => {
                return self.events.send(Event::Ignored(incarnation));
            }
            Some(Ok(Err(SpawnErr::StartupFailed(error)))) => {
                return self
                    .events
                    .send(Event::StartFailed(incarnation, chain(&error)));
            }
            Some(Ok(Err(error))) => {
                return self
                    .events
                    .send(Event::StartFailed(incarnation, error.to_string()));
            }
            Some(Err(panic)) => {
                let error = format!("its factory panicked: {}", panic_text(panic.as_ref()));
                return self.events.send(Event::StartFailed(incarnation, error));
            }
        }
        self.events.send(Event::Ended {
            incarnation,
            settled: false,
        });
    }

    /// Waits for the actual end of a life.
    async fn watch(self, task: JoinHandle<()>) {
        // An error means that the task was aborted, which is an end like any other.
        let _ = task.await;
        self.after_descendants().await;
    }

    /// Waits for the descendants that were told to die with the actor, which has ended.
    async fn after_descendants(self) {
        let below = std::mem::take(&mut *self.below.lock());
        for descendant in below {
            // Without a time limit this cannot time out.
            let _ = descendant.wait(None).await;
        }
        self.ended();
    }

    fn ended(self) {
        self.events.send(Event::Ended {
            incarnation: self.incarnation,
            settled: false,
        });
    }

    /// Ensures that the child dies with the supervisor, whatever its factory did.
    fn adopt(&self, actor: &ActorCell) {
        let linked = || {
            actor
                .try_get_supervisor()
                .is_some_and(|of| of == self.supervisor)
        };
        if !linked() {
            actor.link(self.supervisor.clone());
        }
        // An actor that has ended is linked to nobody. A living actor that cannot be linked has a
        // supervisor that is ending.
        if !linked() && actor.get_status() < ActorStatus::Stopping {
            actor.kill();
        }
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "no text"
    }
}
