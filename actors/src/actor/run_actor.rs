//! A run under way: an actor whose one handler is the agent's function.

use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::agent_message::AgentMessage;
use crate::{
    run::{RunExit, RunTask},
    vocabulary::RunId,
};

/// Carries one run. The actor is linked to the agent that hosts it, so a panic of the function is a
/// supervision event there, and the end of the agent ends this life of the run.
pub(crate) struct RunActor;

/// Carry this run to its rest.
pub(crate) struct Carry(pub(crate) Box<RunTask>);

pub(crate) struct RunActorState {
    run: RunId,
    host: ActorRef<AgentMessage>,
}

impl Actor for RunActor {
    type Msg = Carry;
    type State = RunActorState;
    type Arguments = (RunId, ActorRef<AgentMessage>);

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        (run, host): Self::Arguments,
    ) -> Result<RunActorState, ActorProcessingErr> {
        Ok(RunActorState { run, host })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        Carry(task): Carry,
        state: &mut RunActorState,
    ) -> Result<(), ActorProcessingErr> {
        let rest: RunExit = task.carry().await;
        // A host that is gone finds in the journal how far this run came.
        let _ = state.host.cast(AgentMessage::Rested(
            state.run,
            myself.get_id(),
            Box::new(rest),
        ));
        myself.stop(None);
        Ok(())
    }
}
