//! Actors of the user's own as members of a team.

use ractor::{ActorRef, RpcReplyPort, rpc::CallResult};

use crate::{
    assembly::Agent,
    run::RunContext,
    vocabulary::{AgentError, Effect, Message, Outcome, RunId},
};

/// A task for an actor of the user's own.
#[derive(Debug)]
#[non_exhaustive]
pub struct Delegation {
    /// The run that delegates the task.
    pub run: RunId,
    /// The task.
    pub task: Message,
    /// The key under which an `idempotent` member may be asked again.
    pub idempotency_key: String,
    /// The port for the answer: the text, or the reason why there is none.
    pub reply: RpcReplyPort<Result<String, String>>,
}

impl Agent {
    /// Makes any ractor actor that takes a [`Delegation`] an agent of the team. The run sees it as
    /// a call with this effect class.
    pub fn from_actor(
        name: impl Into<String>,
        actor: ActorRef<Delegation>,
        effect: Effect,
    ) -> Self {
        Self::from_fn(name, move |cx: RunContext| {
            ask_actor(cx, actor.clone(), effect)
        })
    }
}

async fn ask_actor(
    cx: RunContext,
    actor: ActorRef<Delegation>,
    effect: Effect,
) -> Result<Outcome, AgentError> {
    let (run, task) = (cx.run(), cx.input().clone());
    let name = cx.spec().name.clone();
    let idempotency_key = format!("{run}/{name}");
    let asked = async move {
        let ask = |reply| Delegation {
            run,
            task,
            idempotency_key,
            reply,
        };
        match actor.call(ask, None).await {
            Ok(CallResult::Success(answer)) => answer,
            Ok(CallResult::Timeout | CallResult::SenderError) => {
                Err("the actor ended without an answer".to_owned())
            }
            Err(error) => Err(format!("the actor cannot be reached: {error}")),
        }
    };
    let answer = cx.step(name, effect, asked).await?;
    Ok(Outcome::answer(answer))
}
