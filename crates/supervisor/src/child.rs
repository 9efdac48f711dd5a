//! A child: its specification, and the factory that creates its lives.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::concurrency::JoinHandle;
use ractor::{Actor, ActorCell, ActorRuntime, SpawnErr};

use super::exit::{Exit, RestartDecision};
use super::spec::ChildSpec;

/// The result of a factory: a started actor and the handle of its task.
pub type Spawned = Result<(ActorCell, JoinHandle<()>), SpawnErr>;

/// The factory of a child's lives.
trait Factory: Send + Sync {
    /// Creates a life. Nothing runs before the future is polled, and a panic is its output.
    fn start(self: Arc<Self>, supervisor: ActorCell)
    -> BoxFuture<'static, thread::Result<Spawned>>;
}

impl<F, Fut> Factory for F
where
    F: Fn(ActorCell) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Spawned> + Send + 'static,
{
    fn start(
        self: Arc<Self>,
        supervisor: ActorCell,
    ) -> BoxFuture<'static, thread::Result<Spawned>> {
        Box::pin(AssertUnwindSafe(async move { (*self)(supervisor).await }).catch_unwind())
    }
}

type Classifier = dyn Fn(&Exit) -> RestartDecision + Send + Sync;

/// A child of a supervisor: its [`ChildSpec`], and the factory that creates each of its lives.
///
/// The factory is called for every start. It looks up anything that a new life needs from the last
/// one (a checkpoint, a journal); nothing is taken from the state of an actor that has ended.
#[derive(Clone)]
pub struct Child {
    spec: ChildSpec,
    factory: Arc<dyn Factory>,
    classifier: Option<Arc<Classifier>>,
    at_once: bool,
}

impl Child {
    /// A child that `factory` creates. The factory gets the supervisor to link the child to.
    ///
    /// The factory runs in its own task, which is dropped when the start is no longer wanted. An
    /// actor that the factory did not link is linked afterwards.
    pub fn new<F, Fut>(spec: ChildSpec, factory: F) -> Self
    where
        F: Fn(ActorCell) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Spawned> + Send + 'static,
    {
        Self {
            spec,
            factory: Arc::new(factory),
            classifier: None,
            at_once: false,
        }
    }

    /// The same child, with a factory that returns quickly. It is first called in the supervisor's
    /// own task, which saves a task and two messages for each start.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        self.at_once = true;
        self
    }

    pub(super) fn is_at_once(&self) -> bool {
        self.at_once
    }

    /// A child whose lives are the unnamed actors that `make` returns, with their arguments.
    pub fn of<A, F>(spec: ChildSpec, make: F) -> Self
    where
        A: Actor,
        F: Fn() -> (A, A::Arguments) + Send + Sync + 'static,
    {
        Self::new(spec, move |supervisor| {
            let (actor, arguments) = make();
            async move {
                let spawned = ActorRuntime::spawn_linked(None, actor, arguments, supervisor);
                spawned.await.map(|(actor, task)| (actor.get_cell(), task))
            }
        })
    }

    /// The same child, with a classifier that decides which of the exits that lead to a restart
    /// count against the supervisor's intensity. If the classifier panics, its verdict is
    /// [`RestartDecision::Counted`].
    #[must_use]
    pub fn classify_exits<F>(mut self, classifier: F) -> Self
    where
        F: Fn(&Exit) -> RestartDecision + Send + Sync + 'static,
    {
        self.classifier = Some(Arc::new(classifier));
        self
    }

    /// The child's specification.
    #[must_use]
    pub fn spec(&self) -> &ChildSpec {
        &self.spec
    }

    /// Creates a life.
    pub(super) fn spawn(
        &self,
        supervisor: ActorCell,
    ) -> BoxFuture<'static, thread::Result<Spawned>> {
        Arc::clone(&self.factory).start(supervisor)
    }

    pub(super) fn classify(&self, exit: &Exit) -> RestartDecision {
        let Some(classifier) = &self.classifier else {
            return RestartDecision::Counted;
        };
        catch_unwind(AssertUnwindSafe(|| classifier(exit))).unwrap_or_default()
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

/// An error for a child's `pre_start`, which means that the child has nothing to do, and is no
/// failure. The child is kept without an actor (a temporary one is removed).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is nothing for this child to do")]
pub struct Ignore;
