use ghostlight_actors::{
    contract::{
        Interceptor, ModelContext, ModelError, NextModel, NextTool, ToolContext, ToolError,
        ToolOutput,
    },
    vocabulary::{Arguments, ModelRequest, ModelResponse},
};
use serde::Deserialize;
use tracing::{Instrument as _, field::Empty};

use super::logging::tool_end;

/// Opens a span of `tracing` around each attempt, under the target `ghostlight::spans`, with fields
/// named by OpenTelemetry's conventions for generative models. It contains no prompts, no answers,
/// and no arguments or results of tools.
///
/// Spans of interceptors further in, and of the model or tool itself, are inside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tracing {}

impl Tracing {
    /// Opens a span around each attempt.
    pub fn new() -> Self {
        Self {}
    }
}

impl Interceptor for Tracing {
    async fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let span = tracing::info_span!(
            target: "ghostlight::spans",
            "chat",
            otel.kind = "client",
            gen_ai.operation.name = "chat",
            gen_ai.request.model = %request.model,
            gen_ai.response.model = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            error.type = Empty,
            error.message = Empty,
            run = %cx.run(),
            operation = %cx.operation(),
            attempt = cx.attempt(),
        );
        let answer = next.respond(request, cx).instrument(span.clone()).await;
        match &answer {
            Ok(answer) => {
                span.record("gen_ai.response.model", answer.model.as_str());
                span.record("gen_ai.usage.input_tokens", answer.usage.input_tokens);
                span.record("gen_ai.usage.output_tokens", answer.usage.output_tokens);
            }
            Err(error) => {
                span.record("error.type", tracing::field::debug(&error.kind));
                span.record(
                    "error.message",
                    &*ghostlight_safety::redact_text(&error.message),
                );
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
        let definition = next.definition();
        let span = tracing::info_span!(
            target: "ghostlight::spans",
            "execute_tool",
            otel.kind = "internal",
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = %definition.name,
            gen_ai.agent.name = cx.agent(),
            error.type = Empty,
            error.message = Empty,
            effect = ?definition.effect,
            run = %cx.run(),
            operation = %cx.operation(),
        );
        let output = next.call(arguments, cx).instrument(span.clone()).await;
        if let Err(error) = &output {
            span.record("error.type", tool_end(&output));
            span.record(
                "error.message",
                &*ghostlight_safety::redact_text(&error.message),
            );
        }
        output
    }
}
