//! The address of a supervised actor's current incarnation.

use std::{sync::Arc, time::Duration};

use parking_lot::RwLock;
use ractor::{Actor, ActorRef, ActorRuntime, ActorStatus, Message, MessagingErr};

use tokio::sync::oneshot;

use super::supervisor::{Child, ChildSpec};
use crate::contract::Clock;

/// The pause before a question is put to the next incarnation of an actor that died over it.
const NEXT_LIFE: Duration = Duration::from_millis(20);
/// How often a question is put.
const LIVES: u32 = 250;

/// The address of an actor that its supervisor may start again. Cloning shares it.
pub(crate) struct SupervisedRef<M>(Arc<RwLock<Option<ActorRef<M>>>>);

impl<M> Clone for SupervisedRef<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M> Default for SupervisedRef<M> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<M: Message> SupervisedRef<M> {
    /// Sets the current incarnation.
    pub(crate) fn set(&self, actor: ActorRef<M>) {
        *self.0.write() = Some(actor);
    }

    /// The current incarnation, unless it has ended.
    pub(crate) fn get(&self) -> Option<ActorRef<M>> {
        let slot = self.0.read();
        slot.as_ref()
            .filter(|actor| actor.get_status() < ActorStatus::Stopping)
            .cloned()
    }

    /// Sends a message to the current incarnation, or gives it back.
    pub(crate) fn send(&self, message: M) -> Result<(), M> {
        let slot = self.0.read();
        let Some(actor) = slot.as_ref() else {
            return Err(message);
        };
        match actor.cast(message) {
            Ok(()) => Ok(()),
            Err(MessagingErr::SendErr(message)) => Err(message),
            // A closed or mistyped channel drops the message, so it cannot be given back. A caller
            // that waits for an answer sees its channel close.
            Err(_) => Ok(()),
        }
    }

    /// Asks the actor, and its next lives where it dies over the question. `None` if it does not
    /// come back.
    pub(crate) async fn ask<T>(
        &self,
        clock: &Arc<dyn Clock>,
        question: impl Fn(oneshot::Sender<T>) -> M,
    ) -> Option<T> {
        for _ in 0..LIVES {
            let (sender, receiver) = oneshot::channel();
            if self.send(question(sender)).is_ok()
                && let Ok(answer) = receiver.await
            {
                return Some(answer);
            }
            clock.sleep(NEXT_LIFE).await;
        }
        None
    }
}

/// A child whose current incarnation is found in a slot.
pub(crate) fn slotted<A, F>(name: &str, slot: SupervisedRef<A::Msg>, make: F) -> Child
where
    A: Actor,
    F: Fn() -> (A, A::Arguments) + Send + Sync + 'static,
    A::Msg: Message,
{
    Child::new(ChildSpec::worker(name), move |supervisor| {
        let (actor, arguments) = make();
        let slot = slot.clone();
        async move {
            let spawned = ActorRuntime::spawn_linked(None, actor, arguments, supervisor).await?;
            slot.set(spawned.0.clone());
            Ok((spawned.0.get_cell(), spawned.1))
        }
    })
}
