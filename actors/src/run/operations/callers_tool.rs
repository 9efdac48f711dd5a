//! Tools of the caller, who posts the turn.

use std::sync::Arc;

use serde_json::Value;

use super::{
    answered::{Answered, CallEnd, ready, refused},
    ask::Ask,
    fitting::fits,
    tool::would_call,
};
use crate::{
    run::{RunContext, recorded_result::as_result},
    vocabulary::{
        AnsweredBy, Effect, ErrorKind, Question, QuestionKind, ToolCall, ToolDefinition,
        ToolResult, ToolStatus, as_text,
    },
};

impl RunContext {
    /// The caller's tool of this name, unless the agent has one of that name.
    pub(super) fn callers_tool(&self, name: &str) -> Option<&Arc<ToolDefinition>> {
        let given = &self.start().tools;
        let found = given.iter().find(|tool| tool.name == name)?;
        self.agent().offered.get(name).is_none().then_some(found)
    }

    /// Asks the caller for the result of a call of its tool.
    pub(super) fn ask_caller(&self, call: ToolCall, tool: &Arc<ToolDefinition>) -> CallEnd {
        let arguments = match fits(tool, &call.arguments) {
            Ok(arguments) => arguments,
            Err(fault) => return refused(&call, fault),
        };
        if self.start().dry_run && tool.effect != Effect::Read {
            return ready(would_call(&call));
        }
        let mut question = Question::new(format!("What is the result of {}?", call.name));
        question.kind = QuestionKind::ToolResult;
        let asked = question.call.insert(call.clone());
        asked.arguments = arguments;
        let answer = self.perform(Ask::new(question).operation());
        let most = tool.output_limit as usize;
        Box::pin(async move {
            let result = match answer.await {
                Ok(answer) => result_of(&call, &answer, most),
                Err(failed) if failed.kind() == Some(&ErrorKind::Expired) => {
                    let text = "Nobody gave a result in time.";
                    ToolResult::new(&call, ToolStatus::Error, text)
                }
                Err(failed) => as_result(&call, Err(failed))?,
            };
            Ok(Answered::by(AnsweredBy::Person(None), result))
        })
    }
}

/// The result that the model reads of an answer.
fn result_of(call: &ToolCall, answer: &Value, most: usize) -> ToolResult {
    let error = answer
        .as_object()
        .filter(|fields| fields.len() == 1)
        .and_then(|fields| fields.get("error")?.as_str());
    let (status, text) = match error {
        Some(error) => (ToolStatus::Error, error.to_owned()),
        None => (ToolStatus::Success, as_text(answer)),
    };
    let text = ghostlight_safety::sanitize(&text);
    let (kept, cut) = match text.char_indices().nth(most) {
        Some((end, _)) => text.split_at(end),
        None => (&*text, ""),
    };
    let mut result = ToolResult::new(call, status, kept);
    result.truncated = cut.chars().count() as u64;
    result
}
