//! Makes spans of the entries of one tree of runs.

mod run;
mod work;

use std::collections::HashMap;

use ghostlight_actors::{
    contract::{StoreError, TreeLine},
    vocabulary::{
        AskedBy, Begun, CallReport, Entry, ErrorKind, Family, ModelResponse, OperationError,
        OperationId, RunEnd, RunId, RunStart, Timestamp, ToolResult, Usage,
    },
};
use opentelemetry::{
    KeyValue, StringValue, Value,
    trace::{SpanId, SpanKind, Status, TraceId},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use serde::de::DeserializeOwned;

use self::run::{Asked, RunSoFar, time};
pub(crate) use self::work::Work;
use crate::{
    content,
    conventions::{self as names, OTHER},
    definitions::{Definitions, ModelName},
    ids, words,
};

/// The most characters of an id that a model's server gave.
const ID_CHARACTERS: usize = 128;

/// A span whose end is recorded, with its count for metrics. A count of something that has no end comes without a span.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    pub(crate) span: Option<SpanData>,
    pub(crate) measure: Measure,
}

/// A count for metrics.
#[derive(Clone, Debug)]
pub(crate) enum Measure {
    Chat {
        model: ModelName,
        seconds: f64,
        error: Option<String>,
        /// The use of an answer; `None` without one.
        answered: Option<Answered>,
    },
    Tool {
        /// As a team defines it, or `_OTHER`.
        name: String,
        seconds: f64,
        error: Option<String>,
    },
    Run {
        agent: String,
        team: String,
        is_workflow: bool,
        seconds: f64,
        end: &'static str,
        error: Option<String>,
    },
    Parked {
        agent: String,
        team: String,
        error: String,
    },
    Restarted {
        agent: String,
        team: String,
    },
    Work {
        work: Work,
        seconds: f64,
        error: Option<String>,
    },
}

/// The use and the attempts of a model's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) usage: Usage,
    pub(crate) attempts: u32,
}

/// Reads a tree from its first entry on. It holds what is known of the runs that have not ended.
#[derive(Debug)]
pub(crate) struct TreeReader {
    root: RunId,
    trace: TraceId,
    session: Option<String>,
    has_contents: bool,
    runs: HashMap<RunId, RunSoFar>,
    /// The spans below which child runs stand.
    above: HashMap<RunId, SpanId>,
    is_over: bool,
}

/// A span that is about to be finished.
struct Ended {
    id: SpanId,
    parent: SpanId,
    name: String,
    kind: SpanKind,
    times: (Timestamp, Timestamp),
    attributes: Vec<KeyValue>,
    events: SpanEvents,
    error: Option<String>,
    /// The errors, for those who opt in to contents.
    description: String,
}

impl TreeReader {
    pub(crate) fn new(root: RunId, has_contents: bool) -> Self {
        Self {
            root,
            trace: ids::trace_of(root),
            session: None,
            has_contents,
            runs: HashMap::new(),
            above: HashMap::new(),
            is_over: false,
        }
    }

    /// Whether the last entry of the root was read.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The spans that end with an entry.
    pub(crate) async fn read(
        &mut self,
        line: &TreeLine,
        definitions: &mut Definitions,
    ) -> Result<Vec<Finished>, StoreError> {
        let entry = line.stored.decode(&line.run.into())?;
        let at = line.stored.line.at;
        if let Entry::RunStarted(start) = entry {
            self.begin(line.run, start, definitions).await?;
            return Ok(Vec::new());
        }
        let Some(mut run) = self.runs.remove(&line.run) else {
            return Ok(Vec::new());
        };
        // A fork begins with copies of what another run did.
        let is_copy = line.stored.sequence < run.copied;
        let finished = match entry {
            Entry::RunEnded(_) if is_copy => return Ok(Vec::new()),
            Entry::RunEnded(end) => {
                self.is_over |= line.run == self.root;
                return Ok(self.end(line.run, run, &end, at));
            }
            entry => self.entry(line.run, &mut run, entry, at, is_copy),
        };
        run.last_at = at;
        self.runs.insert(line.run, run);
        Ok(if is_copy { Vec::new() } else { finished })
    }

    async fn begin(
        &mut self,
        id: RunId,
        start: Box<RunStart>,
        definitions: &mut Definitions,
    ) -> Result<(), StoreError> {
        let definition = definitions.get(start.definition).await?;
        if id == self.root {
            self.session = start.session.as_ref().map(ToString::to_string);
        }
        let run = RunSoFar::new(id, &start, definition, self.has_contents);
        self.runs.insert(id, run);
        Ok(())
    }

    fn entry(
        &mut self,
        id: RunId,
        run: &mut RunSoFar,
        entry: Entry,
        at: Timestamp,
        is_copy: bool,
    ) -> Vec<Finished> {
        match entry {
            Entry::Started {
                op,
                kind,
                begun: Begun::Child(child),
                asked_by,
                ..
            } if Family::of(&kind).has_child() => {
                // A child that a model asked for stands below the call, and any other below the run.
                let place = run.delegates(asked_by, op, at);
                let above = place.map(|place| ids::span_of_operation(id, place));
                let above = above.unwrap_or_else(|| ids::span_of_run(id));
                self.above.insert(child, above);
                Vec::new()
            }
            Entry::Completed {
                op,
                kind,
                name,
                result,
                call,
                asked_by,
                ..
            } => match Family::of(&kind) {
                Family::Model => {
                    let result = recorded(result.get());
                    result.map(|result| self.chat(id, run, (op, &name), result, at))
                }
                Family::Tool => {
                    let (of, call) = ((op, &*name, asked_by), call.as_deref());
                    let result = recorded(result.get());
                    result.map(|result| self.tool(id, run, of, result, call, at))
                }
                Family::Ask => {
                    run.note_answer(op, at);
                    None
                }
                _ => self.work(id, run, (op, &kind, &name), result.get(), at),
            }
            .into_iter()
            .collect(),
            Entry::CallAnswered {
                op,
                result,
                call,
                asked_by,
            } => {
                let asked = run.answered(asked_by);
                vec![self.answered(id, run, (op, asked), &result, &call, at)]
            }
            _ if is_copy => Vec::new(),
            entry => {
                run.note(&entry, at);
                let measure = run.measure(&entry).into_iter();
                let counted = measure.map(|measure| Finished {
                    span: None,
                    measure,
                });
                counted.collect()
            }
        }
    }

    fn chat(
        &self,
        id: RunId,
        run: &mut RunSoFar,
        (op, registered): (OperationId, &str),
        result: Result<ModelResponse, OperationError>,
        at: Timestamp,
    ) -> Finished {
        let model = run.definition.model(registered);
        let mut attributes = run.attributes(names::CHAT, &self.session);
        attributes.push(KeyValue::new(names::OPERATION_ID, op.to_string()));
        attributes.push(KeyValue::new(names::PROVIDER_NAME, model.provider.clone()));
        attributes.push(KeyValue::new(names::REQUEST_MODEL, model.model.clone()));
        run.request_attributes(&mut attributes);
        let (mut error, mut description, mut answered) = (None, String::new(), None);
        // Of a failed call that never waited it is not recorded when it began: not before the entry that precedes its own.
        let mut began = run.waiting.remove(&op).unwrap_or(run.last_at);
        match result {
            Ok(response) => {
                began = Timestamp(at.0.saturating_sub(response.latency_ms));
                response_attributes(&mut attributes, &response);
                if self.has_contents {
                    let said = content::message(&response.message, Some(&response.finish));
                    attributes.push(KeyValue::new(names::OUTPUT_MESSAGES, said));
                }
                answered = Some(Answered {
                    usage: response.usage,
                    attempts: response.attempts,
                });
                run.asked(op, response.message.tool_calls(), at);
            }
            Err(failed) => {
                if let Some(status) = failed.status {
                    let status = i64::from(status);
                    attributes.push(KeyValue::new("http.response.status_code", status));
                }
                error = Some(words::of_kind(&failed.kind));
                description = failed.message;
            }
        }
        let measure = Measure::Chat {
            seconds: seconds(began, at),
            error: error.clone(),
            answered,
            model: model.clone(),
        };
        let ended = Ended {
            id: ids::span_of_operation(id, op),
            parent: ids::span_of_run(id),
            name: format!("{} {}", names::CHAT, model.model),
            kind: SpanKind::Client,
            times: (began, at),
            attributes,
            events: SpanEvents::default(),
            error,
            description,
        };
        self.finished(ended, measure)
    }

    /// The call of a tool, as its operation records it.
    fn tool(
        &self,
        id: RunId,
        run: &mut RunSoFar,
        (op, name, asked_by): (OperationId, &str, Option<AskedBy>),
        result: Result<ToolResult, OperationError>,
        call: Option<&CallReport>,
        at: Timestamp,
    ) -> Finished {
        let latency = call.map_or(0, |call| call.latency_ms);
        let times = (Timestamp(at.0.saturating_sub(latency)), at);
        let place = ids::span_of_operation(id, op);
        let result = match result {
            Ok(result) => {
                run.answered(asked_by);
                result
            }
            Err(error) => {
                let (kind, text) = (words::of_kind(&error.kind), error.message);
                return self.call(
                    id,
                    run,
                    (place, op, name),
                    None,
                    call,
                    times,
                    Some((kind, text)),
                );
            }
        };
        let error = words::of_status(result.status).map(|kind| (kind, String::new()));
        self.call(
            id,
            run,
            (place, op, name),
            Some(&result),
            call,
            times,
            error,
        )
    }

    /// A call that was answered without an operation of a tool. One that delegated has the span below which its
    /// child runs stand.
    fn answered(
        &self,
        id: RunId,
        run: &RunSoFar,
        (op, asked): (OperationId, Option<Asked>),
        result: &ToolResult,
        call: &CallReport,
        at: Timestamp,
    ) -> Finished {
        let delegation = asked.as_ref().and_then(|asked| asked.delegation);
        let began = match (&asked, delegation) {
            (_, Some((_, began))) => began,
            (Some(asked), None) => asked.at,
            (None, None) => at,
        };
        let place = delegation.map_or(op, |(op, _)| op);
        let place = ids::span_of_operation(id, place);
        let error = words::of_status(result.status).map(|kind| (kind, String::new()));
        let name = &*result.name;
        self.call(
            id,
            run,
            (place, op, name),
            Some(result),
            Some(call),
            (began, at),
            error,
        )
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one span, from two kinds of entries"
    )]
    fn call(
        &self,
        id: RunId,
        run: &RunSoFar,
        (place, op, name): (SpanId, OperationId, &str),
        result: Option<&ToolResult>,
        call: Option<&CallReport>,
        times: (Timestamp, Timestamp),
        error: Option<(String, String)>,
    ) -> Finished {
        // A model may ask for what there is not.
        let effect = run.effect(name);
        let name = if effect.is_some() { name } else { OTHER };
        let mut attributes = run.attributes(names::EXECUTE_TOOL, &self.session);
        attributes.push(KeyValue::new(names::OPERATION_ID, op.to_string()));
        attributes.push(KeyValue::new(names::TOOL_NAME, name.to_owned()));
        attributes.push(KeyValue::new(names::TOOL_TYPE, "function"));
        if let Some(effect) = effect {
            attributes.push(KeyValue::new(names::TOOL_EFFECT, words::word(&effect)));
        }
        if let Some(result) = result {
            let id: String = result.call_id.chars().take(ID_CHARACTERS).collect();
            attributes.push(KeyValue::new(names::TOOL_CALL_ID, id));
            attributes.push(KeyValue::new(
                names::TOOL_STATUS,
                words::word(&result.status),
            ));
            if self.has_contents {
                attributes.push(KeyValue::new(
                    names::TOOL_RESULT,
                    content::text(&result.text),
                ));
            }
        }
        if let Some(call) = call {
            // The sort of source, without its name: that may be a person's.
            attributes.push(KeyValue::new(names::ANSWERED_BY, words::word(&call.by)));
            attributes.push(KeyValue::new(names::ATTEMPTS, i64::from(call.attempts)));
            if let Some(approval) = &call.approval {
                let decision = words::word(&approval.decision);
                attributes.push(KeyValue::new(names::APPROVAL, decision));
            }
            if self.has_contents {
                let arguments = content::arguments(&call.arguments);
                attributes.push(KeyValue::new(names::TOOL_ARGUMENTS, arguments));
            }
        }
        let (error, description) = error.unzip();
        let measure = Measure::Tool {
            name: run.tool_label(name).to_owned(),
            seconds: seconds(times.0, times.1),
            error: error.clone(),
        };
        let ended = Ended {
            id: place,
            parent: ids::span_of_run(id),
            name: format!("{} {name}", names::EXECUTE_TOOL),
            kind: SpanKind::Internal,
            times,
            attributes,
            events: SpanEvents::default(),
            error,
            description: description.unwrap_or_default(),
        };
        self.finished(ended, measure)
    }

    /// The span of a run, and those of delegations that its end cuts off.
    fn end(&mut self, id: RunId, mut run: RunSoFar, end: &RunEnd, at: Timestamp) -> Vec<Finished> {
        let mut finished = Vec::new();
        for (call, (op, began)) in run.unanswered() {
            let place = ids::span_of_operation(id, op);
            let error = (words::of_kind(&ErrorKind::Cancelled), String::new());
            let place = (place, op, &*call);
            finished.push(self.call(id, &run, place, None, None, (began, at), Some(error)));
        }
        let (word, error) = words::of_end(end);
        let is_workflow = run.definition.is_workflow(&run.first_agent);
        let operation = if is_workflow {
            names::INVOKE_WORKFLOW
        } else {
            names::INVOKE_AGENT
        };
        let mut attributes = run.attributes(operation, &self.session);
        if is_workflow {
            let name = run.first_agent.clone();
            attributes.push(KeyValue::new(names::WORKFLOW_NAME, name));
        }
        attributes.push(KeyValue::new(names::RUN_END, word));
        attributes.append(&mut run.origin);
        let usage = end.spent().usage;
        usage_attributes(&mut attributes, &usage);
        let mut description = String::new();
        match end {
            RunEnd::Answered { answer, .. } if self.has_contents => {
                let said = content::answer(&answer.text);
                attributes.push(KeyValue::new(names::OUTPUT_MESSAGES, said));
            }
            RunEnd::Failed { error, .. } => description = error.to_string(),
            RunEnd::Stopped { reason, .. } => description = reason.to_string(),
            RunEnd::Continued { next, .. } => {
                // What continues a child stands where the child stood.
                if let Some(above) = self.above.get(&id).copied() {
                    self.above.insert(*next, above);
                }
                attributes.push(KeyValue::new("ghostlight.continued_by", next.to_string()));
            }
            _ => {}
        }
        let agent = run.agent_label();
        let parent = match (self.above.remove(&id), run.parent) {
            _ if id == self.root => SpanId::INVALID,
            (Some(above), _) => above,
            (None, Some(parent)) => ids::span_of_run(parent),
            (None, None) => SpanId::INVALID,
        };
        let measure = Measure::Run {
            agent: agent.to_owned(),
            team: run.team.clone(),
            is_workflow,
            seconds: seconds(run.began, at),
            end: word,
            error: error.clone(),
        };
        let ended = Ended {
            id: ids::span_of_run(id),
            parent,
            name: format!("{operation} {agent}"),
            kind: SpanKind::Internal,
            times: (run.began, at),
            attributes,
            events: run.events(),
            error,
            description,
        };
        finished.push(self.finished(ended, measure));
        finished
    }

    fn finished(&self, ended: Ended, measure: Measure) -> Finished {
        let mut attributes = ended.attributes;
        let status = match &ended.error {
            None => Status::Unset,
            Some(error) => {
                attributes.push(KeyValue::new(names::ERROR_TYPE, error.clone()));
                Status::error(match self.has_contents {
                    true => content::text(&ended.description),
                    false => String::new(),
                })
            }
        };
        let span = SpanData {
            span_context: ids::context(self.trace, ended.id),
            parent_span_id: ended.parent,
            parent_span_is_remote: false,
            span_kind: ended.kind,
            name: ended.name.into(),
            start_time: time(ended.times.0),
            end_time: time(ended.times.1.max(ended.times.0)),
            attributes,
            dropped_attributes_count: 0,
            events: ended.events,
            links: SpanLinks::default(),
            status,
            instrumentation_scope: crate::telemetry::scope(),
        };
        Finished {
            span: Some(span),
            measure,
        }
    }
}

fn response_attributes(attributes: &mut Vec<KeyValue>, response: &ModelResponse) {
    if !response.model.is_empty() {
        let model: String = response.model.chars().take(ID_CHARACTERS).collect();
        attributes.push(KeyValue::new(names::RESPONSE_MODEL, model));
    }
    let finish = StringValue::from(words::word(&response.finish));
    attributes.push(KeyValue::new(
        names::FINISH_REASONS,
        Value::Array(vec![finish].into()),
    ));
    attributes.push(KeyValue::new(names::ATTEMPTS, i64::from(response.attempts)));
    usage_attributes(attributes, &response.usage);
}

fn usage_attributes(attributes: &mut Vec<KeyValue>, usage: &Usage) {
    let mut push = |name, tokens: u64| {
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        attributes.push(KeyValue::new(name, tokens));
    };
    push(names::INPUT_TOKENS, usage.input_tokens);
    push(names::OUTPUT_TOKENS, usage.output_tokens);
    let seldom = [
        (names::CACHE_READ_TOKENS, usage.cached_tokens),
        (names::REASONING_TOKENS, usage.reasoning_tokens),
        (names::COST_MICROS, usage.cost_micros),
        (names::ESTIMATED_TOKENS, usage.estimated_tokens),
    ];
    for (name, count) in seldom.into_iter().filter(|(_, count)| *count > 0) {
        push(name, count);
    }
}

fn seconds(began: Timestamp, ended: Timestamp) -> f64 {
    ended.since(began).as_secs_f64()
}

/// The recorded end of an operation. `None` for a record of another form, which has no span.
fn recorded<T: DeserializeOwned>(result: &str) -> Option<Result<T, OperationError>> {
    serde_json::from_str(result).ok()
}
