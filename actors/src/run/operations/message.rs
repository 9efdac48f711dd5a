use std::borrow::Cow;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::PlainOperation;
use crate::{
    contract::{ItemBody, MailboxItem},
    run::{Arrival, Begin, Gate, OperationContext, Performing, RunContext, Wait, WaitFor},
    vocabulary::{Digest, ErrorKind, Message, OperationError, RunId, canonical, listed},
};

/// A typed message to a running agent.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no message to agents: it does not implement `AgentMessage`",
    note = "give it a stable name: `impl AgentMessage for {Self} {{ const NAME: &'static str = \"…\"; }}`, and derive \
            serde's `Serialize` and `Deserialize`"
)]
pub trait AgentMessage: Serialize + DeserializeOwned + Send + 'static {
    /// The type's stable name: journals hold it.
    const NAME: &'static str;
}

impl AgentMessage for Message {
    const NAME: &'static str = "message";
}

/// The next message of a type from the run's mailbox, under this name. With `at_once` it is made and not waited for.
pub(super) fn receive<M: AgentMessage>(
    name: Cow<'static, str>,
    at_once: Option<fn() -> M>,
) -> PlainOperation<M> {
    let (channel, digest) = (name.clone(), Digest::of(name.as_bytes()));
    PlainOperation::new("receive", name, digest, move |_| {
        if let Some(message) = at_once {
            return Begin::Ready(Ok(message()));
        }
        let wait = Wait::new(WaitFor::Message(channel), |arrival| match arrival {
            Arrival::Message(value) => serde_json::from_value(value).map_err(|error| {
                let message = format!("a message {:?} cannot be read: {error}", M::NAME);
                OperationError::new(ErrorKind::Malformed, message)
            }),
            other => Err(other.unexpected()),
        });
        Begin::Wait(wait.reading(|value| match M::deserialize(value) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }))
    })
}

/// The next message of a type on this channel.
pub(super) fn receive_on<M: AgentMessage>(
    channel: &str,
    at_once: Option<fn() -> M>,
) -> PlainOperation<M> {
    receive(Cow::Owned(format!("{}/{channel}", M::NAME)), at_once)
}

/// The receiver of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The run of this agent: the latest that this leg spawned, or else the parent or the root, if
    /// one of them is the agent's.
    Agent(String),
    /// A run.
    Run(RunId),
    /// The run that delegated this one.
    Parent,
}

impl From<&str> for Target {
    fn from(agent: &str) -> Self {
        Self::Agent(agent.to_owned())
    }
}

impl From<RunId> for Target {
    fn from(run: RunId) -> Self {
        Self::Run(run)
    }
}

impl From<&super::Spawned> for Target {
    fn from(child: &super::Spawned) -> Self {
        Self::Run(child.run)
    }
}

impl Target {
    /// The bytes that identify it in an operation's digest.
    fn identity(&self) -> Vec<u8> {
        match self {
            // The run's id is left out, since it differs in a fork.
            Self::Run(_) => b"Run".to_vec(),
            Self::Parent => b"Parent".to_vec(),
            Self::Agent(agent) => {
                let mut target = b"Agent(".to_vec();
                canonical::write(agent, &mut target);
                target.push(b')');
                target
            }
        }
    }
}

/// Puts a message into a run's mailbox.
fn begin_tell(
    cx: &OperationContext,
    target: &Target,
    name: &str,
    value: Result<Value, String>,
) -> Begin<()> {
    let start = cx.start();
    let run = match target {
        Target::Run(run) => Some(*run),
        Target::Parent => start.parent.map(|(run, _)| run),
        Target::Agent(agent) => {
            let books = cx.leg.books.lock();
            let spawned = books.spawned.iter().rev().find(|(name, _)| name == agent);
            let place = start.path.iter().rev().position(|name| name == agent);
            spawned.map(|(_, run)| *run).or(match place {
                Some(0) => Some(cx.run),
                Some(1) => start.parent.map(|(run, _)| run),
                Some(_) if start.path.first() == Some(agent) => Some(start.root),
                _ => None,
            })
        }
    };
    let Some(run) = run else {
        let message = format!("nobody to tell: {:?} has no run in this tree", target);
        return Begin::failed(ErrorKind::NotFound, message);
    };
    if let Some(agent) = agent_of(cx, run)
        && let Some(received) =
            (cx.leg.code).received_by(&cx.leg.pinned.team, &agent, run != cx.start().root)
        && !received.contains(name)
    {
        let message = format!(
            "{agent} receives no message {:?}, so nothing was told; it receives: {}",
            name,
            listed(received)
        );
        return Begin::failed(ErrorKind::Malformed, message);
    }
    match value {
        Ok(value) => post(cx, run, name.to_owned(), value),
        Err(message) => Begin::failed(ErrorKind::Malformed, message),
    }
}

/// The agent with which a run of the tree began, as far as this leg knows it.
fn agent_of(cx: &OperationContext, run: RunId) -> Option<String> {
    let start = cx.start();
    let above = |steps: usize| start.path.iter().rev().nth(steps).cloned();
    if run == cx.run {
        return above(0);
    }
    if start.parent.is_some_and(|(parent, _)| parent == run) {
        return above(1);
    }
    let books = cx.leg.books.lock();
    let spawned = books.spawned.iter().find(|(_, spawned)| *spawned == run);
    let root = || start.path.first().filter(|_| run == start.root).cloned();
    spawned.map(|(name, _)| name.clone()).or_else(root)
}

/// Posts a message to a run.
pub(super) fn post(cx: &OperationContext, run: RunId, name: String, value: Value) -> Begin<()> {
    let body = ItemBody::Message { name, value };
    // The id makes it harmless to send the message again.
    let id = format!("{}/{}", cx.run, cx.id);
    let item = MailboxItem::new(id, cx.ports.clock().now(), body);
    Begin::act(Gate::Before, cx.ports.post(run, item))
}

impl RunContext {
    /// Waits for the next message of this type from the run's mailbox. A message of this name that does not read as the
    /// type is set aside: it leaves an event ([`Event::MessageQuarantined`](crate::vocabulary::Event::MessageQuarantined)),
    /// and the run waits on.
    pub fn receive<M: AgentMessage>(&self) -> Performing<PlainOperation<M>> {
        self.perform(receive(Cow::Borrowed(M::NAME), None))
    }

    /// Puts a message into the mailbox of another run of the tree, durably.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the target has no run; [`ErrorKind::Malformed`] when its agent says which messages it
    /// receives ([`Agent::receives`](crate::run::Agent::receives)), and this is none of them.
    pub fn tell<M: AgentMessage>(
        &self,
        target: impl Into<Target>,
        message: &M,
    ) -> Performing<PlainOperation<()>> {
        let target = target.into();
        let value = serde_json::to_value(message).map_err(|error| error.to_string());
        let input = value.as_ref().map(canonical::to_vec).unwrap_or_default();
        let digest = Digest::of_parts(&[&target.identity(), &input]);
        self.perform(PlainOperation::new("tell", M::NAME, digest, move |cx| {
            begin_tell(&cx, &target, M::NAME, value)
        }))
    }
}
