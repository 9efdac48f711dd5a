//! The tool by which a model asks people.

use serde_json::Value;

use super::ask::Ask;
use crate::{
    definition::CLARIFY,
    run::{RunContext, recorded_result::as_result},
    vocabulary::{
        AgentError, ErrorKind, Part, Question, ToolCall, ToolResult, ToolStatus, as_text,
    },
};

/// How many characters of a question or an option are shown to a person.
const SHOWN: usize = 1000;
/// The most options of a question.
const OPTIONS: usize = 20;

impl RunContext {
    /// Puts the model's question to a person, if it may still ask one.
    pub(super) fn clarify_call(
        &self,
        call: ToolCall,
    ) -> impl Future<Output = Result<ToolResult, AgentError>> + Send + 'static {
        let spec = self.spec().clarify.unwrap_or_default();
        let used_up = self.used_before(CLARIFY) >= spec.questions;
        let question = question(&call);
        let ask = question.map(|question| {
            let mut ask = Ask::about(question, &call, "clarify");
            if let Some(time) = spec.expires {
                ask = ask.expires_after(time, Value::Null);
            }
            self.perform(ask.operation())
        });
        async move {
            let error = |text: &str| Ok(ToolResult::new(&call, ToolStatus::Error, text));
            if used_up {
                return error(
                    "No question is left in this run. Go on with your best assumption, and say \
                     which one it is.",
                );
            }
            let Some(ask) = ask else {
                return error("Give a `question`, and `options` as texts where there are some.");
            };
            match ask.await {
                Ok(Value::Null) => error(
                    "Nobody answered in time. Go on with your best assumption, and say which one \
                     it is.",
                ),
                Ok(answer) => {
                    let text = ghostlight_safety::sanitize(&as_text(&answer)).into_owned();
                    Ok(ToolResult::new(&call, ToolStatus::Success, text))
                }
                Err(failed) if failed.kind() == Some(&ErrorKind::Expired) => {
                    error("Nobody answered in time.")
                }
                Err(failed) => as_result(&call, Err(failed)),
            }
        }
    }

    /// Counts a use of one of the engine's own tools, and returns how often the agents of this run
    /// have used it before.
    pub(super) fn used_before(&self, tool: &'static str) -> u32 {
        let said = self.leg().said();
        let parts = said.iter().flat_map(|message| &message.parts);
        let earlier =
            parts.filter(|part| matches!(part, Part::ToolResult(result) if result.name == tool));
        let earlier = u32::try_from(earlier.count()).unwrap_or(u32::MAX);
        let mut books = self.leg().books.lock();
        let used = books.used.entry(tool).or_default();
        *used = used.saturating_add(1);
        earlier.saturating_add(*used - 1)
    }
}

fn question(call: &ToolCall) -> Option<Question> {
    let arguments = call.arguments.value().ok()?;
    let text = ghostlight_safety::sanitize_line(arguments.get("question")?.as_str()?, SHOWN);
    if text.is_empty() {
        return None;
    }
    let options = match arguments.get("options") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(options)) => {
            let options = options.iter().take(OPTIONS);
            let options = options
                .map(|option| Some(ghostlight_safety::sanitize_line(option.as_str()?, SHOWN)));
            options.collect::<Option<Vec<String>>>()?
        }
        Some(_) => return None,
    };
    Some(if options.is_empty() {
        Question::new(text)
    } else {
        Question::choice(text, options)
    })
}
