//! Actors of the user's own as members of a team.

use ractor::{ActorRef, MessagingErr, RpcReplyPort, rpc::CallResult};

use super::supervisor::{ChildError, ChildRef};
use crate::{
    assembly::Agent,
    run::RunContext,
    vocabulary::{AgentError, Effect, ErrorKind, Message, OperationError, Outcome, RunId},
};

/// How many times a supervised actor may end over one task.
const DEATHS: u32 = 3;

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

/// Where the actor of a member is found: by its reference, or by its supervisor, which may start it again.
#[derive(Clone, Debug)]
pub struct MemberRef(Place);

#[derive(Clone, Debug)]
enum Place {
    Fixed(ActorRef<Delegation>),
    Supervised(ChildRef),
}

impl From<ActorRef<Delegation>> for MemberRef {
    fn from(actor: ActorRef<Delegation>) -> Self {
        Self(Place::Fixed(actor))
    }
}

/// The child takes a [`Delegation`]: another one cannot be reached.
impl From<ChildRef> for MemberRef {
    fn from(child: ChildRef) -> Self {
        Self(Place::Supervised(child))
    }
}

impl MemberRef {
    async fn actor(&self) -> Result<ActorRef<Delegation>, ChildError> {
        Ok(match &self.0 {
            Place::Fixed(actor) => actor.clone(),
            Place::Supervised(child) => child.actor().await?.into(),
        })
    }
}

impl Agent {
    /// Makes any ractor actor that takes a [`Delegation`] an agent of the team. The run sees it as
    /// a call with this effect class.
    ///
    /// An [`ActorRef`] is of one incarnation. An actor that is started again is given by its supervisor:
    /// [`Supervisor::child`](super::supervisor::Supervisor::child). A task that comes while it is being started waits
    /// for it. Where it ends over a task, its next incarnation is asked again, up to three times, if the effect is
    /// `read` or `idempotent`; after `once` nobody knows whether it acted, so the task fails
    /// ([`ErrorKind::InDoubt`]) and is not given to it again.
    pub fn from_actor(
        name: impl Into<String>,
        actor: impl Into<MemberRef>,
        effect: Effect,
    ) -> Self {
        let actor = actor.into();
        Self::from_fn(name, move |cx: RunContext| {
            ask_actor(cx, actor.clone(), effect)
        })
    }
}

async fn ask_actor(
    cx: RunContext,
    actor: MemberRef,
    effect: Effect,
) -> Result<Outcome, AgentError> {
    let (run, task) = (cx.run(), cx.input().clone());
    let name = cx.spec().name.clone();
    let key = format!("{run}/{name}");
    let asked = async move {
        let mut deaths = 0;
        loop {
            let ask = |reply| Delegation {
                run,
                task: task.clone(),
                idempotency_key: key.clone(),
                reply,
            };
            let unreachable = |error: String| {
                OperationError::new(
                    ErrorKind::Other,
                    format!("the actor cannot be reached: {error}"),
                )
            };
            let found = actor.actor().await;
            let found = found.map_err(|error| unreachable(error.to_string()))?;
            let may_come_back = matches!(actor.0, Place::Supervised(_));
            match found.call(ask, None).await {
                Ok(CallResult::Success(answer)) => {
                    return answer.map_err(|reason| OperationError::new(ErrorKind::Other, reason));
                }
                Ok(CallResult::Timeout | CallResult::SenderError) if effect == Effect::Once => {
                    return Err(OperationError::new(
                        ErrorKind::InDoubt,
                        "the actor ended without an answer, and may have acted; it is not asked again",
                    ));
                }
                Ok(CallResult::Timeout | CallResult::SenderError) => {
                    deaths += 1;
                    if !may_come_back || deaths == DEATHS {
                        let what = format!("the actor ended without an answer (attempt {deaths})");
                        return Err(OperationError::new(ErrorKind::Other, what));
                    }
                }
                // It ended before the task reached it.
                Err(MessagingErr::SendErr(_) | MessagingErr::ChannelClosed) if may_come_back => {}
                Err(error) => return Err(unreachable(error.to_string())),
            }
        }
    };
    let answer = cx.step_with(name, effect, asked).await?;
    Ok(Outcome::answer(answer))
}
