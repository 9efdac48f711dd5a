//! From recorded events to the news of a run.

use ghostlight_actors::vocabulary::{
    Event, EventRecord, RunId, RunResult, SessionId, StopReason, Timestamp,
};
use serde_json::{Value, json};

use crate::served::RunNews;

/// The most bytes of a text in a message.
const MAX_TEXT: usize = 256 << 10;

/// Reads the events of a run, in order, and makes news of them.
#[derive(Debug)]
pub(super) struct NewsReader {
    run: RunId,
    session: Option<SessionId>,
    /// The run that carries it now, since a run may continue in another journal.
    root: RunId,
}

impl NewsReader {
    pub(super) fn new(run: RunId, session: Option<SessionId>) -> Self {
        Self {
            run,
            session,
            root: run,
        }
    }

    /// The news of an event, with the message about it.
    pub(super) fn read(&mut self, record: &EventRecord) -> Option<(RunNews, Value)> {
        let is_root = record.run == self.root;
        let (news, told) = match &record.event {
            Event::RunStarted { input, .. } if record.run == self.run => {
                (RunNews::Started, json!({ "input": cut(input) }))
            }
            Event::QuestionAsked {
                operation,
                question,
            } => {
                let question =
                    json!({ "run": record.run, "operation": operation, "question": question });
                (RunNews::Waiting, question)
            }
            Event::Parked { reason } if is_root => (
                RunNews::Parked,
                json!({ "error": cut(&reason.to_string()) }),
            ),
            Event::RunEnded { end, .. } if is_root => match end {
                RunResult::Continued(next) => {
                    self.root = *next;
                    return None;
                }
                RunResult::Answered(text) => (RunNews::Completed, json!({ "answer": cut(text) })),
                RunResult::Stopped(StopReason::Cancelled(reason)) => {
                    (RunNews::Cancelled, json!({ "stopped": cut(reason) }))
                }
                RunResult::Stopped(reason) => (
                    RunNews::Failed,
                    json!({ "stopped": cut(&reason.to_string()) }),
                ),
                RunResult::Failed(error) => {
                    (RunNews::Failed, json!({ "error": cut(&error.to_string()) }))
                }
                _ => return None,
            },
            _ => return None,
        };
        Some((news, self.message(news, record, told)))
    }

    fn message(&self, news: RunNews, record: &EventRecord, mut told: Value) -> Value {
        // The run that asks may be one below.
        if news != RunNews::Waiting {
            told["run"] = json!(self.run);
        }
        told["root"] = json!(self.run);
        told["session"] = json!(self.session);
        told["agent"] = json!(record.path.last());
        json!({ "type": format!("run.{}", news.as_str()), "timestamp": time_of(record.at), "data": told })
    }
}

/// A point in time as RFC 3339 has it.
fn time_of(at: Timestamp) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(i64::try_from(at.0).ok()?);
    Some(time.ok()?.to_string())
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}
