//! The address of a child, whichever of its incarnations runs.

use ractor::{ActorCell, ActorStatus};
use tokio::sync::broadcast::error::RecvError;

use super::actor::Request;
use super::handle::Supervisor;
use super::machine::{ChildError, ChildState};

/// The address of a child. A child that is restarted is another actor, which an `ActorRef` from before does not reach;
/// this finds the one that runs now. [`Supervisor::child`] makes it. Cheap to clone; the child need not exist yet.
#[derive(Clone, Debug)]
pub struct ChildRef {
    supervisor: Supervisor,
    /// The ids of the supervisors in between, the outermost first.
    between: Vec<String>,
    id: String,
}

impl Supervisor {
    /// The address of the child with this id.
    #[must_use]
    pub fn child(&self, id: impl Into<String>) -> ChildRef {
        ChildRef {
            supervisor: self.clone(),
            between: Vec::new(),
            id: id.into(),
        }
    }
}

impl ChildRef {
    /// The address of a child of this child, which is a supervisor and may be restarted too.
    #[must_use]
    pub fn child(mut self, id: impl Into<String>) -> Self {
        self.between
            .push(std::mem::replace(&mut self.id, id.into()));
        self
    }

    /// The id of the child.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The actor that runs now. Waits while the child is being started, restarted or stopped.
    ///
    /// # Errors
    /// [`ChildError::NotFound`] if no child has this id, or the child in between is no supervisor;
    /// [`ChildError::Stopped`]; [`ChildError::Ended`] if the supervisor that made this address has ended.
    pub async fn actor(&self) -> Result<ActorCell, ChildError> {
        'top: loop {
            let mut above = self.supervisor.clone();
            for (depth, id) in self.between.iter().chain([&self.id]).enumerate() {
                let actor = match above.running(id).await {
                    // A supervisor below that ended meanwhile is restarted, or missed by the one above it.
                    Err(ChildError::Ended) if depth > 0 => continue 'top,
                    found => found?,
                };
                if depth == self.between.len() {
                    return Ok(actor);
                }
                above = Supervisor::from_actor(actor).ok_or(ChildError::NotFound)?;
            }
        }
    }
}

impl Supervisor {
    /// The state of a child, if there is one with this id.
    async fn state_of(&self, id: &str) -> Result<Option<ChildState>, ChildError> {
        let children = self.ask(Request::Which).await?;
        let child = children.into_iter().find(|(child, _)| child.id == id);
        Ok(child.map(|(child, _)| child.state))
    }

    /// The actor of a child once it runs.
    async fn running(&self, id: &str) -> Result<ActorCell, ChildError> {
        let mut changes = self.watch().await?;
        loop {
            match self.find_child(id).await? {
                // An actor whose end is not noticed yet counts as ended: its exit is a change to come.
                Some(actor) if actor.get_status() < ActorStatus::Stopping => return Ok(actor),
                Some(_) => {}
                None => match self.state_of(id).await?.ok_or(ChildError::NotFound)? {
                    ChildState::Stopped => return Err(ChildError::Stopped),
                    // It has started since the first look.
                    ChildState::Running => continue,
                    _ => {}
                },
            }
            match changes.recv().await {
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Err(ChildError::Ended),
            }
        }
    }
}
