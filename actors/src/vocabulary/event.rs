//! Events, which observers see.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AgentError, CallReport, Changed, Delta, FinishReason, OperationId, Outcome, Question, Resource,
    RunId, Spent, StopReason, Timestamp, ToolCall, ToolResult, Usage,
};

/// Where an event stands: the run, the sequence number of its entry in that run's journal, and its
/// place among the events of that entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EventId {
    /// The run.
    pub run: RunId,
    /// The entry's sequence number.
    pub sequence: u64,
    /// The place among the events of the entry, from 0. An entry at which a step begins or ends, or a
    /// run cuts off calls, has several.
    #[serde(default)]
    pub part: u32,
}

/// An event with its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EventRecord {
    /// The run.
    pub run: RunId,
    /// The entry's sequence number; `None` for a preview, which is not recorded.
    pub sequence: Option<u64>,
    /// The place in the order of commits over the whole store; `None` for a preview.
    pub position: Option<u64>,
    /// The place among the events of the entry, from 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub part: u32,
    /// When the entry was written.
    pub at: Timestamp,
    /// The agents from the root's to the one concerned.
    pub path: Vec<String>,
    /// The display name of the agent, if it has one; absent in previews.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The failure, in words.
    #[serde(flatten)]
    pub event: Event,
}

fn is_first(part: &u32) -> bool {
    *part == 0
}

impl EventRecord {
    /// A record of this event, without its place.
    pub fn new(run: RunId, at: Timestamp, path: Vec<String>, event: Event) -> Self {
        Self {
            run,
            sequence: None,
            position: None,
            part: 0,
            at,
            path,
            display_name: None,
            event,
        }
    }

    /// The event's id, unless it is a preview.
    pub fn id(&self) -> Option<EventId> {
        self.sequence.map(|sequence| EventId {
            run: self.run,
            sequence,
            part: self.part,
        })
    }

    /// The author's name for people: the agent's display name, or else its name.
    pub fn author(&self) -> &str {
        self.display_name.as_deref().unwrap_or_else(|| self.agent())
    }

    /// The name of the agent concerned.
    pub fn agent(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }
}

/// Everything that observers learn about a run. All but [`Event::Preview`] derive from the journal's entries, so a
/// live stream and a later reading give the same sequence.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A run began.
    RunStarted {
        /// The agent of the first leg.
        agent: String,
        /// The task or the user's turn.
        input: String,
        /// The run that delegated it.
        parent: Option<RunId>,
    },
    /// An agent's function carries the run from here.
    LegStarted {
        /// The agent.
        agent: String,
        /// The request, where another agent handed over.
        request: Option<String>,
    },
    /// A step began: a model call with the tool calls that it asks for. The event derives from the recorded end of
    /// the model call, and comes before the event of that end. While the call is under way it is shown by
    /// [previews](Self::Preview).
    StepStarted {
        /// The number of the step in its run, from 1.
        step: u32,
        /// The model call.
        operation: OperationId,
    },
    /// A step ended: all calls of its model have their results, the next step of the same lane begins, or the leg
    /// or the run is over. Each step that began ends once.
    StepEnded {
        /// The number of the step in its run, from 1.
        step: u32,
        /// The model call.
        operation: OperationId,
        /// How many tool calls the model asked for.
        calls: u32,
        /// How many of them had a result before the end of the run cut off the others.
        answered: u32,
    },
    /// A model call ended.
    ModelCalled {
        /// The operation.
        operation: OperationId,
        /// The model's registered name.
        model: String,
        /// The text of its answer.
        text: String,
        /// The text of its reasoning.
        reasoning: String,
        /// The tools that it asks for.
        tool_calls: Vec<ToolCall>,
        /// The addresses of the sources that it cites.
        sources: Vec<String>,
        /// Why it stopped.
        finish: FinishReason,
        /// Its consumption.
        usage: Usage,
        /// How many attempts were made.
        attempts: u32,
        /// How long it took, in milliseconds.
        latency_ms: u64,
    },
    /// An operation failed.
    OperationFailed {
        /// The operation.
        operation: OperationId,
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// The failure, in words.
        error: AgentError,
    },
    /// The start of a `once` tool call was recorded.
    ToolStarted {
        /// The operation.
        operation: OperationId,
        /// The tool.
        tool: String,
    },
    /// A call that a model asked for has its result, whatever its source. There is one event for each call, also for
    /// one that the end of its run cuts off.
    ToolCalled {
        /// The operation; a call that no tool answered has a number of its own.
        operation: OperationId,
        /// Its result.
        result: ToolResult,
        /// How it was answered; `None` where an older program wrote the journal without it.
        call: Option<CallReport>,
    },
    /// A task was given to a child run.
    Delegated {
        /// The operation.
        operation: OperationId,
        /// The agent that is to do it.
        agent: String,
        /// The child run.
        run: RunId,
    },
    /// A child run ended.
    DelegationEnded {
        /// The operation.
        operation: OperationId,
        /// The agent that did it.
        agent: String,
        /// Its answer, or why there is none.
        text: String,
    },
    /// The run waits for an answer from outside.
    QuestionAsked {
        /// The operation, which an answer names.
        operation: OperationId,
        /// The question.
        question: Question,
    },
    /// The answer came.
    QuestionAnswered {
        /// The operation.
        operation: OperationId,
        /// The answer.
        answer: Value,
    },
    /// The words that a person said to the run while it was under way became a part of the agent's conversation.
    Heard {
        /// The model call with whose answer it came, or the operation before which it was heard.
        operation: OperationId,
        /// The words that were said.
        text: String,
    },
    /// A value of shared state was written or deleted, or an artifact has a new version.
    Changed {
        /// The operation.
        operation: OperationId,
        /// The changes.
        changed: Changed,
    },
    /// Any other operation ended.
    OperationCompleted {
        /// The operation.
        operation: OperationId,
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// The function dropped an operation that had begun.
    OperationDropped {
        /// The operation.
        operation: OperationId,
    },
    /// The function emitted an event of its own.
    Custom {
        /// The event's name.
        name: String,
        /// Its content.
        data: Value,
    },
    /// The code makes another model request than the recorded one.
    Drifted {
        /// The operation.
        operation: OperationId,
    },
    /// Another process or a restarted actor took over the run.
    Resumed {
        /// The new owner's epoch.
        epoch: u64,
    },
    /// The run's function failed and is run again.
    Restarted {
        /// The failure, in words.
        reason: String,
    },
    /// The run waits until somebody retries, forks or cancels it.
    Parked {
        /// Why.
        reason: AgentError,
    },
    /// A message is quarantined, because the function crashed on it again and again, or because it does not have the
    /// form that the function receives.
    MessageQuarantined {
        /// The operation that had received it, or would have.
        operation: OperationId,
        /// How the function failed on the message, or what is wrong with its form.
        reason: AgentError,
    },
    /// The run is being cancelled.
    Cancelling {
        /// Why.
        reason: String,
    },
    /// A bound is near: this share of it, in percent, is used.
    BudgetWarning {
        /// The resource that is bounded.
        resource: Resource,
        /// The share at which the warning was due, in percent; at least this much is used.
        percent: u32,
        /// The used amount, in the unit of the bound.
        used: u64,
        /// The bound.
        bound: u64,
    },
    /// A run ended. The last event of a stream is the root's.
    RunEnded {
        /// How the run ended.
        end: RunResult,
        /// The consumption of the run and its children.
        spent: Spent,
    },
    /// Something is under way. A preview is not recorded, and a later attempt may void it.
    Preview(Preview),
    /// An event of a later version, kept as it came.
    Unknown(UnknownEvent),
}

/// How a run ended, for observers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunResult {
    /// With this answer.
    Answered(String),
    /// Before its task was done.
    Stopped(StopReason),
    /// With an error.
    Failed(AgentError),
    /// In this run's journal.
    Continued(RunId),
}

impl RunResult {
    /// The result of this outcome.
    pub fn of(outcome: &Result<Outcome, AgentError>) -> Self {
        match outcome {
            Ok(Outcome::Stopped { reason, .. }) => Self::Stopped(reason.clone()),
            Ok(outcome) => Self::Answered(outcome.text().to_owned()),
            Err(error) => Self::Failed(error.clone()),
        }
    }
}

/// A preview of what is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Preview {
    /// A model call began its next attempt.
    ModelStarted {
        /// The operation.
        operation: OperationId,
        /// The attempt, from 1. It voids the previews of earlier attempts.
        attempt: u32,
        /// The model's registered name.
        model: String,
    },
    /// A piece of a model's answer.
    Delta {
        /// The operation.
        operation: OperationId,
        /// The attempt, from 1.
        attempt: u32,
        /// The piece.
        delta: Delta,
    },
    /// A model call pauses before its next attempt.
    ModelRetry {
        /// The operation.
        operation: OperationId,
        /// The attempt that failed.
        attempt: u32,
        /// The failure, in words.
        error: String,
        /// How long the pause is, in milliseconds.
        pause_ms: u64,
    },
    /// A tool began.
    ToolStarted {
        /// The operation.
        operation: OperationId,
        /// The call.
        call: ToolCall,
    },
    /// A tool reports progress.
    ToolProgress {
        /// The operation.
        operation: OperationId,
        /// The share that is done, from 0 to 1, when it is known.
        fraction: Option<f64>,
        /// Its present work.
        message: String,
    },
    /// A piece of a tool's output.
    ToolOutput {
        /// The operation.
        operation: OperationId,
        /// The piece.
        text: String,
    },
}

impl Preview {
    /// The operation that is under way.
    pub fn operation(&self) -> OperationId {
        match self {
            Self::ModelStarted { operation, .. }
            | Self::Delta { operation, .. }
            | Self::ModelRetry { operation, .. }
            | Self::ToolStarted { operation, .. }
            | Self::ToolProgress { operation, .. }
            | Self::ToolOutput { operation, .. } => *operation,
        }
    }
}

/// An event whose type this version does not know. It survives a round trip unchanged.
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownEvent {
    /// The type's name.
    pub name: String,
    /// Its content.
    pub data: Value,
}

mod wire {
    //! Events as JSON: `{"type": …, "data": {…}}`, with unknown types kept as they are.
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
    use serde_json::Value;

    use super::*;

    #[allow(clippy::ptr_arg)] // serde calls it so.
    fn are_none(texts: &&Vec<String>) -> bool {
        texts.is_empty()
    }

    macro_rules! wire_events {
        ($($variant:ident {
            $($(#[$meta:meta])* $field:ident: $type:ty),* $(,)?
        } = $name:literal,)*) => {
            impl Event {
                /// The type's name in JSON, such as `tool_called`.
                pub fn name(&self) -> &str {
                    match self {
                        $(Self::$variant { .. } => $name,)*
                        Self::Preview(_) => "preview",
                        Self::Unknown(unknown) => &unknown.name,
                    }
                }

                /// The names of all types of this version.
                pub const NAMES: &'static [&'static str] = &[$($name,)* "preview"];
            }

            impl Serialize for Event {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    #[derive(Serialize)]
                    struct Tagged<'a, T> {
                        r#type: &'a str,
                        data: T,
                    }
                    let r#type = self.name();
                    match self {
                        $(Self::$variant { $($field),* } => {
                            #[derive(Serialize)]
                            struct Fields<'a> { $($(#[$meta])* $field: &'a $type),* }
                            Tagged { r#type, data: Fields { $($field),* } }.serialize(serializer)
                        })*
                        Self::Preview(data) => Tagged { r#type, data }.serialize(serializer),
                        Self::Unknown(unknown) => {
                            Tagged { r#type, data: &unknown.data }.serialize(serializer)
                        }
                    }
                }
            }

            impl<'de> Deserialize<'de> for Event {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    #[derive(Deserialize)]
                    struct Tagged {
                        r#type: String,
                        #[serde(default)]
                        data: Value,
                    }
                    let tagged = Tagged::deserialize(deserializer)?;
                    match tagged.r#type.as_str() {
                        $($name => {
                            #[derive(Deserialize)]
                            struct Fields { $($(#[$meta])* $field: $type),* }
                            let Fields { $($field),* } =
                                serde_json::from_value(tagged.data).map_err(D::Error::custom)?;
                            Ok(Self::$variant { $($field),* })
                        })*
                        "preview" => serde_json::from_value(tagged.data)
                            .map(Self::Preview)
                            .map_err(D::Error::custom),
                        _ => Ok(Self::Unknown(UnknownEvent {
                            name: tagged.r#type,
                            data: tagged.data,
                        })),
                    }
                }
            }
        };
    }

    wire_events! {
        RunStarted { agent: String, input: String, parent: Option<RunId> } = "run_started",
        LegStarted { agent: String, request: Option<String> } = "leg_started",
        StepStarted { step: u32, operation: OperationId } = "step_started",
        StepEnded {
            step: u32, operation: OperationId, calls: u32, answered: u32,
        } = "step_ended",
        ModelCalled {
            operation: OperationId, model: String, text: String, reasoning: String,
            tool_calls: Vec<ToolCall>,
            #[serde(default, skip_serializing_if = "are_none")] sources: Vec<String>, finish: FinishReason, usage: Usage, attempts: u32,
            latency_ms: u64,
        } = "model_called",
        OperationFailed {
            operation: OperationId, kind: String, name: String, error: AgentError,
        } = "operation_failed",
        ToolStarted { operation: OperationId, tool: String } = "tool_started",
        ToolCalled {
            operation: OperationId, result: ToolResult, call: Option<CallReport>,
        } = "tool_called",
        Delegated { operation: OperationId, agent: String, run: RunId } = "delegated",
        DelegationEnded {
            operation: OperationId, agent: String, text: String,
        } = "delegation_ended",
        QuestionAsked { operation: OperationId, question: Question } = "question_asked",
        QuestionAnswered { operation: OperationId, answer: Value } = "question_answered",
        Heard { operation: OperationId, text: String } = "heard",
        Changed { operation: OperationId, changed: Changed } = "changed",
        OperationCompleted {
            operation: OperationId, kind: String, name: String,
        } = "operation_completed",
        OperationDropped { operation: OperationId } = "operation_dropped",
        Custom { name: String, data: Value } = "custom",
        Drifted { operation: OperationId } = "drifted",
        Resumed { epoch: u64 } = "resumed",
        Restarted { reason: String } = "restarted",
        Parked { reason: AgentError } = "parked",
        MessageQuarantined {
            operation: OperationId, reason: AgentError,
        } = "message_quarantined",
        Cancelling { reason: String } = "cancelling",
        BudgetWarning {
            resource: Resource, percent: u32, used: u64, bound: u64,
        } = "budget_warning",
        RunEnded { end: RunResult, spent: Spent } = "run_ended",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_a_later_version_survives_a_round_trip() {
        let text = r#"{"type":"dreamed","data":{"of":["sheep",2]}}"#;
        let event: Event = serde_json::from_str(text).unwrap();
        assert_eq!(event.name(), "dreamed");
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
    }

    #[test]
    fn a_record_goes_through_json_unchanged() {
        let run = RunId::from_random(7);
        let event = Event::ToolStarted {
            operation: OperationId::default(),
            tool: "add".into(),
        };
        let record = EventRecord::new(run, Timestamp(3), vec!["desk".into()], event);
        let json = serde_json::to_string(&record).unwrap();
        assert!(json.contains(r#""type":"tool_started""#), "{json}");
        assert_eq!(serde_json::from_str::<EventRecord>(&json).unwrap(), record);
    }
}
