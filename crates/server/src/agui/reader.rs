//! From the recorded events of a run to those of AG-UI.
//!
//! | the protocol's | ours |
//! |---|---|
//! | agent | team |
//! | thread | session |
//! | run | what a turn, or an answer to its questions, causes up to the end or the next question |
//! | run id | the id of the turn |
//! | subagent | a run below the root |
//! | step | a model call with the tool calls that it asks for |
//! | interrupt | a question |
//! | call of a frontend tool | a question for the result of a call |
//! | state | the values of the session's scope |
//! | cancelled | cancelled |
//! | run error | failed, parked, or stopped before its end for any other reason |

use std::collections::{BTreeMap, BTreeSet};

use ghostlight_actors::vocabulary::{
    Changed, Delta, Event as Recorded, EventRecord, OperationId, Preview, Question, QuestionKind,
    RunId, RunResult, Scope, StopReason, Timestamp, ToolCall, Usage,
};
use serde_json::{Map, Value, json};

use super::{
    conversation::Conversation,
    event::{Event, Outcome, Told},
    forms::{SOURCE, called, custom, message_id, result_of, subagent, subagent_end},
    input::{Asking, id_of},
    speech::{Fit, Speech, whole},
};

const PROGRESS: &str = "ghostlight.progress";

/// One run of the tree.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The parent, where it is not the root, and the agent; `None` for the root.
    pub(super) below: Option<(Option<RunId>, String)>,
    pub(super) steps: BTreeSet<u32>,
    pub(super) speeches: BTreeMap<OperationId, Speech>,
    /// Calls without a result: the id in the journal, the id for the client, and whether the client knows it.
    pub(super) calls: Vec<(ToolCall, String, bool)>,
}

/// An open question, with the call that it is about as the client knows it.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) run: RunId,
    pub(super) operation: OperationId,
    pub(super) question: Question,
    pub(super) call: Option<String>,
}

/// Translates the events of a run, in order.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) thread: String,
    pub(super) run: String,
    pub(super) root: RunId,
    /// The names of the client's tools. Their calls are told when their results are asked for.
    pub(super) tools: BTreeSet<String>,
    pub(super) is_json: bool,
    pub(super) conversation: Conversation,
    pub(super) state: Map<String, Value>,
    pub(super) lines: BTreeMap<RunId, Line>,
    pub(super) open: Vec<Asked>,
    /// Calls whose results the client gave.
    pub(super) given: BTreeSet<String>,
    pub(super) usage: BTreeMap<String, Usage>,
    /// Tools whose progress the client was told.
    pub(super) progress: BTreeSet<String>,
    /// The text that the root said last.
    pub(super) said: String,
    pub(super) has_begun: bool,
    pub(super) is_over: bool,
}

/// The names by which the client knows a run.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) thread: String,
    pub(super) run: String,
    pub(super) tools: BTreeSet<String>,
}

impl Reader {
    /// A reader for a run in a session with this state. An agent whose answers have a schema gives its result as JSON.
    pub(super) fn new(
        root: RunId,
        named: Named,
        conversation: Conversation,
        state: Map<String, Value>,
        is_json: bool,
    ) -> Self {
        Self {
            thread: named.thread,
            run: named.run,
            root,
            tools: named.tools,
            is_json,
            conversation,
            state,
            lines: BTreeMap::new(),
            open: Vec::new(),
            given: BTreeSet::new(),
            usage: BTreeMap::new(),
            progress: BTreeSet::new(),
            said: String::new(),
            has_begun: false,
            is_over: false,
        }
    }

    /// Whether the client was told the end.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The run that carries the turn now, since a run may continue in another journal.
    pub(super) fn root(&self) -> RunId {
        self.root
    }

    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether a message of any run is half told.
    pub(super) fn is_speaking(&self) -> bool {
        let mut speeches = self.lines.values().flat_map(|line| line.speeches.values());
        speeches.any(Speech::is_open)
    }

    /// The open questions.
    pub(super) fn open(&self) -> impl Iterator<Item = Asking> {
        self.open.iter().map(|asked| (asked.run, asked.operation))
    }

    pub(super) fn tell(&mut self, run: RunId, at: Option<Timestamp>, event: Event) -> Told {
        let told = Told {
            event,
            timestamp: at.map(|at| at.0),
            subagent_run_id: (run != self.root).then(|| run.to_string()),
        };
        self.conversation.hear(&told);
        told
    }

    pub(super) fn tell_all(
        &mut self,
        run: RunId,
        at: Option<Timestamp>,
        events: Vec<Event>,
    ) -> Vec<Told> {
        let events = events.into_iter();
        events.map(|event| self.tell(run, at, event)).collect()
    }

    /// The events that a recorded event causes. Before the client's run has begun they only change what is known.
    pub(super) fn read(&mut self, record: &EventRecord) -> Vec<Told> {
        let (run, at) = (record.run, Some(record.at));
        if self.is_over {
            return Vec::new();
        }
        let mut before = Vec::new();
        if let Recorded::RunStarted { parent: None, .. } = &record.event
            && run == self.root
            && !self.has_begun
        {
            before = self.begin(at);
        }
        let is_end = matches!(&record.event, Recorded::RunEnded { end, .. } if !matches!(end, RunResult::Continued(_)));
        if is_end && run == self.root && self.has_begun {
            // A run below may not have ended.
            before.extend(self.suspend());
            self.lines.clear();
        }
        let events = self.events_of(record);
        if !self.has_begun {
            return Vec::new();
        }
        before.extend(self.tell_all(run, at, events));
        before
    }

    /// Takes note of an event from before the client's run.
    pub(super) fn learn(&mut self, record: &EventRecord) {
        drop(self.events_of(record));
    }

    fn line(&mut self, run: RunId) -> &mut Line {
        self.lines.entry(run).or_default()
    }

    fn events_of(&mut self, record: &EventRecord) -> Vec<Event> {
        let run = record.run;
        let is_root = run == self.root;
        let mut events = Vec::new();
        match &record.event {
            Recorded::RunStarted {
                agent,
                parent: Some(parent),
                ..
            } => {
                let parent = (*parent != self.root).then_some(*parent);
                events.push(subagent(parent, agent));
                self.line(run).below = Some((parent, agent.clone()));
            }
            Recorded::StepStarted { step, .. } => {
                self.line(run).steps.insert(*step);
                let step_name = self.step(run, *step);
                events.push(Event::StepStarted { step_name });
            }
            Recorded::StepEnded { step, .. } if self.line(run).steps.remove(step) => {
                let step_name = self.step(run, *step);
                events.push(Event::StepFinished { step_name });
            }
            Recorded::Preview(preview) => self.preview(record, preview, &mut events),
            Recorded::ModelCalled {
                operation,
                model,
                text,
                reasoning,
                tool_calls,
                usage,
                ..
            } => {
                *self.usage.entry(model.clone()).or_default() += *usage;
                let words = (text.as_str(), reasoning.as_str());
                self.model(record, *operation, words, tool_calls, &mut events);
            }
            Recorded::OperationFailed { operation, .. }
            | Recorded::OperationDropped { operation } => {
                if let Some(speech) = self.line(run).speeches.remove(operation) {
                    self.void(run, *operation, speech, &mut events);
                }
                drop(self.answered(run, *operation));
            }
            Recorded::ToolCalled {
                operation,
                result,
                call,
            } => {
                let known = self.line(run).calls.iter();
                let known = known.rev().position(|(call, ..)| call.id == result.call_id);
                let known = known.map(|back| self.line(run).calls.len() - 1 - back);
                let (made, id, is_told) = match known {
                    Some(place) => self.line(run).calls.remove(place),
                    None => {
                        let mut made = ToolCall::new(&result.call_id, &result.name, json!({}));
                        if let Some(call) = call {
                            made.arguments = call.arguments.clone();
                        }
                        (made, id_of(run, *operation), false)
                    }
                };
                if !is_told {
                    called(&made, &id, None, &mut events);
                }
                // The client has a result that it gave.
                if !self.given.remove(&id) {
                    events.push(result_of(result, id));
                }
            }
            Recorded::QuestionAsked {
                operation,
                question,
            } => self.asks(run, *operation, question, &mut events),
            Recorded::QuestionAnswered { operation, .. } => {
                for asked in self.answered(run, *operation) {
                    if asked.question.kind == QuestionKind::ToolResult {
                        self.given.extend(asked.call);
                    }
                }
            }
            Recorded::Changed {
                changed:
                    Changed::State {
                        scope: Scope::Session,
                        key,
                        value,
                        ..
                    },
                ..
            } if is_root => events.extend(self.changed(key, value.as_ref())),
            Recorded::Changed {
                changed: Changed::Artifact { scope, artifact },
                ..
            } => events.push(custom(
                "artifact",
                json!({ "scope": scope, "artifact": artifact }),
            )),
            Recorded::LegStarted {
                agent,
                request: Some(request),
            } => {
                let value = json!({ "agent": agent, "request": request });
                events.push(custom("transferred", value));
            }
            Recorded::Custom { name, data } => events.push(Event::Custom {
                name: name.clone(),
                value: data.clone(),
            }),
            Recorded::BudgetWarning { .. }
            | Recorded::Cancelling { .. }
            | Recorded::Restarted { .. }
            | Recorded::Resumed { .. }
            | Recorded::Drifted { .. }
            | Recorded::Heard { .. }
            | Recorded::MessageQuarantined { .. } => {
                let name = record.event.name();
                let data = serde_json::to_value(&record.event).unwrap_or_default();
                events.push(custom(name, data["data"].clone()));
            }
            Recorded::Unknown(unknown) => events.push(Event::Raw {
                event: json!({ "type": unknown.name, "data": unknown.data }),
                source: SOURCE,
            }),
            Recorded::RunEnded {
                end: RunResult::Continued(next),
                ..
            } if is_root => {
                // The client's run goes on, and with it what is told of it.
                self.close(run, &mut events);
                self.root = *next;
                self.open.clear();
            }
            Recorded::RunEnded { end, .. } if is_root => self.ended(end, record, &mut events),
            Recorded::RunEnded { end, .. } => {
                self.open.retain(|asked| asked.run != run);
                self.close(run, &mut events);
                self.lines.remove(&run);
                events.push(subagent_end(end));
            }
            _ => {}
        }
        events
    }

    fn preview(&mut self, record: &EventRecord, preview: &Preview, events: &mut Vec<Event>) {
        let (run, name) = (record.run, record.author().to_owned());
        match preview {
            Preview::ModelStarted {
                operation, attempt, ..
            } => {
                let before = self.line(run).speeches.remove(operation);
                if let Some(speech) = before {
                    self.void(run, *operation, speech, events);
                }
                let speech = Speech::new(*attempt);
                self.line(run).speeches.insert(*operation, speech);
            }
            Preview::Delta {
                operation,
                attempt,
                delta,
            } => {
                let id = message_id(run, *operation, *attempt);
                let speech = self.line(run).speeches.get_mut(operation);
                let Some(speech) = speech.filter(|speech| speech.attempt == *attempt) else {
                    return;
                };
                match delta {
                    Delta::Text(text) if !text.is_empty() => speech.say(&id, &name, text, events),
                    Delta::Reasoning(text) if !text.is_empty() => speech.reason(&id, text, events),
                    _ => {}
                }
            }
            Preview::ToolProgress {
                operation,
                fraction,
                message,
            } => {
                let message_id = format!("{}_progress", id_of(run, *operation));
                let content = json!({ "fraction": fraction, "message": message });
                events.push(match self.progress.insert(message_id.clone()) {
                    true => Event::ActivitySnapshot {
                        message_id,
                        activity_type: PROGRESS,
                        content: content.as_object().cloned().unwrap_or_default(),
                    },
                    false => Event::ActivityDelta {
                        message_id,
                        activity_type: PROGRESS,
                        patch: json!([
                            { "op": "replace", "path": "/fraction", "value": fraction },
                            { "op": "replace", "path": "/message", "value": message },
                        ]),
                    },
                });
            }
            Preview::ToolOutput { operation, text } => {
                let value = json!({ "operation": operation.to_string(), "text": text });
                events.push(custom("tool_output", value));
            }
            _ => {}
        }
    }

    /// Ends text that does not count, and tells the messages without it.
    fn void(
        &mut self,
        run: RunId,
        operation: OperationId,
        mut speech: Speech,
        events: &mut Vec<Event>,
    ) {
        let id = message_id(run, operation, speech.attempt);
        speech.close(&id, events);
        if speech.has_text() {
            self.forget(&id, events);
        }
    }

    fn forget(&mut self, id: &str, events: &mut Vec<Event>) {
        self.conversation.forget(id);
        events.extend(self.conversation.snapshot());
    }

    fn model(
        &mut self,
        record: &EventRecord,
        operation: OperationId,
        (text, reasoning): (&str, &str),
        calls: &[ToolCall],
        events: &mut Vec<Event>,
    ) {
        let (run, name) = (record.run, record.author().to_owned());
        let speech = self.line(run).speeches.remove(&operation);
        let speech = speech.unwrap_or_else(|| Speech::new(1));
        let mut id = message_id(run, operation, speech.attempt);
        let words = (text, reasoning);
        if let Fit::Void(shown) = speech.finish((&id, &name), words, events) {
            self.forget(&shown, events);
            id.push_str("_said");
            if !text.is_empty() {
                whole(&id, &name, text, events);
            }
        }
        if run == self.root && !text.is_empty() {
            text.clone_into(&mut self.said);
        }
        for (place, call) in calls.iter().enumerate() {
            let is_clients = run == self.root && self.tools.contains(&call.name);
            let of_call = format!("{}_{place}", id_of(run, operation));
            if !is_clients {
                let parent = (!text.is_empty()).then(|| id.clone());
                called(call, &of_call, parent, events);
            }
            let call = (call.clone(), of_call, !is_clients);
            self.line(run).calls.push(call);
        }
    }

    fn asks(
        &mut self,
        run: RunId,
        operation: OperationId,
        question: &Question,
        events: &mut Vec<Event>,
    ) {
        let mut of_call = None;
        if let Some(call) = &question.call {
            let calls = self.line(run).calls.iter_mut();
            let known = calls.rev().find(|(known, ..)| known.id == call.id);
            let is_result = question.kind == QuestionKind::ToolResult;
            let id = match known {
                // A client gives the result of a call under the id of the question.
                Some(known) if is_result => {
                    let id = id_of(run, operation);
                    if !known.2 || known.1 != id {
                        called(call, &id, None, events);
                    }
                    (known.1, known.2) = (id.clone(), true);
                    id
                }
                Some((_, id, true)) => id.clone(),
                known => {
                    let id = id_of(run, operation);
                    called(call, &id, None, events);
                    match known {
                        Some(known) => (known.1, known.2) = (id.clone(), true),
                        None => {
                            let call = (call.clone(), id.clone(), true);
                            self.line(run).calls.push(call);
                        }
                    }
                    id
                }
            };
            of_call = Some(id);
        }
        self.open.push(Asked {
            run,
            operation,
            question: question.clone(),
            call: of_call,
        });
    }

    /// Removes a question that needs no answer any more.
    fn answered(&mut self, run: RunId, operation: OperationId) -> Vec<Asked> {
        let is_it = |asked: &mut Asked| (asked.run, asked.operation) == (run, operation);
        self.open.extract_if(.., is_it).collect()
    }

    fn changed(&mut self, key: &str, value: Option<&Value>) -> Option<Event> {
        let path = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        let operation = match value {
            Some(value) => {
                self.state.insert(key.to_owned(), value.clone());
                json!({ "op": "add", "path": path, "value": value })
            }
            None => {
                // The client may have got the state of today before it.
                self.state.remove(key)?;
                json!({ "op": "remove", "path": path })
            }
        };
        let delta = json!([operation]);
        Some(Event::StateDelta { delta })
    }

    /// Ends the text and the steps of a run.
    pub(super) fn close(&mut self, run: RunId, events: &mut Vec<Event>) {
        let Some(mut line) = self.lines.remove(&run) else {
            return;
        };
        for (operation, speech) in &mut line.speeches {
            speech.close(&message_id(run, *operation, speech.attempt), events);
        }
        line.speeches.clear();
        let steps = std::mem::take(&mut line.steps);
        self.lines.insert(run, line);
        for step in steps {
            let step_name = self.step(run, step);
            events.push(Event::StepFinished { step_name });
        }
    }

    fn ended(&mut self, end: &RunResult, record: &EventRecord, events: &mut Vec<Event>) {
        let run = self.root;
        self.open.clear();
        self.close(run, events);
        let id = format!("{run}_answer");
        let usage = self.consumed();
        match end {
            RunResult::Answered(text) => {
                if !text.is_empty() && *text != self.said {
                    whole(&id, record.author(), text, events);
                }
                let json = self.is_json.then(|| serde_json::from_str(text).ok());
                let result = json.flatten().unwrap_or_else(|| text.as_str().into());
                let outcome = Outcome::Success {
                    pending_tool_call_ids: Vec::new(),
                };
                events.push(self.finished(Some(result), outcome));
            }
            RunResult::Stopped(StopReason::Cancelled(_)) => {
                events.push(self.finished(None, Outcome::Cancelled));
            }
            RunResult::Stopped(reason) => events.push(Event::RunError {
                message: reason.to_string(),
                code: "stopped".to_owned(),
                usage,
            }),
            RunResult::Failed(error) => events.push(Event::RunError {
                message: error.to_string(),
                code: "failed".to_owned(),
                usage,
            }),
            _ => events.push(self.finished(
                None,
                Outcome::Success {
                    pending_tool_call_ids: Vec::new(),
                },
            )),
        }
        // Only `read` tells the end; a history that the client has seen may hold none.
        self.is_over = self.has_begun;
    }
}
