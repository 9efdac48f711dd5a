//! Recorded events as updates, prompts as turns, and questions as permission requests: pure functions, without I/O and
//! without a clock.
//!
//! | the protocol's | ours |
//! |---|---|
//! | session | session; its id is the session's key |
//! | prompt | turn, or the answer to a question that is not a permission |
//! | message, thought | what the models of the turn's agent say |
//! | tool call | a call that a model asked for; a task that is given to another agent |
//! | plan | the list of `todo_write`, or the plan of `create_tasks` |
//! | permission request | an approval, a confirmation, a choice, a call in doubt |

mod asking;
mod prompting;
mod showing;

pub use asking::{Asked, answer_of, permission, prompt};
pub use prompting::{ASKS, IDEMPOTENCY_KEY, turn_of};

use std::collections::HashMap;

use ghostlight_actors::vocabulary::{
    Changed, Delta, Event, EventRecord, OperationId, Preview, Question, RunId, RunResult, Spent,
    ToolStatus,
};

use crate::protocol::{Chunk, ContentBlock, ToolCall, ToolCallContent, ToolCallStatus, Update};

/// The most bytes of a tool's result that an update shows.
const MAX_SHOWN: usize = 64 << 10;
/// The text between two messages that follow each other.
const BREAK: &str = "\n\n";

/// The meaning of an event for a client.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)]
pub enum Told {
    /// An update of the session.
    Update(Update),
    /// A question is open.
    Asked(Asked),
    /// A question is answered, or not asked any more.
    Closed(RunId, OperationId),
    /// The run waits for somebody to mend it, for this reason.
    Parked(String),
    /// The run has ended.
    Ended(RunResult, Spent),
}

/// Translates the events of a run, in order, into updates.
#[derive(Clone, Debug)]
pub struct UpdateReader {
    root: RunId,
    /// The ids of the tool calls that have no result yet, by their run and the model's id.
    calls: HashMap<(RunId, String), String>,
    /// Those of tasks for other agents that no model asked for.
    tasks: HashMap<(RunId, OperationId), String>,
    open: Vec<Asked>,
    /// The model call whose answer is shown piece by piece.
    front: Option<Front>,
    /// The last whole message.
    last: String,
    /// Whether a message was the last thing shown.
    after_message: bool,
    missed: u64,
}

/// The part of a model's answer that was shown.
#[derive(Clone, Debug)]
struct Front {
    operation: OperationId,
    attempt: u32,
    text: String,
    thinks: bool,
    /// Whether no more pieces are shown, because one was missed or another attempt began: the recorded answer brings
    /// the rest.
    waits: bool,
}

impl UpdateReader {
    /// A reader for this run of a turn and the runs below it.
    pub fn new(run: RunId) -> Self {
        Self {
            root: run,
            calls: HashMap::new(),
            tasks: HashMap::new(),
            open: Vec::new(),
            front: None,
            last: String::new(),
            after_message: false,
            missed: 0,
        }
    }

    /// The questions that are open after the events so far.
    pub fn open(&self) -> &[Asked] {
        &self.open
    }

    /// Says how many previews were missed so far.
    pub fn missed(&mut self, previews: u64) {
        if previews != std::mem::replace(&mut self.missed, previews)
            && let Some(front) = &mut self.front
        {
            front.waits = true;
        }
    }

    /// The updates of an event.
    pub fn read(&mut self, record: &EventRecord) -> Vec<Told> {
        let (run, is_root) = (record.run, record.run == self.root);
        match &record.event {
            Event::Preview(preview) => self.preview(record, preview).into_iter().collect(),
            Event::ModelCalled {
                operation,
                text,
                reasoning,
                tool_calls,
                ..
            } => {
                let mut told = Vec::new();
                if is_root {
                    self.whole(*operation, text, reasoning, &mut told);
                }
                for call in tool_calls {
                    let id = format!("{run}/{operation}/{}", call.id);
                    self.calls.insert((run, call.id.clone()), id.clone());
                    let shown = showing::call(id, self.by(record), call);
                    told.push(self.shows(Update::ToolCall(shown)));
                }
                told
            }
            Event::ToolCalled { result, call, .. } => {
                let known = self.calls.remove(&(run, result.call_id.clone()));
                let is_new = known.is_none();
                let id = known.unwrap_or_else(|| format!("{run}/{}", result.call_id));
                let status = match result.status {
                    ToolStatus::Success => ToolCallStatus::Completed,
                    _ => ToolCallStatus::Failed,
                };
                let text = ToolCallContent::text(showing::bounded(&result.text, MAX_SHOWN));
                let mut shown = showing::ended(id, status, text);
                let update = if is_new {
                    let by = self.by(record);
                    shown.title = Some(showing::title(by, &result.name, None));
                    shown.kind = Some(showing::kind_of(&result.name));
                    Update::ToolCall(shown)
                } else {
                    Update::ToolCallUpdate(shown)
                };
                let mut told = vec![self.shows(update)];
                let plan = call.as_ref().and_then(|call| showing::plan(result, call));
                told.extend(plan.map(Told::Update));
                told
            }
            Event::Changed {
                changed:
                    Changed::State {
                        key,
                        value: Some(value),
                        ..
                    },
                ..
            } => {
                let todos = showing::todos(key, value);
                todos.map(Told::Update).into_iter().collect()
            }
            Event::Delegated {
                operation, agent, ..
            } if !self.calls.keys().any(|(of, _)| *of == run) => {
                let id = format!("{run}/{operation}");
                self.tasks.insert((run, *operation), id.clone());
                let shown = showing::task(id, agent);
                vec![self.shows(Update::ToolCall(shown))]
            }
            Event::DelegationEnded {
                operation, text, ..
            } => {
                let Some(id) = self.tasks.remove(&(run, *operation)) else {
                    return Vec::new();
                };
                let text = ToolCallContent::text(showing::bounded(text, MAX_SHOWN));
                let shown = showing::ended(id, ToolCallStatus::Completed, text);
                vec![self.shows(Update::ToolCallUpdate(shown))]
            }
            Event::QuestionAsked {
                operation,
                question,
            } => vec![self.asked(run, *operation, question)],
            Event::QuestionAnswered { operation, .. } => self.closed(run, *operation),
            Event::OperationFailed { operation, .. } | Event::OperationDropped { operation } => {
                self.front
                    .take_if(|front| is_root && front.operation == *operation);
                let mut told = self.closed(run, *operation);
                if let Some(id) = self.tasks.remove(&(run, *operation)) {
                    told.push(failed(id));
                }
                told
            }
            Event::Parked { reason } if is_root => vec![Told::Parked(reason.to_string())],
            Event::RunEnded { end, spent } => self.ended(run, end, spent),
            _ => Vec::new(),
        }
    }

    /// The agent that is named beside what it does: one that works for the turn's agent.
    fn by<'r>(&self, record: &'r EventRecord) -> Option<&'r str> {
        (record.run != self.root).then(|| record.author())
    }

    fn shows(&mut self, update: Update) -> Told {
        self.after_message = false;
        Told::Update(update)
    }

    fn preview(&mut self, record: &EventRecord, preview: &Preview) -> Option<Told> {
        let run = record.run;
        match preview {
            Preview::ToolStarted { call, .. } => {
                let id = self.calls.get(&(run, call.id.clone()))?.clone();
                Some(Told::Update(Update::ToolCallUpdate(ToolCall {
                    tool_call_id: id,
                    status: Some(ToolCallStatus::InProgress),
                    ..ToolCall::default()
                })))
            }
            _ if run != self.root => None,
            Preview::ModelStarted {
                operation, attempt, ..
            } => {
                match &mut self.front {
                    None => {
                        self.front = Some(Front {
                            operation: *operation,
                            attempt: *attempt,
                            text: String::new(),
                            thinks: false,
                            waits: false,
                        });
                    }
                    Some(front) if front.operation == *operation => {
                        front.attempt = *attempt;
                        front.waits |= !front.text.is_empty();
                    }
                    Some(_) => {}
                }
                None
            }
            Preview::Delta {
                operation,
                attempt,
                delta,
            } => {
                let front = self.front.as_mut()?;
                let is_front = (front.operation, front.attempt) == (*operation, *attempt);
                if !is_front || front.waits {
                    return None;
                }
                match delta {
                    Delta::Text(text) if !text.is_empty() => {
                        let begins = front.text.is_empty();
                        front.text.push_str(text);
                        Some(self.message(*operation, text, begins))
                    }
                    Delta::Reasoning(text) if !text.is_empty() => {
                        front.thinks = true;
                        Some(self.thought(*operation, text))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// A piece of a message.
    fn message(&mut self, operation: OperationId, text: &str, begins: bool) -> Told {
        let follows = std::mem::replace(&mut self.after_message, true);
        let text = match begins && follows {
            true => format!("{BREAK}{text}"),
            false => text.to_owned(),
        };
        Told::Update(Update::AgentMessageChunk(self.chunk(operation, &text)))
    }

    fn thought(&mut self, operation: OperationId, text: &str) -> Told {
        let chunk = self.chunk(operation, text);
        self.shows(Update::AgentThoughtChunk(chunk))
    }

    fn chunk(&self, operation: OperationId, text: &str) -> Chunk {
        Chunk {
            content: ContentBlock::text(text),
            message_id: Some(format!("{}/{operation}", self.root)),
        }
    }

    /// A model's recorded answer: what of it was not shown yet.
    fn whole(&mut self, operation: OperationId, text: &str, reasoning: &str, told: &mut Vec<Told>) {
        let front = self.front.take_if(|front| front.operation == operation);
        let (shown, thinks) =
            front.map_or_else(Default::default, |front| (front.text, front.thinks));
        if !thinks && !reasoning.is_empty() {
            told.push(self.thought(operation, reasoning));
        }
        let (rest, begins) = match text.strip_prefix(shown.as_str()) {
            Some(rest) => (rest, shown.is_empty()),
            // Another attempt gave another answer.
            None => (text, true),
        };
        if !rest.is_empty() {
            told.push(self.message(operation, rest, begins));
        }
        if !text.is_empty() {
            text.clone_into(&mut self.last);
        }
    }

    fn asked(&mut self, run: RunId, operation: OperationId, question: &Question) -> Told {
        let call = question.call.as_ref();
        let known = call.and_then(|call| self.calls.get(&(run, call.id.clone())));
        let asked = Asked {
            run,
            operation,
            question: question.clone(),
            tool_call_id: known
                .cloned()
                .unwrap_or_else(|| format!("{run}/{operation}")),
        };
        self.open.push(asked.clone());
        Told::Asked(asked)
    }

    fn closed(&mut self, run: RunId, operation: OperationId) -> Vec<Told> {
        let before = self.open.len();
        self.open
            .retain(|asked| (asked.run, asked.operation) != (run, operation));
        let is_closed = self.open.len() < before;
        is_closed
            .then_some(Told::Closed(run, operation))
            .into_iter()
            .collect()
    }

    fn ended(&mut self, run: RunId, end: &RunResult, spent: &Spent) -> Vec<Told> {
        let mut told = Vec::new();
        let own = |asked: &Asked| asked.run == run;
        let open = self.open.iter().filter(|asked| own(asked));
        told.extend(open.map(|asked| Told::Closed(run, asked.operation)));
        self.open.retain(|asked| !own(asked));
        let is_root = run == self.root;
        let left = self.calls.extract_if(|(of, _), _| is_root || *of == run);
        told.extend(left.map(|(_, id)| failed(id)));
        let left = self.tasks.extract_if(|(of, _), _| is_root || *of == run);
        told.extend(left.map(|(_, id)| failed(id)));
        if !is_root {
            return told;
        }
        self.front = None;
        match end {
            RunResult::Continued(next) => {
                self.root = *next;
                return told;
            }
            // The answer differs from the last message: no model gave it in these words.
            RunResult::Answered(text) if !text.is_empty() && *text != self.last => {
                let operation = OperationId::default();
                told.push(self.message(operation, text, true));
            }
            _ => {}
        }
        told.push(Told::Ended(end.clone(), *spent));
        told
    }
}

/// A call that ended without a result.
fn failed(id: String) -> Told {
    Told::Update(Update::ToolCallUpdate(ToolCall {
        tool_call_id: id,
        status: Some(ToolCallStatus::Failed),
        ..ToolCall::default()
    }))
}
