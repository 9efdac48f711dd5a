use ghostlight_actors::{
    contract::{
        Interceptor, ModelContext, ModelError, NextModel, NextTool, ToolContext, ToolError,
        ToolErrorKind, ToolOutput,
    },
    vocabulary::{Arguments, ModelRequest, ModelResponse},
};
use serde::Deserialize;

/// Logs each attempt and its outcome to `tracing`, under the target `ghostlight::calls`. Arguments
/// and errors are redacted; prompts and answers of models are not logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Logging {}

impl Logging {
    /// An interceptor that logs each attempt.
    pub fn new() -> Self {
        Self {}
    }
}

/// The outcome of a tool call, in a word.
pub(super) fn tool_end(output: &Result<ToolOutput, ToolError>) -> &'static str {
    match output {
        Ok(output) if output.later => "later",
        Ok(output) if output.continuation.is_some() => "continues",
        Ok(_) => "success",
        Err(error) => match error.kind {
            ToolErrorKind::Denied => "denied",
            ToolErrorKind::InDoubt => "in_doubt",
            _ => "error",
        },
    }
}

impl Interceptor for Logging {
    async fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let (model, run, operation) = (request.model.clone(), cx.run(), cx.operation());
        let began = next.clock().monotonic();
        let answer = next.respond(request, cx).await;
        let ms = super::millis(next.clock().monotonic().since(began));
        match &answer {
            Ok(answer) => {
                let tokens = answer.usage.total_tokens();
                let calls = answer.message.tool_calls().count();
                tracing::info!(target: "ghostlight::calls", %model, %run, %operation, ms, tokens, calls, "model answered");
            }
            Err(error) => {
                let (kind, error) = (&error.kind, ghostlight_safety::redact_text(&error.message));
                tracing::warn!(target: "ghostlight::calls", %model, %run, %operation, ms, ?kind, %error, "model failed");
            }
        }
        answer
    }

    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let (tool, run, operation) = (&next.definition().name, cx.run(), cx.operation());
        let (agent, began) = (cx.agent().to_owned(), next.clock().monotonic());
        let shown = ghostlight_safety::redact_arguments(arguments.text());
        let output = next.call(arguments, cx).await;
        let ms = super::millis(next.clock().monotonic().since(began));
        let end = tool_end(&output);
        match &output {
            Ok(_) => {
                tracing::info!(target: "ghostlight::calls", %tool, %agent, %run, %operation, ms, arguments = %shown, end, "tool called");
            }
            Err(error) => {
                let error = ghostlight_safety::redact_text(&error.message);
                tracing::warn!(target: "ghostlight::calls", %tool, %agent, %run, %operation, ms, arguments = %shown, end, %error, "tool failed");
            }
        }
        output
    }
}
