use std::fmt;

use super::{session_document::SessionDocumentError, supervisor::StartError};
use crate::{
    contract::{CopyError, EntryError, ModelError, StoreError},
    definition::DefinitionError,
    run::{ForkError, RecordingError},
    vocabulary::{AgentError, FileError, IdError, NoAnswer, OperationId, RunId, listed},
};

/// The reason why an answer reaches no question. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The run went on in another journal, where this operation may ask something else.
    #[error("the question {operation} is over")]
    Over {
        /// The operation.
        operation: OperationId,
    },
    /// Several runs below this one ask, or have asked, under this operation.
    #[error("several runs below it ask or have asked in {operation}: answer the one that is meant")]
    Ambiguous {
        /// The operation.
        operation: OperationId,
        /// The runs that ask or have asked.
        runs: Vec<RunId>,
    },
    /// The question has this answer already: it was sent again.
    #[error("the question {operation} has this answer already")]
    Repeated {
        /// The operation.
        operation: OperationId,
    },
    /// The question has another answer: the first one counts.
    #[error("the question {operation} was given another answer before: the first answer counts")]
    Answered {
        /// The operation.
        operation: OperationId,
    },
    /// Neither the run nor a run below it asks this.
    #[error("no open question {operation}; open are: {}", listed(.open.iter().map(ToString::to_string)))]
    NotOpen {
        /// The operation.
        operation: OperationId,
        /// The operations whose questions are open.
        open: Vec<OperationId>,
    },
    /// The time to answer the question is over.
    #[error("the question {operation} has expired; resumed, the run continues without an answer")]
    Expired {
        /// The operation.
        operation: OperationId,
    },
    /// The time of the run that asks is over: it ends, whatever is answered.
    #[error(
        "the answer to {operation} comes too late: the time of its run is over, and what it asks about is not done; \
         resumed, the run ends"
    )]
    TooLate {
        /// The operation.
        operation: OperationId,
    },
    /// The value does not answer this question.
    #[error("{reason}")]
    Unfit {
        /// The operation.
        operation: OperationId,
        /// A description of what is expected.
        reason: String,
    },
}

impl AnswerError {
    /// Whether the question waits for no answer any more, or never did, so that the caller need not answer it.
    pub fn is_settled(&self) -> bool {
        matches!(
            self,
            Self::Over { .. }
                | Self::Repeated { .. }
                | Self::Answered { .. }
                | Self::NotOpen { .. }
        )
    }
}

/// An error of a System: it refuses something, or fails.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// The store refuses or fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A team's definition is wrong.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A model cannot be set up.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A file cannot go with a turn.
    #[error(transparent)]
    File(#[from] FileError),
    /// The supervision tree did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Too much work is under way; try again later.
    #[error("{what} has no room for more work (its bound is {bound}): try again later")]
    Overloaded {
        /// The part that has no room.
        what: String,
        /// The bound.
        bound: usize,
    },
    /// The process that carries a session refuses a turn that was posted to it.
    #[error("the process that carries session {session} refuses the turn: {reason}")]
    Refused {
        /// The session.
        session: String,
        /// The reason that it gives.
        reason: String,
    },
    /// A team's definition was not replaced.
    #[error("team {team:?} keeps the definition that it has: {reason}")]
    NotReloaded {
        /// The team.
        team: String,
        /// The reason.
        reason: String,
    },
    /// No team has this name.
    #[error(
        "there is no team {name:?} in this System; there are: {known}. Each process that speaks to a team gives it to its System \
         (`SystemBuilder::team`)"
    )]
    UnknownTeam {
        /// The name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The store has no such run.
    #[error("there is no run {0}")]
    UnknownRun(RunId),
    /// The run and all runs above it have ended, so there is nothing to try again.
    #[error(
        "run {0} has ended, so there is nothing to try again: fork it to continue from one of its entries"
    )]
    Ended(RunId),
    /// The run is on disk, but its team now keeps its runs in memory and does not look there.
    #[error(
        "run {run} is on disk, and team {team:?} keeps its runs in memory only: give the team \
         another `durability` to continue it"
    )]
    OutOfReach {
        /// The run.
        run: RunId,
        /// Its team.
        team: String,
    },
    /// The owner's name is empty.
    #[error("the owner's name is empty: say who it is, or name no owner")]
    EmptyOwner,
    /// The message has no form as JSON, so nothing was sent.
    #[error(
        "a message {message:?} cannot be written as JSON ({error}), so nothing was told: its maps \
         need keys that are texts"
    )]
    Unwritable {
        /// The stable name of its type.
        message: &'static str,
        /// The error of its serialisation.
        error: String,
    },
    /// The run's agent does not receive messages of this name.
    #[error(
        "run {run} receives no message {message:?}, so nothing was told; it receives: {received}"
    )]
    NotReceived {
        /// The run.
        run: RunId,
        /// The name of the message.
        message: String,
        /// The names of those that it receives.
        received: String,
    },
    /// The turn says nothing.
    #[error("the turn says nothing: give it a text or a file")]
    EmptyTurn,
    /// The session, or the run, belongs to another owner.
    #[error(
        "session {session} belongs to somebody else: act for its owner (`System::acting_for`, \
         `Turn::owner`), or as the operator (`System::as_operator`)"
    )]
    Foreign {
        /// The session.
        session: String,
    },
    /// A turn has the id of another one, which was sent before with another message.
    #[error(
        "the turn {turn:?} was sent to session {session} before, with another message, as run {run}: \
         send this one under an id of its own"
    )]
    OtherTurn {
        /// The session.
        session: String,
        /// The id of both.
        turn: String,
        /// The run of the turn that was sent first.
        run: RunId,
    },
    /// A turn that was said to a run under way was taken back before a run heard it.
    #[error(
        "the turn {turn:?} of session {session} was taken back before a run heard it: send it again under another id"
    )]
    TakenBack {
        /// The session.
        session: String,
        /// The id of the turn.
        turn: String,
    },
    /// The session's run waits for a person's answer.
    #[error("run {run} waits for an answer: answer it, or cancel it, and say this again")]
    Asking {
        /// The run that asks.
        run: RunId,
    },
    /// A run gave no answer, or none of the type that was asked for.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// The run failed.
    #[error("run {run} failed: {error}")]
    Failed {
        /// The run.
        run: RunId,
        /// The error with which it failed.
        error: AgentError,
    },
    /// The run waits until somebody retries, forks or cancels it.
    #[error("run {run} is parked: {error}")]
    Parked {
        /// The run.
        run: RunId,
        /// The reason.
        error: AgentError,
    },
    /// An answer reaches no question.
    #[error("run {run}: {error}")]
    Answer {
        /// The run.
        run: RunId,
        /// The reason.
        error: AnswerError,
    },
    /// The definition to which the run is pinned cannot be decoded.
    #[error("the definition that run {run} is pinned to cannot be read: {reason}")]
    Pinned {
        /// The run.
        run: RunId,
        /// The error of decoding.
        reason: String,
    },
    /// The run cannot be forked at that point.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// The recorded entries of a run cannot be decoded.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// There is no such session.
    #[error("there is no session {session}; `ghostlight session list` lists the sessions")]
    UnknownSession {
        /// The session.
        session: String,
    },
    /// The session has fewer turns.
    #[error("session {session} has {have} turns: {turns} of them cannot be kept")]
    NoSuchTurn {
        /// The session.
        session: String,
        /// How many were to be kept.
        turns: u64,
        /// How many there are.
        have: u64,
    },
    /// A turn of the session has not ended.
    #[error("run {run} of session {session} has not ended: wait for its end, or cancel it")]
    UnderWay {
        /// The session.
        session: String,
        /// The run.
        run: RunId,
    },
    /// An exported session cannot be used.
    #[error(transparent)]
    Document(#[from] SessionDocumentError),
    /// A fork is to begin in a session that exists.
    #[error(
        "session {session} exists already: what is forked or imported becomes a new session; name another"
    )]
    SessionExists {
        /// The session.
        session: String,
    },
    /// A person is asked by an agent that runs alone (`AgentExt::run`), where nobody can answer.
    #[error(
        "the agent asks a person ({question:?}), and nobody can answer while it runs alone: give it to a System \
         (`Agent::into_team`), and answer with `Run::answer`"
    )]
    NobodyAnswers {
        /// The question.
        question: String,
    },
    /// The actor that holds a session does not start, or was lost again and again over one request. A turn may be recorded
    /// nevertheless: sent again under its id, it is the same run.
    #[error("the agent of session {session} is lost: {reason}; the log says why; try again")]
    AgentLost {
        /// The session.
        session: String,
        /// What happened to it.
        reason: String,
    },
    /// The System has stopped: by [`stop`](super::System::stop), or because its root supervisor ended.
    #[error("the system has stopped; its runs go on when it is started again")]
    Stopped,
    /// A part beside the engine fails: a team file, a graph, a server, a protocol.
    #[error(transparent)]
    Part(Box<dyn std::error::Error + Send + Sync>),
}

/// Lets `?` make a [`SystemError::Part`] of these errors. For the packages of Ghostlight.
#[doc(hidden)]
#[macro_export]
macro_rules! parts_of_system_error {
    ($($error:ty),+ $(,)?) => {$(
        impl From<$error> for $crate::actor::SystemError {
            fn from(error: $error) -> Self {
                Self::Part(error.into())
            }
        }
    )+};
}

/// The message: it is what a program prints whose `main` returns the error.
impl fmt::Debug for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

parts_of_system_error!(CopyError, EntryError, IdError);
