//! A run under way: an actor whose one handler is the agent's function.

use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::agent_command::AgentCommand;
use crate::{
    run::{RunExit, RunTask},
    vocabulary::RunId,
};

/// Carries one run. The actor is linked to the agent that hosts it, so a panic of the function is a
/// supervision event there, and the end of the agent ends this incarnation of the run.
pub(crate) struct RunActor;

/// Carry this run to its rest.
pub(crate) struct Carry(pub(crate) Box<RunTask>);

impl Actor for RunActor {
    type Msg = Carry;
    type State = (RunId, ActorRef<AgentCommand>);
    type Arguments = Self::State;

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        state: Self::State,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        Carry(task): Carry,
        (run, host): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let rest: RunExit = task.carry().await;
        // A host that is gone finds in the journal how far this run came.
        let _ = host.cast(AgentCommand::Rested(*run, myself.get_id(), Box::new(rest)));
        myself.stop(None);
        Ok(())
    }
}
