//! The state of a run that has not ended.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use ghostlight_actors::vocabulary::{
    AskedBy, Begun, Effect, Entry, OperationId, RunId, RunStart, Timestamp, ToolCall,
    ToolDefinition,
};
use opentelemetry::{KeyValue, trace::Event};
use opentelemetry_sdk::trace::SpanEvents;

use crate::{
    content,
    conventions::{self as names, OTHER},
    definitions::Definition,
    tree::Measure,
    words,
};

/// The most events of one span. Later ones are counted.
const EVENTS: usize = 128;
/// The most calls of one run that are known as unanswered.
const CALLS: usize = 4_096;

#[derive(Debug)]
pub(super) struct RunSoFar {
    id: String,
    pub(super) team: String,
    pub(super) first_agent: String,
    /// The agent that carries it.
    agent: String,
    pub(super) parent: Option<RunId>,
    pub(super) definition: Definition,
    /// The caller's tools.
    tools: Vec<std::sync::Arc<ToolDefinition>>,
    pub(super) began: Timestamp,
    /// When the last entry was written.
    pub(super) last_at: Timestamp,
    /// How many entries at the front are copies.
    pub(super) copied: u64,
    /// The calls that models asked for and that have no result yet.
    calls: BTreeMap<AskedBy, Asked>,
    /// When those model calls began that wait for their provider.
    pub(super) waiting: BTreeMap<OperationId, Timestamp>,
    /// Attributes that say where the run comes from.
    pub(super) origin: Vec<KeyValue>,
    events: Vec<Event>,
    left_out: u32,
}

/// A call that a model asked for.
#[derive(Debug)]
pub(super) struct Asked {
    tool: String,
    pub(super) at: Timestamp,
    /// The operation by which it gave a task to an agent, and when that began.
    pub(super) delegation: Option<(OperationId, Timestamp)>,
}

impl RunSoFar {
    pub(super) fn new(
        id: RunId,
        start: &RunStart,
        definition: Definition,
        has_contents: bool,
    ) -> Self {
        let (parent, mut origin) = (start.parent.map(|(parent, _)| parent), Vec::new());
        if let Some(parent) = parent {
            origin.push(KeyValue::new(
                "ghostlight.parent.run.id",
                parent.to_string(),
            ));
        }
        if let Some(forked) = &start.forked {
            origin.push(KeyValue::new(
                "ghostlight.forked_from",
                forked.run.to_string(),
            ));
        }
        if has_contents {
            let said = content::message(&start.input, None);
            origin.push(KeyValue::new(names::INPUT_MESSAGES, said));
        }
        Self {
            id: id.to_string(),
            team: start.team.clone(),
            first_agent: start.agent.clone(),
            agent: start.agent.clone(),
            parent,
            definition,
            tools: start.tools.clone(),
            began: start.at,
            last_at: start.at,
            copied: start.forked.map_or(0, |forked| forked.copied),
            calls: BTreeMap::new(),
            waiting: BTreeMap::new(),
            origin,
            events: Vec::new(),
            left_out: 0,
        }
    }

    /// The agent of the first leg, or that it has a name which a model made up.
    pub(super) fn agent_label(&self) -> &str {
        match self.definition.is_made() {
            true => OTHER,
            false => &self.first_agent,
        }
    }

    /// The name of a tool that the team defines. Callers bring tools of any names along with their turns, which would
    /// make a metric's series without end.
    pub(super) fn tool_label<'a>(&self, name: &'a str) -> &'a str {
        match self.definition.tool(&self.agent, name) {
            Some(_) => name,
            None => OTHER,
        }
    }

    /// The attributes of all spans of the run.
    pub(super) fn attributes(
        &self,
        operation: &'static str,
        session: &Option<String>,
    ) -> Vec<KeyValue> {
        let mut attributes = vec![
            KeyValue::new(names::OPERATION_NAME, operation),
            KeyValue::new(names::AGENT_NAME, self.agent.clone()),
            KeyValue::new(names::TEAM, self.team.clone()),
            KeyValue::new(names::RUN_ID, self.id.clone()),
        ];
        if let Some(session) = session {
            attributes.push(KeyValue::new(names::CONVERSATION_ID, session.clone()));
        }
        attributes
    }

    /// The settings of the agent's model in its definition: sampling, and the bound on its answers.
    pub(super) fn request_attributes(&self, attributes: &mut Vec<KeyValue>) {
        let Some(settings) = self.definition.settings(&self.agent) else {
            return;
        };
        let floats = [
            (names::TEMPERATURE, settings.temperature),
            (names::TOP_P, settings.top_p),
        ];
        for (name, value) in floats {
            attributes.extend(value.map(|value| KeyValue::new(name, f64::from(value))));
        }
        let most = settings.max_tokens.map(i64::from);
        attributes.extend(most.map(|most| KeyValue::new(names::MAX_TOKENS, most)));
        attributes.extend(settings.seed.map(|seed| KeyValue::new(names::SEED, seed)));
    }

    /// The effect of a tool; `None` for a name that nobody defined.
    pub(super) fn effect(&self, tool: &str) -> Option<Effect> {
        let own = self.definition.tool(&self.agent, tool);
        let callers = || self.tools.iter().find(|known| known.name == tool);
        own.or_else(|| callers().map(|tool| tool.effect))
    }

    /// A model asked for these calls.
    pub(super) fn asked<'a>(
        &mut self,
        model: OperationId,
        calls: impl Iterator<Item = &'a ToolCall>,
        at: Timestamp,
    ) {
        let room = CALLS.saturating_sub(self.calls.len());
        self.calls
            .extend((0..).zip(calls.take(room)).map(|(index, call)| {
                let asked = Asked {
                    tool: call.name.clone(),
                    at,
                    delegation: None,
                };
                (AskedBy { model, index }, asked)
            }));
    }

    /// This operation began to give a task to an agent, for a call. Returns the operation that has the call's span: the
    /// first by which it gave a task. `None` for a call that has its result.
    pub(super) fn delegates(
        &mut self,
        call: Option<AskedBy>,
        op: OperationId,
        at: Timestamp,
    ) -> Option<OperationId> {
        let call = self.calls.get_mut(&call?)?;
        Some(call.delegation.get_or_insert((op, at)).0)
    }

    /// The call, which has its result.
    pub(super) fn answered(&mut self, call: Option<AskedBy>) -> Option<Asked> {
        self.calls.remove(&call?)
    }

    /// The tools by which tasks were given whose calls have no result.
    pub(super) fn unanswered(&mut self) -> Vec<(String, (OperationId, Timestamp))> {
        let calls = std::mem::take(&mut self.calls).into_values();
        let delegations = calls.filter_map(|call| Some((call.tool, call.delegation?)));
        delegations.collect()
    }

    /// Notes what happened to the run, as an event of its span.
    pub(super) fn note(&mut self, entry: &Entry, at: Timestamp) {
        let (name, attribute) = match entry {
            Entry::LegStarted { leg, agent, .. } => {
                self.agent.clone_from(agent);
                if *leg == 0 {
                    return;
                }
                (
                    "handed_over",
                    Some(KeyValue::new(names::AGENT_NAME, agent.clone())),
                )
            }
            Entry::Started {
                op,
                begun: Begun::Question(question),
                ..
            } => {
                let kind = words::word(&question.kind);
                let kind = KeyValue::new("ghostlight.question.kind", kind);
                return self.event("question_asked", at, vec![operation(*op), kind]);
            }
            Entry::Started {
                op,
                begun: Begun::Retry(retry),
                ..
            } => {
                self.waiting.insert(*op, retry.since);
                return;
            }
            Entry::Dropped { op, .. } => {
                self.waiting.remove(op);
                return;
            }
            Entry::Activated { .. } => ("resumed", None),
            Entry::Restarted { .. } => ("restarted", None),
            Entry::Parked { reason } => {
                let reason = words::of_error(reason);
                ("parked", Some(KeyValue::new(names::ERROR_TYPE, reason)))
            }
            Entry::Quarantined { op, .. } => ("message_quarantined", Some(operation(*op))),
            Entry::CancelRequested { .. } => ("cancelling", None),
            Entry::Drifted { op, .. } => ("drifted", Some(operation(*op))),
            Entry::BudgetWarned {
                resource, percent, ..
            } => {
                let resource = KeyValue::new("ghostlight.resource", words::word(resource));
                let percent = KeyValue::new("ghostlight.percent", i64::from(*percent));
                return self.event("budget_warning", at, vec![resource, percent]);
            }
            _ => return,
        };
        self.event(name, at, attribute.into_iter().collect());
    }

    /// The count of an entry that ends no span.
    pub(super) fn measure(&self, entry: &Entry) -> Option<Measure> {
        let (agent, team) = (self.agent_label().to_owned(), self.team.clone());
        match entry {
            Entry::Parked { reason } => Some(Measure::Parked {
                agent,
                team,
                error: words::of_error(reason),
            }),
            Entry::Restarted { .. } => Some(Measure::Restarted { agent, team }),
            _ => None,
        }
    }

    /// Notes that a question has its answer.
    pub(super) fn note_answer(&mut self, op: OperationId, at: Timestamp) {
        self.event("question_answered", at, vec![operation(op)]);
    }

    fn event(&mut self, name: &str, at: Timestamp, attributes: Vec<KeyValue>) {
        if self.events.len() >= EVENTS {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let name = format!("ghostlight.{name}");
        self.events.push(Event::new(name, time(at), attributes, 0));
    }

    /// The state of the run so far.
    pub(super) fn events(&mut self) -> SpanEvents {
        let mut events = SpanEvents::default();
        events.events = std::mem::take(&mut self.events);
        events.dropped_count = self.left_out;
        events
    }
}

fn operation(op: OperationId) -> KeyValue {
    KeyValue::new(names::OPERATION_ID, op.to_string())
}

/// A recorded time as the SDK has times.
pub(super) fn time(at: Timestamp) -> SystemTime {
    let since = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(at.0));
    since.unwrap_or(SystemTime::UNIX_EPOCH)
}
