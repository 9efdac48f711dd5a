//! The handle of a supervisor, and its builder.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use ractor::concurrency::JoinHandle;
use ractor::rpc::CallResult;
use ractor::{ActorCell, ActorRef, ActorRuntime, Message, RpcReplyPort, SpawnErr};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use super::actor::{Plan, Request, SupervisorActor, SupervisorMessage};
use super::child::Child;
use super::exit::{Escalation, SHUTDOWN};
use super::machine::{ChildError, ChildState};
use super::spec::{ChildKind, ChildSpec, Restart, SpecError, SupervisorSpec};

/// A running supervisor. Cheap to clone; dropping it stops nothing.
#[derive(Clone)]
pub struct Supervisor {
    actor: ActorRef<SupervisorMessage>,
}

impl Supervisor {
    /// A builder of a supervisor, which is started or made a child of another.
    pub fn builder(spec: SupervisorSpec) -> SupervisorBuilder {
        SupervisorBuilder {
            plan: Plan {
                spec,
                children: Vec::new(),
                escalate: None,
            },
        }
    }

    /// The handle of the supervisor that runs as this actor, if the actor is a supervisor.
    #[must_use]
    pub fn from_actor(actor: ActorCell) -> Option<Self> {
        let is_one = actor.is_message_type_of::<SupervisorMessage>() == Some(true);
        is_one.then(|| Self {
            actor: actor.into(),
        })
    }

    /// Its actor, for linking or to read its status.
    #[must_use]
    pub fn actor(&self) -> ActorCell {
        self.actor.get_cell()
    }

    /// Adds a child after all others and starts it; returns its actor once it has started.
    ///
    /// If the caller stops waiting, the child still starts.
    ///
    /// # Errors
    /// [`ChildError::StartFailed`] (the child is then not added), [`ChildError::Ignored`],
    /// [`ChildError::AlreadyStarted`] and [`ChildError::AlreadyPresent`] for an id in use,
    /// [`ChildError::Invalid`], [`ChildError::Terminated`], [`ChildError::Ended`].
    pub async fn start_child(&self, child: Child) -> Result<ActorCell, ChildError> {
        self.ask(|port| Request::Start(child, port)).await?
    }

    /// Stops a child and returns when it has actually ended. Its spec is kept, unless it is
    /// temporary. A start that is under way, or a pending restart, is cancelled; so a terminated
    /// child comes back only by [`Supervisor::restart_child`] or with its group.
    ///
    /// # Errors
    /// [`ChildError::NotFound`], [`ChildError::Ended`].
    pub async fn terminate_child(&self, id: &str) -> Result<(), ChildError> {
        self.ask(|port| Request::Terminate(id.to_owned(), port))
            .await?
    }

    /// Starts a child that is stopped; returns its actor once it has started.
    ///
    /// # Errors
    /// [`ChildError::NotFound`], [`ChildError::Running`], [`ChildError::Restarting`],
    /// [`ChildError::StartFailed`], [`ChildError::Ignored`], [`ChildError::Terminated`],
    /// [`ChildError::SimpleOneForOne`], [`ChildError::Ended`].
    pub async fn restart_child(&self, id: &str) -> Result<ActorCell, ChildError> {
        self.ask(|port| Request::Restart(id.to_owned(), port))
            .await?
    }

    /// Removes a child that is stopped.
    ///
    /// # Errors
    /// [`ChildError::NotFound`], [`ChildError::Running`], [`ChildError::Restarting`],
    /// [`ChildError::SimpleOneForOne`], [`ChildError::Ended`].
    pub async fn delete_child(&self, id: &str) -> Result<(), ChildError> {
        self.ask(|port| Request::Delete(id.to_owned(), port))
            .await?
    }

    /// The actor of a child, if the child is running.
    ///
    /// # Errors
    /// [`ChildError::Ended`].
    pub async fn find_child(&self, id: &str) -> Result<Option<ActorCell>, ChildError> {
        self.ask(|port| Request::Find(id.to_owned(), port)).await
    }

    /// The children in start order, each with its own children if it is such a supervisor. The list
    /// of each supervisor is consistent, the tree as a whole is not.
    ///
    /// # Errors
    /// [`ChildError::Ended`] for this supervisor; a supervisor below that ends meanwhile is shown
    /// without children.
    pub async fn which_children(&self) -> Result<Vec<ChildInfo>, ChildError> {
        let mut children = Vec::new();
        for (mut info, actor) in self.ask(Request::Which).await? {
            if let Some(below) = actor.and_then(Self::from_actor) {
                info.children = below.which_children_below().await.unwrap_or_default();
            }
            children.push(info);
        }
        Ok(children)
    }

    fn which_children_below(&self) -> BoxFuture<'_, Result<Vec<ChildInfo>, ChildError>> {
        Box::pin(self.which_children())
    }

    /// Every change of a child's state from now on, in order, until the supervisor ends. A watcher
    /// that lags too far behind gets an error, and should then call [`Supervisor::which_children`].
    ///
    /// # Errors
    /// [`ChildError::Ended`].
    pub async fn watch(&self) -> Result<broadcast::Receiver<Change>, ChildError> {
        self.ask(Request::Watch).await
    }

    /// Stops the children in reverse order, each within its time limit, and then the supervisor.
    /// Returns when all have ended. It may be called several times.
    pub async fn stop(&self) {
        self.actor().stop(Some(SHUTDOWN.to_owned()));
        self.wait().await;
    }

    /// Returns when the supervisor has ended.
    pub async fn wait(&self) {
        // Without a time limit this cannot time out.
        let _ = self.actor().wait(None).await;
    }

    pub(super) async fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(RpcReplyPort<T>) -> Request,
    ) -> Result<T, ChildError> {
        match self
            .actor
            .call(|port| SupervisorMessage(request(port)), None)
            .await
        {
            Ok(CallResult::Success(answer)) => Ok(answer),
            // The mailbox is closed, or was dropped with the request in it.
            Ok(CallResult::Timeout | CallResult::SenderError) | Err(_) => Err(ChildError::Ended),
        }
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Supervisor")
            .field(&self.actor.get_id())
            .finish()
    }
}

/// A supervisor that has not been started.
#[derive(Debug, Clone)]
#[must_use = "nothing starts before `start`, `start_linked` or a parent does it"]
pub struct SupervisorBuilder {
    plan: Plan,
}

impl SupervisorBuilder {
    /// Adds a first child, after those already added.
    pub fn child(mut self, child: Child) -> Self {
        self.plan.children.push(child);
        self
    }

    /// Adds first children, in this order.
    pub fn children(mut self, children: impl IntoIterator<Item = Child>) -> Self {
        self.plan.children.extend(children);
        self
    }

    /// Notifies this actor when restarts are used up, before the children are stopped. The end of
    /// the supervisor itself is reported to the actor that it is linked to.
    pub fn escalate_to<M>(mut self, parent: ActorRef<M>) -> Self
    where
        M: Message + From<Escalation>,
    {
        self.plan.escalate = Some(Arc::new(move |escalation| {
            // A parent that has ended needs no notice.
            let _ = parent.cast(M::from(escalation));
        }));
        self
    }

    /// Starts it without a parent. Returns when all first children have started, one after another.
    ///
    /// # Errors
    /// [`StartError`]; the children that had started are stopped again, in reverse order.
    pub async fn start(self) -> Result<(Supervisor, JoinHandle<()>), StartError> {
        let spawned = ActorRuntime::spawn(None, SupervisorActor, self.plan).await;
        Self::started(spawned)
    }

    /// Starts it below this actor, which gets its end as a supervision event, and whose own end
    /// kills it. Otherwise like [`SupervisorBuilder::start`].
    ///
    /// # Errors
    /// As [`SupervisorBuilder::start`].
    pub async fn start_linked(
        self,
        parent: ActorCell,
    ) -> Result<(Supervisor, JoinHandle<()>), StartError> {
        let spawned = ActorRuntime::spawn_linked(None, SupervisorActor, self.plan, parent).await;
        Self::started(spawned)
    }

    fn started(
        spawned: Result<(ActorRef<SupervisorMessage>, JoinHandle<()>), SpawnErr>,
    ) -> Result<(Supervisor, JoinHandle<()>), StartError> {
        match spawned {
            Ok((actor, task)) => Ok((Supervisor { actor }, task)),
            Err(SpawnErr::StartupFailed(error)) => match error.downcast::<StartError>() {
                Ok(error) => Err(*error),
                Err(error) => Err(StartError::Refused {
                    error: error.to_string(),
                }),
            },
            Err(error) => Err(StartError::Refused {
                error: error.to_string(),
            }),
        }
    }

    /// A child that is this supervisor; give it a [`ChildSpec::supervisor`]. Each life starts with
    /// these first children; children added later are lost with that life.
    pub fn into_child(self, spec: ChildSpec) -> Child {
        Child::of(spec, move || (SupervisorActor, self.plan.clone()))
    }
}

/// Why a supervisor did not start.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The spec of the supervisor or of a child is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A first child did not start.
    #[error("child `{child}` did not start: {error}")]
    Child {
        /// The child.
        child: String,
        /// Why.
        error: String,
    },
    /// The runtime refused: the parent is ending, or the supervisor was killed while it started.
    #[error("the supervisor could not start: {error}")]
    Refused {
        /// The message of ractor.
        error: String,
    },
}

/// A child in the tree that [`Supervisor::which_children`] returns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildInfo {
    /// Its id.
    pub id: String,
    /// Whether it is a worker or a supervisor.
    pub kind: ChildKind,
    /// When it is started again.
    pub restart: Restart,
    /// Its current state.
    pub state: ChildState,
    /// How many times its supervisor has restarted it.
    pub restarts: u64,
    /// ractor's id of its actor, if it has one now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Its own children, if it is a supervisor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ChildInfo>,
}

/// A change of one child's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The child's id.
    pub id: String,
    /// Its new state.
    pub state: ChildState,
}
