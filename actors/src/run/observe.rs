//! Events, derived from entries.

use std::collections::HashMap;

use serde_json::{Value, value::RawValue};

use super::{ChildResult, read_end, read_result, recorded_change::recorded_change, steps::Steps};
use crate::{
    contract::{RunRow, StoreError, TreeLine},
    vocabulary::{
        AgentError, Begun, CallReport, Entry, Event, EventRecord, Family, Message, ModelResponse,
        OperationId, Part, RunEnd, RunId, RunResult, Spent,
    },
};

/// Turns the entries of a tree into events. It remembers which agent carries which run, and which
/// steps have begun, so it is to see a tree from its first entry.
#[derive(Debug, Default)]
pub struct Observer {
    runs: HashMap<RunId, Observed>,
}

/// A run as it was seen so far.
#[derive(Debug, Default)]
struct Observed {
    /// Its place in its tree, once that is known.
    path: Option<Vec<String>>,
    /// The display name of the agent that carries it, if that has one.
    display_name: Option<String>,
    steps: Steps,
}

impl Observer {
    /// An observer that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it knows where this run stands in its tree.
    pub fn knows(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(|run| run.path.is_some())
    }

    /// Tells it where a run stands.
    pub fn learn(&mut self, row: &RunRow) {
        let run = self.runs.entry(row.run).or_default();
        run.path.get_or_insert_with(|| row.path.clone());
    }

    /// The events of an entry, in their order: of most one, of some none, and where a step begins or
    /// ends, people said something, or a run cuts off calls, several.
    ///
    /// # Errors
    /// When the entry does not read.
    pub fn observe(&mut self, line: &TreeLine) -> Result<Vec<EventRecord>, StoreError> {
        let stored = &line.stored;
        let entry = stored.decode(&line.run.into())?;
        let run = self.runs.entry(line.run).or_default();
        match &entry {
            Entry::RunStarted(start) => {
                run.path = Some(start.path.clone());
                run.display_name.clone_from(&start.display_name);
            }
            Entry::LegStarted {
                agent,
                display_name,
                ..
            } => {
                run.display_name.clone_from(display_name);
                if let Some(last) = run.path.get_or_insert_default().last_mut() {
                    last.clone_from(agent);
                }
            }
            _ => {}
        }
        let asked_by = run.steps.log.add(stored.sequence, &entry);
        let Some(event) = events_of(&entry) else {
            return Ok(Vec::new());
        };
        let path = run.path.clone().unwrap_or_default();
        let ends = matches!(event, Event::RunEnded { .. });
        let mut events = run.steps.around(event, asked_by);
        events.extend(heard_with(&entry));
        if ends {
            run.steps = Steps::default();
        }
        let record = |(part, event)| {
            let mut record = EventRecord::new(line.run, stored.line.at, path.clone(), event);
            (record.sequence, record.position) = (Some(stored.sequence), Some(stored.position));
            record.part = part;
            record.display_name.clone_from(&run.display_name);
            record
        };
        Ok((0..).zip(events).map(record).collect())
    }
}

/// The event of an entry by itself, without the beginnings and ends of steps
/// ([`Observer::observe`]). Some entries have no event: a registered undo step, a chosen version, a
/// heard turn, the terms of a child and its settlement, and the entries of a session's own journal.
fn events_of(entry: &Entry) -> Option<Event> {
    Some(match entry {
        Entry::RunStarted(start) => Event::RunStarted {
            agent: start.agent.clone(),
            input: start.input.content(),
            parent: start.parent.map(|(parent, _)| parent),
        },
        Entry::LegStarted { agent, request, .. } => Event::LegStarted {
            agent: agent.clone(),
            request: request.clone(),
        },
        Entry::Started {
            op,
            kind,
            name,
            begun,
            ..
        } => started(*op, kind, name, begun)?,
        Entry::Completed {
            op,
            kind,
            name,
            result,
            call,
            ..
        } => {
            let operation = *op;
            if let Some(Err(error)) = read_end::<Value>(result) {
                let error = AgentError::Operation(error);
                let (kind, name) = (kind.to_string(), name.clone());
                return Some(Event::OperationFailed {
                    operation,
                    kind,
                    name,
                    error,
                });
            }
            match recorded_change(entry) {
                Some(changed) => Event::Changed { operation, changed },
                None => completed(operation, kind, name, result, call.as_deref()),
            }
        }
        // The journal of the child that heard it has the event.
        Entry::Heard { place, .. } if *place == Entry::HEARD_BELOW => return None,
        Entry::Heard { op, message, .. } => heard(*op, message),
        Entry::Changed { op, changed } => Event::Changed {
            operation: *op,
            changed: (**changed).clone(),
        },
        Entry::CallAnswered {
            op, result, call, ..
        } => Event::ToolCalled {
            operation: *op,
            result: (**result).clone(),
            call: Some(call.shown()),
        },
        Entry::Dropped { op, .. } => Event::OperationDropped { operation: *op },
        Entry::Emitted { name, data, .. } => Event::Custom {
            name: name.clone(),
            data: serde_json::from_str(data.get()).unwrap_or_default(),
        },
        Entry::Drifted { op, .. } => Event::Drifted { operation: *op },
        Entry::Activated { epoch, .. } => Event::Resumed { epoch: *epoch },
        Entry::Restarted { reason } => Event::Restarted {
            reason: reason.clone(),
        },
        Entry::Parked { reason } => Event::Parked {
            reason: reason.clone(),
        },
        Entry::Quarantined { op, reason } => Event::MessageQuarantined {
            operation: *op,
            reason: reason.clone(),
        },
        Entry::CancelRequested { reason, .. } => Event::Cancelling {
            reason: reason.clone(),
        },
        Entry::BudgetWarned {
            resource,
            percent,
            used,
            bound,
        } => Event::BudgetWarning {
            used: *used,
            bound: *bound,
            resource: *resource,
            percent: u32::from(*percent),
        },
        Entry::RunEnded(end) => ended(end),
        Entry::UndoRegistered { .. }
        | Entry::VersionChosen { .. }
        | Entry::TurnHeard { .. }
        | Entry::Granted { .. }
        | Entry::Settled { .. }
        | Entry::TurnStarted(_)
        | Entry::TurnEnded(_)
        | Entry::TurnContinued { .. }
        | Entry::TurnQuarantined { .. }
        | Entry::SessionRewound { .. }
        | Entry::SessionForked { .. } => return None,
    })
}

fn started(operation: OperationId, kind: &str, name: &str, begun: &Begun) -> Option<Event> {
    let name = name.to_owned();
    Some(match begun {
        Begun::Effect if Family::of(kind) == Family::Tool => Event::ToolStarted {
            operation,
            tool: name,
        },
        Begun::Question(question) => Event::QuestionAsked {
            operation,
            question: question.withheld(),
        },
        Begun::Child(run) => Event::Delegated {
            operation,
            agent: name,
            run: *run,
        },
        Begun::Effect | Begun::Ticket | Begun::Timer(_) | Begun::Retry(_) => return None,
    })
}

fn completed(
    operation: OperationId,
    kind: &str,
    name: &str,
    result: &RawValue,
    call: Option<&CallReport>,
) -> Event {
    let event = match Family::of(kind) {
        Family::Model => {
            read_result(result).map(|response| model_called(operation, name, response))
        }
        Family::Tool => read_result(result).map(|result| Event::ToolCalled {
            operation,
            result,
            call: call.map(CallReport::shown),
        }),
        Family::Delegate | Family::Join => read_result(result).map(|child: ChildResult| {
            let text = match &child.outcome {
                Ok(outcome) => outcome.stop_reason().map_or_else(
                    || outcome.text().to_owned(),
                    |reason| format!("stopped: {reason}"),
                ),
                Err(error) => format!("failed: {error}"),
            };
            let agent = name.to_owned();
            Event::DelegationEnded {
                operation,
                agent,
                text,
            }
        }),
        Family::Ask => {
            read_result(result).map(|answer| Event::QuestionAnswered { operation, answer })
        }
        _ => None,
    };
    event.unwrap_or_else(|| Event::OperationCompleted {
        operation,
        kind: kind.to_owned(),
        name: name.to_owned(),
    })
}

fn model_called(operation: OperationId, name: &str, response: ModelResponse) -> Event {
    let reasoning = response.message.parts.iter().filter_map(|part| match part {
        Part::Reasoning(reasoning) => Some(reasoning.text.as_str()),
        _ => None,
    });
    Event::ModelCalled {
        operation,
        model: name.to_owned(),
        text: response.content(),
        reasoning: reasoning.collect::<Vec<_>>().join("\n"),
        tool_calls: response.calls(),
        sources: response.message.sources(),
        finish: response.finish,
        usage: response.usage,
        attempts: response.attempts,
        latency_ms: response.latency_ms,
    }
}

fn heard(operation: OperationId, message: &Message) -> Event {
    Event::Heard {
        operation,
        text: message.content(),
    }
}

/// The words that were heard with the answer of a model.
fn heard_with(entry: &Entry) -> Vec<Event> {
    let Entry::Completed {
        op, kind, result, ..
    } = entry
    else {
        return Vec::new();
    };
    // Most answers come alone.
    if Family::of(kind) != Family::Model || !result.get().contains("\"steering\":[{") {
        return Vec::new();
    }
    let response = read_result::<ModelResponse>(result);
    let said = response.map(|response| response.steering);
    let said = said.unwrap_or_default();
    said.iter().map(|message| heard(*op, message)).collect()
}

fn ended(end: &RunEnd) -> Event {
    let spent: Spent = end.spent();
    let result = match end {
        RunEnd::Answered { answer, .. } => RunResult::Answered(answer.text.clone()),
        RunEnd::Stopped { reason, .. } => RunResult::Stopped(reason.clone()),
        RunEnd::Failed { error, .. } => RunResult::Failed(error.clone()),
        RunEnd::Continued { next, .. } => RunResult::Continued(*next),
    };
    Event::RunEnded { end: result, spent }
}
