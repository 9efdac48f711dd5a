//! Events in words.
//!
//! Architecture invariant: the lines are a pure function of the events, so the live display and the
//! later display of the journal cannot differ.

use std::collections::HashSet;

use ghostlight_actors::{
    definition::{DELEGATE_PREFIX, TRANSFER_PREFIX},
    vocabulary::{
        AnsweredBy, Arguments, ErrorKind, Event, EventRecord, RunId, RunResult, Spent, ToolCall,
        ToolResult, ToolStatus, Usage,
    },
};
use ghostlight_safety::Redaction;
use serde_json::Value;

use super::{
    asking::{Asked, Fold},
    decisions, plain_text,
};

/// The most characters of an argument that are shown.
const SHOWN: usize = 600;

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// The progress that a person wants to follow.
    Progress,
    /// Every event.
    Everything,
}

impl Detail {
    /// The most characters of a text that are shown.
    fn limit(self) -> usize {
        match self {
            Self::Progress => 160,
            Self::Everything => 600,
        }
    }
}

/// The kind of a line, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// An agent is given a task, or says something.
    Plain,
    /// Tools and the engine at work.
    Quiet,
    /// A person is needed.
    Question,
    /// Something went wrong.
    Alarm,
    /// Something succeeded.
    Good,
}

/// One line about one event. No character in it acts on a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimelineLine {
    /// How deep the agent stands in the tree, from 0.
    pub(super) depth: usize,
    /// The agent.
    pub(super) agent: String,
    /// The kind of the line.
    pub(super) tone: Tone,
    /// The event; the text reads on from the agent's name.
    pub(super) text: String,
}

impl TimelineLine {
    /// The line with the agents' names in a column of this width.
    pub(super) fn padded(&self, width: usize) -> (String, &str) {
        let name = format!("{}{}", "  ".repeat(self.depth), self.agent);
        (format!("{name:width$}"), &self.text)
    }
}

/// Turns events into lines. It remembers which runs have begun their first leg.
#[derive(Debug)]
pub(super) struct Timeline {
    detail: Detail,
    begun: HashSet<RunId>,
}

impl Timeline {
    pub(super) fn new(detail: Detail) -> Self {
        Self {
            detail,
            begun: HashSet::new(),
        }
    }

    /// The lines of an event; none for an event that is not shown.
    pub(super) fn lines(&mut self, record: &EventRecord) -> Vec<TimelineLine> {
        let told = self.tell(record);
        let line = |(tone, text): (Tone, String)| TimelineLine {
            depth: record.path.len().saturating_sub(1),
            agent: plain_text::line(record.author(), 64),
            tone,
            text,
        };
        told.into_iter().map(line).collect()
    }

    fn short(&self, text: &str) -> String {
        plain_text::line(text, self.detail.limit())
    }

    fn everything(&self, text: impl FnOnce() -> String) -> Vec<(Tone, String)> {
        match self.detail {
            Detail::Everything => vec![(Tone::Quiet, text())],
            Detail::Progress => Vec::new(),
        }
    }

    fn tell(&mut self, record: &EventRecord) -> Vec<(Tone, String)> {
        let one = |tone: Tone, text: String| vec![(tone, text)];
        match &record.event {
            Event::RunStarted { input, parent, .. } => {
                let by = match (parent, record.path.iter().rev().nth(1)) {
                    (Some(_), Some(above)) => format!(" by {}", plain_text::line(above, 64)),
                    _ => String::new(),
                };
                one(Tone::Plain, format!("is asked{by}: {}", self.short(input)))
            }
            Event::LegStarted { request, .. } => self.leg(record.run, request.as_deref()),
            Event::ModelCalled { .. } => self.model_called(&record.event),
            Event::StepStarted { step, .. } => self.everything(|| format!("begins step {step}")),
            // An answer without calls ends its step; that needs no line.
            Event::StepEnded { calls: 0, .. } => Vec::new(),
            Event::StepEnded {
                step,
                calls,
                answered,
                ..
            } => self
                .everything(|| format!("ends step {step}, {answered} of {calls} calls answered")),
            Event::OperationFailed {
                operation,
                kind,
                name,
                error,
            } => {
                let what = self.short(&format!("{kind} {name}"));
                // A tool that lets time pass or asks another agent ends its first part so.
                if error.kind() == Some(&ErrorKind::Continues) {
                    return self.everything(|| format!("{what} waits ({operation})"));
                }
                let error = self.short(&error.to_string());
                one(Tone::Alarm, format!("{what} failed ({operation}): {error}"))
            }
            Event::ToolStarted { operation, tool } => {
                self.everything(|| format!("begins {} ({operation})", self.short(tool)))
            }
            // The operation of such a call has a line, or the end of its run.
            Event::ToolCalled {
                result,
                call: Some(call),
                ..
            } if result.status == ToolStatus::Interrupted && call.by == AnsweredBy::Engine => {
                self.everything(|| self.called(result))
            }
            Event::ToolCalled { result, .. } => one(self.tone(result), self.called(result)),
            Event::Delegated {
                operation,
                agent,
                run,
            } => self.everything(|| {
                let agent = self.short(agent);
                format!("gives a task to {agent} ({operation}, run {})", run.short())
            }),
            Event::DelegationEnded { agent, text, .. } => {
                self.everything(|| format!("got from {}: {}", self.short(agent), self.short(text)))
            }
            Event::QuestionAsked {
                operation,
                question,
            } => {
                let mut asked = Asked::of(question, Fold::Long).lines;
                if let Some(first) = asked.first_mut() {
                    *first = format!("asks ({operation}): {first}");
                }
                let told = asked.into_iter().map(|line| (Tone::Question, line));
                told.collect()
            }
            Event::QuestionAnswered { answer, .. } => one(
                Tone::Plain,
                format!("was answered: {}", self.short(&in_words(answer))),
            ),
            Event::Heard { text, .. } => one(Tone::Plain, format!("hears: {}", self.short(text))),
            other => self.tell_of_the_run(other),
        }
    }

    fn tell_of_the_run(&self, event: &Event) -> Vec<(Tone, String)> {
        let one = |tone: Tone, text: String| vec![(tone, text)];
        match event {
            Event::Changed { .. } => self.everything(|| self.short(&event.to_string())),
            Event::OperationCompleted {
                operation,
                kind,
                name,
            } => self.everything(|| {
                let what = self.short(&format!("{kind} {name}"));
                format!("{} is done ({operation})", what.trim_end())
            }),
            Event::OperationDropped { operation } => {
                self.everything(|| format!("dropped {operation}"))
            }
            Event::Custom { name, data } => {
                if let Some((tone, text)) = decisions::in_words(name, data) {
                    // Success is of interest only when everything is shown.
                    let is_told = self.detail == Detail::Everything || name != "answer_accepted";
                    return is_told
                        .then(|| (tone, self.short(&text)))
                        .into_iter()
                        .collect();
                }
                let (name, data) = (self.short(name), self.short(&in_words(data)));
                one(Tone::Quiet, format!("tells {name}: {data}"))
            }
            Event::Drifted { operation } => one(
                Tone::Quiet,
                format!("the model request of {operation} differs from the recorded one"),
            ),
            Event::Resumed { epoch } => one(
                Tone::Quiet,
                format!("continues where it was (epoch {epoch})"),
            ),
            Event::Restarted { reason } => {
                one(Tone::Alarm, format!("is restarted: {}", self.short(reason)))
            }
            Event::Parked { reason } => one(
                Tone::Alarm,
                format!("is parked: {}", self.short(&reason.to_string())),
            ),
            Event::Cancelling { reason } => one(
                Tone::Alarm,
                format!("is being cancelled: {}", self.short(reason)),
            ),
            Event::BudgetWarning { .. } => one(Tone::Alarm, event.to_string()),
            Event::RunEnded { end, spent } => self.ended(end, spent),
            Event::Unknown(unknown) => self.everything(|| {
                let (name, data) = (self.short(&unknown.name), in_words(&unknown.data));
                format!("{name}: {}", self.short(&data))
            }),
            // Previews have their own display while they last.
            _ => Vec::new(),
        }
    }

    /// The first leg of a run is its beginning, and is described so.
    fn leg(&mut self, run: RunId, request: Option<&str>) -> Vec<(Tone, String)> {
        let first = self.begun.insert(run);
        match request {
            Some(request) => {
                vec![(Tone::Plain, format!("takes over: {}", self.short(request)))]
            }
            None if first => self.everything(|| String::from("begins")),
            None => vec![(Tone::Plain, String::from("takes over"))],
        }
    }

    fn model_called(&self, event: &Event) -> Vec<(Tone, String)> {
        let Event::ModelCalled {
            operation,
            model,
            text,
            reasoning,
            tool_calls,
            sources,
            usage,
            attempts,
            latency_ms,
            ..
        } = event
        else {
            return Vec::new();
        };
        let mut told = Vec::new();
        told.extend(self.everything(|| {
            let attempts = match attempts {
                1 => String::new(),
                more => format!(", {more} attempts"),
            };
            format!(
                "model {} answered in {latency_ms} ms{attempts}, {} + {} tokens{} ({operation})",
                self.short(model),
                usage.input_tokens,
                usage.output_tokens,
                estimated(usage)
            )
        }));
        if !reasoning.trim().is_empty() {
            told.extend(self.everything(|| format!("thinks: {}", self.short(reasoning))));
        }
        if !text.trim().is_empty() {
            told.push((Tone::Plain, format!("says: {}", self.short(text))));
        }
        if !sources.is_empty() {
            let sources = sources.join(" ");
            told.push((Tone::Quiet, format!("cites {}", self.short(&sources))));
        }
        // An agent that takes over a task or the conversation has its own event.
        let of_agents = |call: &&ToolCall| {
            call.name.starts_with(TRANSFER_PREFIX) || call.name.starts_with(DELEGATE_PREFIX)
        };
        let everything = self.detail == Detail::Everything;
        let calls = tool_calls
            .iter()
            .filter(|call| everything || !of_agents(call));
        told.extend(calls.map(|call| {
            (
                Tone::Quiet,
                format!("calls {}", self.short(&say_call(call))),
            )
        }));
        told
    }

    fn tone(&self, result: &ToolResult) -> Tone {
        match result.status {
            ToolStatus::Success => Tone::Quiet,
            _ => Tone::Alarm,
        }
    }

    fn called(&self, result: &ToolResult) -> String {
        let verb = match result.status {
            ToolStatus::Success => "gave",
            ToolStatus::Error => "failed",
            ToolStatus::Denied => "was refused",
            ToolStatus::Blocked => "was held back",
            ToolStatus::Interrupted => "was interrupted",
            _ => "may or may not have happened",
        };
        let cut = match result.truncated {
            0 => String::new(),
            cut => format!(" ({cut} characters cut off)"),
        };
        let (name, text) = (self.short(&result.name), self.short(&result.text));
        format!("{name} {verb}: {text}{cut}")
    }

    fn ended(&self, end: &RunResult, spent: &Spent) -> Vec<(Tone, String)> {
        let spent = say_spent(spent);
        let (tone, text) = match end {
            RunResult::Answered(_) => (Tone::Good, format!("answered ({spent})")),
            RunResult::Stopped(reason) => {
                let reason = self.short(&reason.to_string());
                (Tone::Alarm, format!("stopped: {reason} ({spent})"))
            }
            RunResult::Failed(error) => {
                let error = self.short(&error.to_string());
                (Tone::Alarm, format!("failed: {error} ({spent})"))
            }
            RunResult::Continued(next) => (
                Tone::Quiet,
                format!("continues in run {} ({spent})", next.short()),
            ),
            _ => (Tone::Plain, format!("ended ({spent})")),
        };
        vec![(tone, text)]
    }
}

/// A call as it would be written in code: `add(a: 1, b: "two")`.
pub(super) fn say_call(call: &ToolCall) -> String {
    format!("{}({})", call.name, say_arguments(&call.arguments))
}

/// Arguments without their secrets, since terminals are logged and read over shoulders.
fn say_arguments(arguments: &Arguments) -> String {
    let redaction = Redaction::default().texts(SHOWN).show_paths();
    match arguments.value().map(|value| redaction.value(value)) {
        Ok(Value::Object(fields)) => {
            let fields = fields
                .iter()
                .map(|(name, value)| format!("{name}: {value}"));
            fields.collect::<Vec<_>>().join(", ")
        }
        _ => ghostlight_safety::redact_text(arguments.text()).into_owned(),
    }
}

/// A value for people: a text without quotation marks, and without secrets.
fn in_words(value: &Value) -> String {
    match &ghostlight_safety::redact_json(value) {
        Value::String(text) => text.clone(),
        Value::Bool(true) => String::from("yes"),
        Value::Bool(false) => String::from("no"),
        other => other.to_string(),
    }
}

/// The usage, in words.
pub(super) fn say_spent(spent: &Spent) -> String {
    let count = |number: u64, one: &str| match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {one}s"),
    };
    let mut parts = vec![count(spent.model_calls, "model call")];
    if spent.tool_calls > 0 {
        parts.push(count(spent.tool_calls, "tool call"));
    }
    let tokens = count(spent.usage.total_tokens(), "token");
    parts.push(format!("{tokens}{}", estimated(&spent.usage)));
    if spent.usage.cost_micros > 0 {
        // The currency is that of the prices in the team file, so none is named.
        parts.push(format!("cost {:.4}", spent.usage.cost_micros as f64 / 1e6));
    }
    parts.join(", ")
}

/// A mark for token counts that the provider did not report.
fn estimated(usage: &Usage) -> &'static str {
    match usage.estimated_tokens {
        0 => "",
        _ => " (estimated)",
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
