//! The messages of an agent.

use std::sync::Arc;

use tokio::{sync::oneshot, task};

use super::{
    SystemError,
    call_table::Counted,
    loaded::{LoadedSession, RecoveredSession},
    supervised_ref::SupervisedRef,
    wake::WakeReply,
};
use crate::{
    contract::{RunRow, StoreError},
    run::{ChildStart, Loaded, RunExit},
    session::Turn,
    vocabulary::{RunId, RunStart, SessionTurn},
};

/// A message to an agent, from above or below it.
pub(crate) enum AgentCommand {
    /// A turn for the session. It has an id.
    Turn(Box<Turn>, TurnReply),
    /// A turn that waits for the run under way, whatever the team's setting is.
    Queue(Box<Turn>, TurnReply),
    /// Something came into the session's mailbox.
    SteeringTurnsWait,
    /// The pause is over, after which the session's mailbox is looked at again.
    LookAgain,
    /// These turns stood in the session's mailbox while no run was under way, at the look for this message.
    Unheard(u64, Vec<Turn>),
    /// A run for whose end turns wait waits for a person's answer.
    Asking(Asking),
    /// The session's journal was read.
    SessionLoaded(Box<Result<LoadedSession, StoreError>>),
    /// The turn's first entries are durable, or refused.
    TurnRecorded(Box<BegunTurn>, Result<(), StoreError>),
    /// Take this run up, if it is not live; a place may have been kept for it.
    Wake(RunId, bool, Option<WakeReply>, Option<Place>),
    /// A run that was recovered has been read.
    RunLoaded(Box<(RunId, Result<Loaded, SystemError>)>),
    /// The session and this run are about to be read together with others. The agent leaves reading
    /// them to that; it answers nothing when the session is open or being read already.
    Expect(RunId, oneshot::Sender<Option<Recovery>>),
    /// The session and this run were read together with others; `None` where that was not possible.
    RecoveredSession(RunId, Option<Box<RecoveredSession>>),
    /// A run of this agent begins or recovers a child run.
    Child(Box<ChildStart>),
    /// A run of this agent began a tree of its own in a session of its own.
    Tree(RunId),
    /// Host this child run.
    Host(Box<ChildStart>),
    /// A child run of a run of this agent is not wanted any more.
    CancelChild(RunId, String),
    /// A run that this agent hosts is not wanted any more.
    CancelRun(RunId, String),
    /// A child run of a run of this agent has ended.
    ChildGone(RunId),
    /// A run came to rest, in the incarnation that this task carried.
    Rested(RunId, task::Id, Box<RunExit>),
    /// End the task that carries this run, in the middle of what it does; the run goes on in its next incarnation.
    Kill(RunId),
    /// The pause before a run's next incarnation is over.
    Again(RunId),
    /// The pause before the next incarnation of an agent below is over.
    StartBelow(String),
    /// Try this run again, if it is parked.
    Retry(RunId),
    /// This is a further incarnation of the actor: what was under way goes on.
    Recover,
    /// Nothing happened for a while.
    Passivate(u64),
    /// Stop, unless there is something to do: then the agent is found in this slot again. The answer
    /// says whether it stops.
    Leave(SupervisedRef<AgentCommand>, Option<oneshot::Sender<bool>>),
}

/// A run that waits for a person's answer.
pub(crate) struct Asking {
    pub(super) run: RunId,
    pub(super) owner: Option<String>,
    /// Whether it asked before the turns came that wait for its end.
    pub(super) asked_before: bool,
}

pub(crate) type TurnReply = oneshot::Sender<Result<RunId, SystemError>>;
/// The place where the recovery of several sessions puts what it read. Dropped empty, it says that there is nothing.
pub(crate) type Recovery = oneshot::Sender<Box<RecoveredSession>>;

/// A turn whose first entries are on their way.
pub(crate) struct BegunTurn {
    pub(super) row: Arc<RunRow>,
    pub(super) start: Arc<RunStart>,
    pub(super) turn: SessionTurn,
    pub(super) reply: TurnReply,
    /// The turn as it came, kept where it is to make its session and may find that the session
    /// exists.
    pub(super) again: Option<Turn>,
}

/// A place for a root run that is about to be live. Whoever makes it live gives the place back afterwards, by dropping it.
pub(crate) type Place = Counted;
