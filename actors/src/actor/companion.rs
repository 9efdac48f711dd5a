//! Actors that a package adds beside a System's own.

use std::{any::Any, collections::HashMap, fmt, sync::Arc, time::Duration};

use ractor::{Actor, Message};
use tokio::sync::{Mutex, SetOnce, oneshot};

use super::{
    supervised_ref::{SupervisedRef, slotted},
    supervisor::{Backoff, ChildError, ChildSpec, Strategy, Supervisor, SupervisorSpec},
};
use crate::{
    contract::{Clock, ModelHost},
    run::OperationContext,
    vocabulary::{ErrorKind, OperationError},
};

/// The companions of a System, started when they are first asked for.
pub(crate) struct Companions {
    root: SetOnce<Supervisor>,
    clock: Arc<dyn Clock>,
    started: Mutex<HashMap<String, Box<dyn Any + Send>>>,
}

impl Companions {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            root: SetOnce::new(),
            clock,
            started: Mutex::default(),
        })
    }

    /// They are started below this supervisor.
    pub(crate) fn below(&self, root: Supervisor) {
        let _ = self.root.set(root);
    }

    async fn find<A, F>(&self, id: &str, make: F) -> Result<SupervisedRef<A::Msg>, OperationError>
    where
        A: Actor,
        F: Fn() -> (A, A::Arguments) + Send + Sync + 'static,
        A::Msg: Message,
    {
        let mut started = self.started.lock().await;
        if let Some(found) = started.get(id) {
            let slot = found.downcast_ref::<SupervisedRef<A::Msg>>();
            return slot.cloned().ok_or_else(|| {
                let message = format!("{id:?} is an actor that takes other messages");
                OperationError::new(ErrorKind::InvalidInput, message)
            });
        }
        let failed = |why: String| {
            let message = format!("the actor {id:?} does not start: {why}");
            OperationError::new(ErrorKind::Other, message)
        };
        // A run that an item wakes may be faster than the rest of a System that starts.
        let root = self.root.wait().await;
        let slot = SupervisedRef::<A::Msg>::default();
        // A supervisor of its own, so that its deaths do not count as the root's.
        let spec = SupervisorSpec::new(Strategy::OneForOne)
            .intensity(1000, Duration::from_secs(10))
            .backoff(Backoff::exponential(
                Duration::from_millis(1),
                Duration::from_millis(100),
            ));
        let child = slotted(id, slot.clone(), make);
        let child = Supervisor::builder(spec)
            .child(child)
            .into_child(ChildSpec::supervisor(id));
        match root.start_child(child).await {
            Ok(_) => {}
            Err(ChildError::AlreadyStarted) => {
                return Err(failed("the System has another child of this name".into()));
            }
            Err(error) => return Err(failed(error.to_string())),
        }
        started.insert(id.to_owned(), Box::new(slot.clone()));
        Ok(slot)
    }
}

opaque!(Companions);

/// An actor that a package adds to a System: supervised below the System's root, shown by
/// [`System::tree`](super::System::tree), and started again when it dies. Its state is a cache: what must
/// not be lost is in the store.
pub struct Companion<M> {
    slot: SupervisedRef<M>,
    clock: Arc<dyn Clock>,
    id: String,
}

impl<M: Message> Companion<M> {
    /// Asks the actor something. If it dies before it answers, its next incarnation is asked.
    ///
    /// # Errors
    /// When the actor does not come back.
    pub async fn ask<T>(
        &self,
        question: impl Fn(oneshot::Sender<T>) -> M,
    ) -> Result<T, OperationError> {
        let answer = self.slot.ask(&self.clock, question).await;
        answer.ok_or_else(|| {
            let message = format!("the actor {:?} does not come back", self.id);
            OperationError::new(ErrorKind::Other, message).retryable()
        })
    }

    /// Sends the actor a message. A message that is sent while the actor is down is lost.
    pub fn tell(&self, message: M) {
        let _ = self.slot.send(message);
    }
}

impl<M> Clone for Companion<M> {
    fn clone(&self) -> Self {
        Self {
            slot: self.slot.clone(),
            clock: self.clock.clone(),
            id: self.id.clone(),
        }
    }
}

impl<M> fmt::Debug for Companion<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Companion({})", self.id)
    }
}

impl<M: Message> Companion<M> {
    async fn find<A, F>(
        companions: Arc<dyn Any + Send + Sync>,
        id: &str,
        make: F,
    ) -> Result<Self, OperationError>
    where
        A: Actor<Msg = M>,
        F: Fn() -> (A, A::Arguments) + Send + Sync + 'static,
    {
        let companions: Result<Arc<Companions>, _> = companions.downcast();
        let companions = companions.map_err(|_| {
            let message = format!("there is no System in which the actor {id:?} could live");
            OperationError::new(ErrorKind::Other, message)
        })?;
        Ok(Self {
            slot: companions.find::<A, F>(id, make).await?,
            clock: companions.clock.clone(),
            id: id.to_owned(),
        })
    }
}

impl OperationContext {
    /// The actor of this name that stands beside the System's own, started when it is first asked for.
    /// `make` makes each of its lives.
    ///
    /// # Errors
    /// When it cannot be started, or another sort of actor has this name.
    pub async fn companion<A, F>(
        &self,
        id: &str,
        make: F,
    ) -> Result<Companion<A::Msg>, OperationError>
    where
        A: Actor,
        F: Fn() -> (A, A::Arguments) + Send + Sync + 'static,
        A::Msg: Message,
    {
        Companion::find::<A, F>(self.ports.companions(), id, make).await
    }
}

impl ModelHost {
    /// The actor of this name that stands beside the System's own, as
    /// [`OperationContext::companion`] finds and starts it.
    ///
    /// # Errors
    /// When it cannot be started, or another sort of actor has this name.
    pub async fn companion<A, F>(
        &self,
        id: &str,
        make: F,
    ) -> Result<Companion<A::Msg>, OperationError>
    where
        A: Actor,
        F: Fn() -> (A, A::Arguments) + Send + Sync + 'static,
        A::Msg: Message,
    {
        Companion::find::<A, F>(self.companions(), id, make).await
    }
}
