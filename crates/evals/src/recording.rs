//! The record of a cell, as scorers see it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ghostlight_actors::{
    actor::{Run, SystemError},
    contract::{RunRow, RunStatus},
    vocabulary::{
        AgentError, AnsweredBy, Arguments, Event, EventRecord, RunId, RunResult, Spent, StopReason,
        Timestamp, ToolStatus,
    },
};
use tokio::time::sleep;

/// The pauses after which a run that goes on by itself is looked at again; each is twice as long as the one before.
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(5);

/// The record of a cell: the runs of all its turns, with all runs below them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recording {
    /// The runs of its turns, in their order.
    pub runs: Vec<RunId>,
    /// How the last of them ended; `None` while it has not.
    pub end: Option<End>,
    /// The tool calls of all agents, in the order of their results.
    pub calls: Vec<RecordedCall>,
    /// The tools whose call had begun and must not be repeated.
    pub once_tools: BTreeSet<String>,
    /// The steps of all agents: model calls with the tool calls that they ask for.
    pub steps: u64,
    /// Its usage.
    pub spent: Spent,
    /// The time from the start of each turn to its end, in milliseconds, waits included.
    pub latency_ms: u64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum End {
    /// With this answer.
    Answered(String),
    /// Before its task was done.
    Stopped(StopReason),
    /// With an error.
    Failed(AgentError),
}

/// A tool call that has a result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RecordedCall {
    /// The tool.
    pub tool: String,
    /// The arguments with which it was made, as the model wrote them; without secrets where they were changed on the way, or
    /// no model asked for the call.
    pub arguments: Arguments,
    /// How it ended.
    pub status: ToolStatus,
    /// The source of the result.
    pub by: AnsweredBy,
    /// The result as the model read it.
    pub result: String,
    /// The number of the cell's turn in which it was made, from 1.
    pub turn: usize,
}

impl RecordedCall {
    /// A call of this tool with these arguments, how it ended, and who gave its result.
    pub fn new(
        tool: impl Into<String>,
        arguments: Arguments,
        status: ToolStatus,
        by: AnsweredBy,
    ) -> Self {
        Self {
            tool: tool.into(),
            arguments,
            status,
            by,
            result: String::new(),
            turn: 1,
        }
    }

    /// Its arguments without secrets, for other models and for people.
    pub fn shown_arguments(&self) -> Arguments {
        redacted(&self.arguments)
    }

    /// Sets what the model read of the result.
    #[must_use]
    pub fn result(mut self, result: impl Into<String>) -> Self {
        self.result = result.into();
        self
    }
}

impl Recording {
    /// The answer, if the cell has one.
    pub fn answer(&self) -> Option<&str> {
        match &self.end {
            Some(End::Answered(text)) => Some(text),
            _ => None,
        }
    }

    /// Adds a turn, whose root is this run, with the recorded events of its tree.
    pub fn add_turn(&mut self, run: RunId, events: &[EventRecord]) {
        self.runs.push(run);
        self.end = None;
        let (mut current, mut started) = (run, None::<Timestamp>);
        let mut asked = BTreeMap::new();
        for record in events {
            match &record.event {
                Event::RunStarted { .. } if record.run == run => started = Some(record.at),
                Event::StepStarted { .. } => self.steps += 1,
                Event::ToolStarted { tool, .. } => drop(self.once_tools.insert(tool.clone())),
                Event::ModelCalled { tool_calls, .. } => {
                    let calls = tool_calls.iter();
                    asked.extend(calls.map(|call| ((record.run, &call.id), &call.arguments)));
                }
                Event::ToolCalled { result, call, .. } => {
                    let (arguments, by) = match call {
                        Some(report) => (report.arguments.clone(), report.by.clone()),
                        None => (Arguments::from_text(""), AnsweredBy::Engine),
                    };
                    let call = RecordedCall::new(&result.name, arguments, result.status, by);
                    let mut call = call.result(&result.text);
                    call.turn = self.runs.len();
                    // An event tells arguments without secrets, and what looks like one, such as a path or the number of an
                    // account, is what scorers compare.
                    if let Some(written) = asked.get(&(record.run, &result.call_id))
                        && **written != call.arguments
                        && redacted(written) == call.arguments
                    {
                        call.arguments = (*written).clone();
                    }
                    self.calls.push(call);
                }
                Event::RunEnded { end, spent } if record.run == current => {
                    if let RunResult::Continued(next) = end {
                        current = *next;
                        continue;
                    }
                    self.end_turn(end, *spent);
                    let since = started.unwrap_or(record.at);
                    let elapsed = record.at.0.saturating_sub(since.0);
                    self.latency_ms = self.latency_ms.saturating_add(elapsed);
                }
                _ => {}
            }
        }
    }

    fn end_turn(&mut self, end: &RunResult, spent: Spent) {
        self.end = match end {
            RunResult::Answered(text) => Some(End::Answered(text.clone())),
            RunResult::Stopped(reason) => Some(End::Stopped(reason.clone())),
            RunResult::Failed(error) => Some(End::Failed(error.clone())),
            _ => None,
        };
        self.spent.model_calls = self.spent.model_calls.saturating_add(spent.model_calls);
        self.spent.tool_calls = self.spent.tool_calls.saturating_add(spent.tool_calls);
        self.spent.usage += spent.usage;
    }
}

fn redacted(arguments: &Arguments) -> Arguments {
    ghostlight_safety::redact_arguments(arguments.text()).into()
}

/// Waits until a run has ended, is parked, asks somebody, or cannot go on by itself, and returns its row. A run whose model
/// is asked in a batch sleeps for hours meanwhile.
pub(crate) async fn at_rest(run: &Run) -> Result<RunRow, SystemError> {
    let mut pause = SHORTEST;
    loop {
        let row = run.wait().await?;
        let waits = row.status == RunStatus::Waiting;
        // An answer may be taken just after the row was read, and then no question is open.
        if !waits || !run.questions().await?.is_empty() || run.is_stalled().await? {
            return Ok(row);
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}

/// Reads what is recorded of a run that has ended, and of the runs below it.
pub(crate) async fn read_run(run: &Run, recording: &mut Recording) -> Result<(), SystemError> {
    let records = run.events().recorded().so_far().await?;
    recording.add_turn(run.id(), &records);
    Ok(())
}

/// The same for a run that may be open, or not be there; false where it has no end, and then nothing is added. The events
/// tell that by themselves, so the store is asked for nothing else.
pub(crate) async fn read_ended(run: &Run, recording: &mut Recording) -> Result<bool, SystemError> {
    let records = run.events().recorded().so_far().await?;
    let has_ended = has_end(run.id(), &records);
    if has_ended {
        recording.add_turn(run.id(), &records);
    }
    Ok(has_ended)
}

/// Whether these events of its tree hold the end of a run, or of the run that it went on in.
fn has_end(mut run: RunId, events: &[EventRecord]) -> bool {
    events.iter().any(|record| match &record.event {
        Event::RunEnded { end, .. } if record.run == run => match end {
            RunResult::Continued(next) => {
                run = *next;
                false
            }
            _ => true,
        },
        _ => false,
    })
}
