//! Calls that have not ended when their tool returns.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    CallTool,
    answered::{Answered, CallEnd},
};
use crate::{
    run::RunContext,
    vocabulary::{
        AgentError, Continuation, Continued, Effect, ErrorKind, Message, ModelRequest,
        OperationError, ToolResult, Transcript,
    },
};

/// How often one call can go on.
const PARTS: u32 = 10_000;

impl RunContext {
    /// Calls a tool, asks or waits as the tool requests, and calls it again, until the call has
    /// ended. The first operation gets its id at once. Further operations are in a lane of their
    /// own, which exists only if there are any.
    pub(super) fn carried(&self, first: CallTool) -> CallEnd {
        let again = first.clone();
        let cx = self.handle();
        let first = self.perform(first);
        Box::pin(async move { cx.carried_on(&again, first.await).await })
    }

    /// The end of a call whose first operation had this result.
    pub(super) async fn carried_on(
        &self,
        again: &CallTool,
        first: Result<ToolResult, AgentError>,
    ) -> Result<Answered, AgentError> {
        let end = match continues(first) {
            // Few calls go on, and those that do not keep no room for it.
            Ok(continuation) => Box::pin(self.carry_on(again, continuation)).await,
            Err(end) => end,
        };
        Answered::called(&again.call, end)
    }

    async fn carry_on(
        &self,
        again: &CallTool,
        mut continuation: Box<Continuation>,
    ) -> Result<ToolResult, AgentError> {
        let cx = self.lane(format!("continuation of {}", again.call.name));
        for _ in 0..PARTS {
            if let Some(pause) = continuation.after_ms {
                cx.sleep(Duration::from_millis(pause)).await?;
            }
            let answer = match continuation.question {
                None => None,
                Some(question) => match cx.ask(*question).await {
                    Ok(answer) => Some(answer),
                    // The tool is told that nobody answered, so that it can let go.
                    Err(error) if error.kind() == Some(&ErrorKind::Expired) => None,
                    Err(error) => return Err(error),
                },
            };
            let mut continued = Continued::with(continuation.state, answer);
            if let Some(prompt) = continuation.prompt {
                let request = ModelRequest::new(Transcript::from_iter([Message::user(prompt)]));
                // The words that people say meanwhile are for the agent's own requests.
                let asked = cx.aside(format!("a question of {}", again.call.name));
                match asked.call_model(request).await {
                    Ok(response) => {
                        let text = response.content();
                        continued.answer = Some(Value::String(text));
                    }
                    // The tool decides what it is worth without the model.
                    Err(AgentError::Operation(error)) => {
                        continued = continued.failed(error.to_string());
                    }
                    Err(error) => return Err(error),
                }
            }
            let mut definition = again.definition.clone();
            if continuation.repeatable && definition.effect == Effect::Once {
                Arc::make_mut(&mut definition).effect = Effect::Idempotent;
            }
            let next = CallTool {
                definition,
                continued: Some(continued),
                ..again.clone()
            };
            continuation = match continues(cx.perform(next).await) {
                Ok(continuation) => continuation,
                Err(end) => return end,
            };
        }
        let message = format!("{} went on {PARTS} times and did not end", again.call.name);
        Err(OperationError::new(ErrorKind::Tool, message).into())
    }
}

/// The continuation of a call, or its end.
fn continues(
    end: Result<ToolResult, AgentError>,
) -> Result<Box<Continuation>, Result<ToolResult, AgentError>> {
    match end {
        Err(AgentError::Operation(OperationError {
            kind: ErrorKind::Continues,
            continuation: Some(continuation),
            ..
        })) => Ok(continuation),
        end => Err(end),
    }
}
