//! The lines of a journal.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{
    AgentError, Answer, AskedBy, Budget, CallDigest, CallReport, Changed, Digest, FORMAT, Forked,
    Message, OperationId, Outcome, ParentPolicy, Question, Resource, Retry, RunId, SessionId,
    Spent, StopReason, ToolDefinition, ToolResult, charge,
};

/// One line of a journal. The truth about a run is the sequence of its entries.
///
/// An entry names a thing that happened, in the past tense. Results travel as raw JSON: they
/// are encoded once, at the latest when somebody reads the journal, and decoded once, by the operation that asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Entry {
    /// The first entry of a run.
    RunStarted(Box<RunStart>),
    /// A leg began: this agent's function carries the run from here.
    LegStarted {
        /// The leg, from 0.
        leg: u32,
        /// The agent.
        agent: String,
        /// The display name of the agent, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        display_name: Option<String>,
        /// The request of the agent that handed over, if one did.
        request: Option<String>,
        /// The run's messages before this leg, beyond the session's history.
        messages: Vec<Arc<Message>>,
        /// The agents to which the conversation returns when this one is done; the last is the first to get it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        callers: Vec<String>,
        /// The agent that gave the conversation back, where the leg began that way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        returned_by: Option<String>,
        /// The places in `messages` of what people said to the run while it was under way.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        heard: Vec<u32>,
    },
    /// An operation began whose beginning matters: a `once` effect, a question, a timer, a
    /// child run.
    Started {
        /// The operation.
        op: OperationId,
        /// Its kind, such as `tool`.
        kind: Cow<'static, str>,
        /// Its name, such as the tool's.
        name: String,
        /// The digest of its input.
        digest: CallDigest,
        /// The operation that began.
        begun: Begun,
        /// The call of a model for which the operation is performed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked_by: Option<AskedBy>,
    },
    /// A turn that was delivered to the run while it was under way became part of it, and has no run of its own. Where the
    /// run works instead of its parent's function: what was said to the parent was heard by it, or by a run below it.
    TurnHeard {
        /// The model call with whose answer it came, the operation before which it was heard, or that began the run which
        /// heard it.
        op: OperationId,
        /// The caller's id of the turn; for what was said to the parent, the item of the mailbox.
        turn: String,
    },
    /// The words that a person said to the run became a part of the function's conversation, before its next model request.
    Heard {
        /// The operation that comes next in the branch of the function that heard it.
        op: OperationId,
        /// How often this branch had listened before; [`Entry::HEARD_BELOW`] where the child heard it that this operation
        /// began.
        place: u32,
        /// The message.
        message: Box<Message>,
    },
    /// An operation ended, with a result or an error.
    Completed {
        /// The operation.
        op: OperationId,
        /// Its kind.
        kind: Cow<'static, str>,
        /// Its name.
        name: String,
        /// The digest of its input.
        digest: CallDigest,
        /// `{"Ok": …}` or `{"Err": …}`.
        result: Box<RawValue>,
        /// The part of the run's budget that it consumed, its child run included.
        #[serde(default, with = "charge", skip_serializing_if = "charge::is_nothing")]
        spent: Spent,
        /// For a tool call, how it was answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<Box<CallReport>>,
        /// The call of a model for which the operation was performed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked_by: Option<AskedBy>,
    },
    /// A call that a model asked for was answered without an operation of a tool.
    CallAnswered {
        /// A place of its own, in no lane of the function.
        op: OperationId,
        /// The text that the model reads.
        result: Box<ToolResult>,
        /// How it was answered.
        call: Box<CallReport>,
        /// The call of a model that was answered; absent where the code made the call itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked_by: Option<AskedBy>,
    },
    /// A call changed a value or an artifact of its team. The entry with the call's result is in
    /// the same commit.
    Changed {
        /// The operation.
        op: OperationId,
        /// The changes.
        changed: Box<Changed>,
    },
    /// The function dropped an operation that had begun; its result is not wanted any more.
    Dropped {
        /// The operation.
        op: OperationId,
        /// The part of the run's budget that it consumed.
        #[serde(default, with = "charge", skip_serializing_if = "charge::is_nothing")]
        spent: Spent,
    },
    /// The terms of the child run that this operation began, where it has bounds or outlives its
    /// parent. They are in the commit that begins the child.
    Granted {
        /// The operation that begins the child.
        op: OperationId,
        /// The part of the budget that is reserved for the child. When the child has ended, the part that it did not consume is returned; a
        /// child that outlives its parent keeps the whole.
        budget: Budget,
        /// The fate of the child when this run ends first.
        when_parent_ends: ParentPolicy,
    },
    /// The child run of this operation ended, and no operation's result says so. The reserved budget is returned, and
    /// what the child consumed is charged.
    Settled {
        /// The operation that began the child.
        op: OperationId,
        /// The consumption of the child and its own children.
        #[serde(default, with = "charge", skip_serializing_if = "charge::is_nothing")]
        spent: Spent,
    },
    /// Observers were warned that this share of a bound is used.
    BudgetWarned {
        /// The resource that is bounded.
        resource: Resource,
        /// The used share, in percent.
        percent: u8,
        /// The used amount, in the unit of the bound.
        used: u64,
        /// The bound.
        bound: u64,
    },
    /// The function emitted an event for observers.
    Emitted {
        /// The operation.
        op: OperationId,
        /// The event's name.
        name: String,
        /// Its content.
        data: Box<RawValue>,
    },
    /// A model request differs from the recorded one; the recorded answer was used.
    Drifted {
        /// The operation.
        op: OperationId,
        /// The digest that is recorded.
        recorded: CallDigest,
        /// The digest of the request that the code makes now.
        found: CallDigest,
    },
    /// The function chose, for the first time under this name, which variant of changed code it follows.
    VersionChosen {
        /// The name.
        name: String,
        /// The variant; 0 is the code from before the change.
        version: u32,
    },
    /// Another process or a restarted actor took over the run.
    Activated {
        /// The owner's epoch.
        epoch: u64,
        /// The format in which the new owner writes.
        format: u32,
        /// The process that took it over: a number that it drew when it started.
        process: u32,
        /// How many processes in a row took it over before, and ended with it under way while it recorded nothing.
        #[serde(default)]
        interrupted: u32,
    },
    /// The run's function failed and is run again, after a pause.
    Restarted {
        /// The failure, in words.
        reason: String,
    },
    /// The run was parked: it waits until somebody retries, forks or cancels it.
    Parked {
        /// Why.
        reason: AgentError,
    },
    /// A message is quarantined: the function had received it and crashed on it again and again, or it does not have the
    /// form that the function receives. `receive` waits as if it had never come.
    Quarantined {
        /// The operation that received it, or would have.
        op: OperationId,
        /// How the function failed on the message, or what is wrong with its form.
        reason: AgentError,
    },
    /// The run is being cancelled. From here on its function is never run again.
    CancelRequested {
        /// Why, in words.
        reason: String,
        /// The reason to stop where no person cancelled: a deadline, a budget.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop: Option<StopReason>,
    },
    /// A tool call to make if the run is cancelled.
    UndoRegistered {
        /// The operation.
        op: OperationId,
        /// The tool call that undoes the effect.
        call: super::ToolCall,
    },
    /// The last entry of a run.
    RunEnded(Box<RunEnd>),
    /// A turn of a session began (in the session's journal).
    TurnStarted(Box<SessionTurn>),
    /// A turn of a session ended (in the session's journal).
    TurnEnded(Box<TurnEnd>),
    /// A turn of a session goes on in another run's journal (in the session's journal).
    TurnContinued {
        /// The run that carried it so far.
        run: RunId,
        /// The run that carries it from here.
        next: RunId,
        /// The turns that were delivered to the run so far and became part of it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        heard: Vec<String>,
    },
    /// The session was rewound (in the session's journal): later turns do not count any more.
    SessionRewound {
        /// How many turns count.
        turns: u64,
        /// How many messages the conversation has.
        messages: u64,
        /// The agent that answers the next turn; the team's root, where no turn is left.
        active_agent: Option<String>,
        /// The state from here on: each value with the number of its writes.
        state: BTreeMap<String, (Value, u64)>,
    },
    /// From here on the session is a branch; the entries before are another session's (in the
    /// session's journal).
    SessionForked {
        /// The other session.
        from: SessionId,
        /// The state at the beginning: each value with the number of its writes.
        state: BTreeMap<String, (Value, u64)>,
        /// The owner, also where no earlier turn names one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<String>,
    },
    /// A turn's run is parked because it crashed, and the session continues without it (in the session's journal).
    TurnQuarantined {
        /// The run.
        run: RunId,
        /// The turns that were delivered to the run and became part of it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        heard: Vec<String>,
    },
}

/// The record that began with an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Begun {
    /// An effect that must not happen twice.
    Effect,
    /// A question to the world outside.
    Question(Box<Question>),
    /// A wait for a result that comes through a ticket.
    Ticket,
    /// A timer.
    Timer(super::Timestamp),
    /// A wait until a model is asked again.
    Retry(Box<Retry>),
    /// A child run.
    Child(RunId),
}

impl Entry {
    /// The place of what a child heard instead of the function: no lane listens so often.
    pub const HEARD_BELOW: u32 = u32::MAX;

    /// The blob to which the entry refers, if there is one.
    pub fn blob(&self) -> Option<Digest> {
        match self {
            Self::RunStarted(start) => Some(start.definition),
            _ => None,
        }
    }
}

/// How a run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RunStart {
    /// The format of the journal.
    #[serde(default)]
    pub format: u32,
    /// The team.
    pub team: String,
    /// The agent of the first leg.
    pub agent: String,
    /// The display name of the agent, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The content hash of the pinned definition.
    pub definition: Digest,
    /// The task or the user's turn.
    pub input: Arc<Message>,
    /// The session, for a root run of one.
    pub session: Option<SessionId>,
    /// How many entries of the session's journal make up the history.
    pub history: u64,
    /// The run and the operation that delegated this one.
    pub parent: Option<(RunId, OperationId)>,
    /// The root of the tree.
    pub root: RunId,
    /// Agents from the root's to this one.
    pub path: Vec<String>,
    /// The bounds of this run and its children.
    pub budget: Budget,
    /// The consumption in the journals that this one continues.
    #[serde(default, with = "charge", skip_serializing_if = "charge::is_nothing")]
    pub spent: Spent,
    /// When it must have ended.
    pub deadline: Option<super::Timestamp>,
    /// The fate of this run when its parent ends first.
    #[serde(default, skip_serializing_if = "ParentPolicy::is_default")]
    pub when_parent_ends: ParentPolicy,
    /// When it began.
    pub at: super::Timestamp,
    /// The run from which this one was forked.
    #[serde(default)]
    pub forked: Option<Forked>,
    /// The owner of the session that the run belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Whether tools with an effect are not called.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Whether models stream their answers; `None` leaves it to the agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
    /// The caller's tools: each call of one is a question, whose answer is the call's result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Arc<ToolDefinition>>,
}

impl RunStart {
    /// The agent whose part of the team the conversation must not leave: the agent that got the delegated task, also
    /// in a fork of its run. `None` for a turn of a session, which may go anywhere.
    pub fn top(&self) -> Option<&str> {
        // A delegated task has no session, and neither has its fork. An adopted run has one, and its fork is a
        // conversation of its own.
        let delegated = self.parent.is_some() || (self.forked.is_some() && self.session.is_none());
        self.path.last().filter(|_| delegated).map(String::as_str)
    }

    /// A root run without session or bounds.
    pub fn new(
        run: RunId,
        team: impl Into<String>,
        agent: impl Into<String>,
        definition: Digest,
        input: impl Into<Arc<Message>>,
    ) -> Self {
        let agent = agent.into();
        Self {
            format: FORMAT,
            team: team.into(),
            path: vec![agent.clone()],
            agent,
            display_name: None,
            definition,
            input: input.into(),
            session: None,
            history: 0,
            parent: None,
            root: run,
            budget: Budget::default(),
            spent: Spent::default(),
            deadline: None,
            when_parent_ends: ParentPolicy::default(),
            at: super::Timestamp::default(),
            forked: None,
            owner: None,
            dry_run: false,
            streaming: None,
            tools: Vec::new(),
        }
    }
}

impl RunStart {
    /// When the run must have ended, by its deadline and by its bound on wall time.
    pub fn ends_by(&self) -> Option<super::Timestamp> {
        let wall_time = self.budget.wall_time;
        let wall_time = wall_time.map(|wall_time| self.at.after(wall_time));
        self.deadline.into_iter().chain(wall_time).min()
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum RunEnd {
    /// With an answer.
    Answered {
        /// The answer.
        answer: Answer,
        /// The consumption of the run and its children.
        spent: Spent,
    },
    /// Before the task was done.
    Stopped {
        /// Why.
        reason: StopReason,
        /// The best answer so far.
        partial: Option<Answer>,
        /// The consumption of the run and its children.
        spent: Spent,
    },
    /// With an error.
    Failed {
        /// The failure, in words.
        error: AgentError,
        /// The consumption of the run and its children.
        spent: Spent,
    },
    /// In a fresh journal.
    Continued {
        /// The run that goes on.
        next: RunId,
        /// The consumption of the run and its children.
        spent: Spent,
    },
}

impl RunEnd {
    /// The end for this outcome, as journals keep it: without the messages, which the session keeps.
    pub(crate) fn of(outcome: &Result<Outcome, AgentError>, spent: Spent) -> Self {
        let answered = |answer: &Answer| Answer {
            text: answer.text.clone(),
            messages: Vec::new(),
            flagged: answer.flagged.clone(),
        };
        match outcome {
            Ok(Outcome::Answer(answer)) => Self::Answered {
                answer: answered(answer),
                spent,
            },
            Ok(Outcome::Stopped { reason, partial }) => Self::Stopped {
                reason: reason.clone(),
                partial: partial.as_ref().map(answered),
                spent,
            },
            Ok(other) => Self::Answered {
                answer: Answer::text(other.text()),
                spent,
            },
            Err(error) => Self::Failed {
                error: error.clone(),
                spent,
            },
        }
    }

    /// The consumption of the run and its children.
    pub fn spent(&self) -> Spent {
        match self {
            Self::Answered { spent, .. }
            | Self::Stopped { spent, .. }
            | Self::Failed { spent, .. }
            | Self::Continued { spent, .. } => *spent,
        }
    }

    /// The outcome for those that wait for it; `None` for a run that another run continues.
    ///
    /// # Errors
    /// The error with which the run failed.
    pub fn outcome(&self) -> Option<Result<Outcome, AgentError>> {
        match self {
            Self::Answered { answer, .. } => Some(Ok(Outcome::Answer(answer.clone()))),
            Self::Stopped {
                reason, partial, ..
            } => Some(Ok(Outcome::Stopped {
                reason: reason.clone(),
                partial: partial.clone(),
            })),
            Self::Failed { error, .. } => Some(Err(error.clone())),
            Self::Continued { .. } => None,
        }
    }
}

/// A turn as its session records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SessionTurn {
    /// The format of the journal from here on.
    #[serde(default)]
    pub format: u32,
    /// The caller's id of the turn.
    pub turn: String,
    /// The run that answers it.
    pub run: RunId,
    /// The words that were said.
    pub message: Arc<Message>,
    /// The owner of the session, which the first turn names; nobody in a session that began without one.
    pub owner: Option<String>,
}

impl SessionTurn {
    /// A turn that this run answers.
    pub fn new(turn: impl Into<String>, run: RunId, message: impl Into<Arc<Message>>) -> Self {
        Self {
            format: FORMAT,
            turn: turn.into(),
            run,
            message: message.into(),
            owner: None,
        }
    }
}

/// The part that a run left to its session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TurnEnd {
    /// The run.
    pub run: RunId,
    /// The conversation, the user's turn first.
    pub messages: Vec<Arc<Message>>,
    /// The agent that answers the next turn.
    pub active_agent: String,
    /// The consumption of the run.
    pub spent: Spent,
    /// The callers' ids of the turns that were delivered to the run and became part of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heard: Vec<String>,
}

impl TurnEnd {
    /// The part that this run left.
    pub fn new(run: RunId, active_agent: impl Into<String>, messages: Vec<Arc<Message>>) -> Self {
        Self {
            run,
            messages,
            active_agent: active_agent.into(),
            spent: Spent::default(),
            heard: Vec::new(),
        }
    }
}
