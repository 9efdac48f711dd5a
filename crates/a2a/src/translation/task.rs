//! From recorded events to a task and its updates.

use ghostlight_actors::{
    contract::RunStatus,
    vocabulary::{
        ArtifactInfo, Changed, Delta, Event, EventRecord, OperationId, Preview, Question,
        QuestionKind, RunId, RunResult, Scope, StopReason, Timestamp,
    },
};
use serde_json::{Map, Value, json};

use super::turn::question_name;
use crate::protocol::{
    Artifact, ArtifactUpdate, Message, Part, QUESTION, Role, StatusUpdate, StreamResponse, Task,
    TaskState, TaskStatus, time_of,
};

/// The id of the artifact that holds a run's answer.
pub const ANSWER: &str = "answer";
/// The metadata key of a piece that is not recorded and may be replaced.
const PREVIEW: &str = "ghostlight/preview";

/// The meaning of an event for a task.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)]
pub enum Told {
    /// An update of the task.
    Update(StreamResponse),
    /// A message of the client: it becomes history, and is not sent as an update.
    Heard(Message),
    /// An artifact was saved for the session; its content is in the store.
    Saved(ArtifactInfo),
}

/// The state of a task whose run has this status; `None` where the status is not enough: open questions, and the reason
/// of a stop, are in the run's events.
pub fn known_state(status: RunStatus) -> Option<TaskState> {
    match status {
        RunStatus::Answered => Some(TaskState::Completed),
        RunStatus::Failed | RunStatus::Parked => Some(TaskState::Failed),
        RunStatus::Cancelled => Some(TaskState::Canceled),
        _ => None,
    }
}

/// The state of a task whose run ended this way; `None` for a run that continues in another journal.
pub fn end_state(end: &RunResult) -> Option<TaskState> {
    Some(match end {
        RunResult::Answered(_) => TaskState::Completed,
        RunResult::Stopped(StopReason::Cancelled(_)) => TaskState::Canceled,
        RunResult::Stopped(StopReason::Escalated(_) | StopReason::ContentFilter) => {
            TaskState::Rejected
        }
        RunResult::Continued(_) => return None,
        _ => TaskState::Failed,
    })
}

/// Translates the events of a run, in order, into those of a task.
#[derive(Clone, Debug)]
pub struct TaskReader {
    task: String,
    context: String,
    message: String,
    is_json: bool,
    root: RunId,
    state: TaskState,
    open: Vec<(RunId, OperationId, Question)>,
    /// The model call whose answer is shown, its attempt, and whether a piece of the answer was shown.
    front: Option<(OperationId, u32, bool)>,
}

impl TaskReader {
    /// A reader for the run of a task that this message began in this context.
    pub fn new(run: RunId, context: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            task: run.to_string(),
            context: context.into(),
            message: message.into(),
            is_json: false,
            root: run,
            state: TaskState::Submitted,
            open: Vec::new(),
            front: None,
        }
    }

    /// Gives an answer that is JSON as data, for agents whose answers have a schema.
    #[must_use]
    pub fn structured(mut self, is_json: bool) -> Self {
        self.is_json = is_json;
        self
    }

    /// The task before its first event.
    pub fn submitted(&self, at: Timestamp) -> Task {
        Task {
            id: self.task.clone(),
            context_id: self.context.clone(),
            status: TaskStatus {
                state: TaskState::Submitted,
                message: None,
                timestamp: time_of(at),
            },
            ..Task::default()
        }
    }

    /// The state of the task after the events so far.
    pub fn state(&self) -> TaskState {
        self.state
    }

    /// The run that carries the task now, since a run may continue in another journal.
    pub fn run(&self) -> RunId {
        self.root
    }

    /// The updates of an event. The last of several completes it: a reader that got only some of them resumes before
    /// the event.
    pub fn read(&mut self, record: &EventRecord) -> Vec<Told> {
        let is_root = record.run == self.root;
        let at = record.at;
        match &record.event {
            Event::RunStarted {
                input,
                parent: None,
                ..
            } if is_root => {
                let mut told = Vec::new();
                // A run that continues from another journal has reported this before.
                if self.state == TaskState::Submitted {
                    let mut said = Message::text(Role::User, self.message.clone(), input.clone());
                    said.context_id = Some(self.context.clone());
                    said.task_id = Some(self.task.clone());
                    told.push(Told::Heard(said));
                }
                told.extend(self.turn_to(TaskState::Working, None, at));
                told
            }
            Event::Preview(preview) if is_root => self.preview(preview).into_iter().collect(),
            Event::ModelCalled { operation, .. } if is_root => {
                self.front.take_if(|(front, ..)| front == operation);
                Vec::new()
            }
            Event::QuestionAsked {
                operation,
                question,
            } => {
                self.open.push((record.run, *operation, question.clone()));
                self.asks(at)
            }
            Event::QuestionAnswered { operation, answer } => {
                let heard = self.heard(record.run, *operation, answer);
                let mut told =
                    self.closed(at, |run, asked| run == record.run && asked == *operation);
                // Goes behind the question, which becomes history when the state changes.
                told.extend(heard.map(Told::Heard));
                told
            }
            Event::OperationFailed { operation, .. } | Event::OperationDropped { operation } => {
                if is_root {
                    self.front.take_if(|(front, ..)| front == operation);
                }
                self.closed(at, |run, asked| run == record.run && asked == *operation)
            }
            Event::Changed {
                changed:
                    Changed::Artifact {
                        scope: Scope::Session,
                        artifact,
                    },
                ..
            } => vec![Told::Saved(artifact.clone())],
            Event::Parked { reason } if is_root => {
                self.turn_to(TaskState::Failed, Some(reason.to_string()), at)
            }
            Event::Resumed { .. } if is_root && self.state == TaskState::Failed => {
                self.turn_to(TaskState::Working, None, at)
            }
            Event::RunEnded {
                end: RunResult::Continued(next),
                ..
            } if is_root => {
                self.root = *next;
                self.front = None;
                self.closed(at, |run, _| run == record.run)
            }
            Event::RunEnded { end, .. } if is_root => self.ended(end, at),
            Event::RunEnded { .. } => self.closed(at, |run, _| run == record.run),
            _ => Vec::new(),
        }
    }

    fn ended(&mut self, end: &RunResult, at: Timestamp) -> Vec<Told> {
        self.open.clear();
        let mut told = Vec::new();
        let words = match end {
            RunResult::Answered(text) => {
                told.push(self.artifact(self.answer(text), false, true, None));
                None
            }
            RunResult::Stopped(reason) => Some(reason.to_string()),
            RunResult::Failed(error) => Some(error.to_string()),
            _ => None,
        };
        if let Some(state) = end_state(end) {
            told.extend(self.turn_to(state, words, at));
        }
        told
    }

    fn answer(&self, text: &str) -> Part {
        let value = self
            .is_json
            .then(|| serde_json::from_str::<Value>(text).ok());
        value.flatten().map_or_else(|| Part::text(text), Part::data)
    }

    /// A piece of an answer. Answers of concurrent calls are not mixed: the first one is shown.
    fn preview(&mut self, preview: &Preview) -> Option<Told> {
        match preview {
            Preview::ModelStarted {
                operation, attempt, ..
            } => {
                let is_front = |front: &(OperationId, u32, bool)| front.0 == *operation;
                if self.front.as_ref().is_none_or(is_front) {
                    self.front = Some((*operation, *attempt, false));
                }
                None
            }
            Preview::Delta {
                operation,
                attempt,
                delta: Delta::Text(text),
            } if !text.is_empty() => {
                let (front, shown, begun) = self.front.as_mut()?;
                if (*front, *shown) != (*operation, *attempt) {
                    return None;
                }
                // The first piece replaces the text of an earlier attempt or step.
                let append = std::mem::replace(begun, true);
                let metadata = Map::from_iter([(PREVIEW.to_owned(), Value::Bool(true))]);
                Some(self.artifact(Part::text(text), append, false, Some(metadata)))
            }
            _ => None,
        }
    }

    fn artifact(
        &self,
        part: Part,
        append: bool,
        last_chunk: bool,
        metadata: Option<Map<String, Value>>,
    ) -> Told {
        Told::Update(StreamResponse::ArtifactUpdate(ArtifactUpdate {
            task_id: self.task.clone(),
            context_id: self.context.clone(),
            artifact: Artifact {
                artifact_id: ANSWER.to_owned(),
                name: Some(ANSWER.to_owned()),
                parts: vec![part],
                ..Artifact::default()
            },
            append,
            last_chunk,
            metadata,
        }))
    }

    /// The update for a saved artifact, with its content in this part.
    pub fn saved(&self, info: &ArtifactInfo, content: Part) -> StreamResponse {
        let metadata =
            json!({ "ghostlight/version": info.version, "ghostlight/bytes": info.bytes });
        StreamResponse::ArtifactUpdate(ArtifactUpdate {
            task_id: self.task.clone(),
            context_id: self.context.clone(),
            artifact: Artifact {
                // An agent may save an artifact with the name `answer`, too.
                artifact_id: format!("saved/{}", info.name),
                name: Some(info.name.clone()),
                parts: vec![content],
                metadata: metadata.as_object().cloned(),
                ..Artifact::default()
            },
            last_chunk: true,
            ..ArtifactUpdate::default()
        })
    }

    fn heard(&self, run: RunId, operation: OperationId, answer: &Value) -> Option<Message> {
        let (.., question) = self
            .open
            .iter()
            .find(|(of, asked, _)| (*of, *asked) == (run, operation))?;
        if question.kind == QuestionKind::Authentication {
            return None;
        }
        let part = match answer {
            Value::String(text) => Part::text(text),
            other => Part::data(other.clone()),
        };
        let name = question_name(&self.task, run, operation);
        let metadata = Map::from_iter([(QUESTION.to_owned(), name.into())]);
        Some(Message {
            message_id: format!("{run}/{operation}/answer"),
            context_id: Some(self.context.clone()),
            task_id: Some(self.task.clone()),
            role: Role::User,
            parts: vec![part],
            metadata: Some(metadata),
            ..Message::default()
        })
    }

    /// Removes questions that need no answer any more.
    fn closed(&mut self, at: Timestamp, is_over: impl Fn(RunId, OperationId) -> bool) -> Vec<Told> {
        let before = self.open.len();
        self.open
            .retain(|(run, operation, _)| !is_over(*run, *operation));
        if self.open.len() == before {
            return Vec::new();
        }
        self.asks(at)
    }

    /// The state of the task by its open questions.
    fn asks(&mut self, at: Timestamp) -> Vec<Told> {
        let is_secret =
            |(.., question): &&(_, _, Question)| question.kind == QuestionKind::Authentication;
        let first = self.open.iter().find(|asked| !is_secret(asked));
        let (state, first) = match (first, self.open.first()) {
            (Some(first), _) => (TaskState::InputRequired, first),
            (None, Some(secret)) => (TaskState::AuthRequired, secret),
            (None, None) => return self.turn_to(TaskState::Working, None, at),
        };
        let (run, operation, question) = first;
        let mut metadata = Map::new();
        let name = question_name(&self.task, *run, *operation);
        metadata.insert(QUESTION.to_owned(), name.into());
        metadata.insert("ghostlight/kind".to_owned(), json!(question.kind));
        if !question.options.is_empty() {
            metadata.insert("ghostlight/options".to_owned(), json!(question.options));
        }
        let mut message = self.words(format!("{run}/{operation}"), question.in_words());
        message.metadata = Some(metadata);
        // The other questions follow when this one is answered.
        self.state = state;
        vec![self.status(Some(message), at)]
    }

    fn words(&self, id: String, text: String) -> Message {
        let mut message = Message::text(Role::Agent, id, text);
        message.context_id = Some(self.context.clone());
        message.task_id = Some(self.task.clone());
        message
    }

    fn turn_to(&mut self, state: TaskState, words: Option<String>, at: Timestamp) -> Vec<Told> {
        if self.state == state || (self.state.is_terminal() && self.state != TaskState::Failed) {
            return Vec::new();
        }
        self.state = state;
        let message = words.map(|words| self.words(format!("{}/end", self.root), words));
        vec![self.status(message, at)]
    }

    fn status(&self, message: Option<Message>, at: Timestamp) -> Told {
        let (state, timestamp) = (self.state, time_of(at));
        Told::Update(StreamResponse::StatusUpdate(StatusUpdate {
            task_id: self.task.clone(),
            context_id: self.context.clone(),
            status: TaskStatus {
                state,
                message,
                timestamp,
            },
            metadata: None,
        }))
    }
}
