//! The names of OpenTelemetry's conventions for generative AI, as of the repository semantic-conventions-genai at the
//! end of 2026, and the names that Ghostlight adds, which all begin with `ghostlight.`.

pub(crate) const OPERATION_NAME: &str = "gen_ai.operation.name";
pub(crate) const PROVIDER_NAME: &str = "gen_ai.provider.name";
pub(crate) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(crate) const WORKFLOW_NAME: &str = "gen_ai.workflow.name";
pub(crate) const CONVERSATION_ID: &str = "gen_ai.conversation.id";
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const TEMPERATURE: &str = "gen_ai.request.temperature";
pub(crate) const TOP_P: &str = "gen_ai.request.top_p";
pub(crate) const MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub(crate) const SEED: &str = "gen_ai.request.seed";
pub(crate) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const REASONING_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(crate) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(crate) const ERROR_TYPE: &str = "error.type";
/// Contents, which are exported only where they are opted in.
pub(crate) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(crate) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(crate) const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(crate) const TOOL_RESULT: &str = "gen_ai.tool.call.result";

pub(crate) const INVOKE_AGENT: &str = "invoke_agent";
pub(crate) const INVOKE_WORKFLOW: &str = "invoke_workflow";
pub(crate) const CHAT: &str = "chat";
pub(crate) const EXECUTE_TOOL: &str = "execute_tool";
/// The value of names and kinds that are outside of what a team defines, such as a tool that a model made up.
pub(crate) const OTHER: &str = "_OTHER";

pub(crate) const TEAM: &str = "ghostlight.team";
pub(crate) const RUN_ID: &str = "ghostlight.run.id";
pub(crate) const OPERATION_ID: &str = "ghostlight.operation.id";
pub(crate) const OPERATION_KIND: &str = "ghostlight.operation.kind";
pub(crate) const RUN_END: &str = "ghostlight.run.end";
pub(crate) const RUN_STATUS: &str = "ghostlight.run.status";
pub(crate) const ATTEMPTS: &str = "ghostlight.attempts";
pub(crate) const COST_MICROS: &str = "ghostlight.usage.cost_micros";
pub(crate) const ESTIMATED_TOKENS: &str = "ghostlight.usage.estimated_tokens";
pub(crate) const TOOL_EFFECT: &str = "ghostlight.tool.effect";
pub(crate) const TOOL_STATUS: &str = "ghostlight.tool.status";
pub(crate) const ANSWERED_BY: &str = "ghostlight.tool.answered_by";
pub(crate) const APPROVAL: &str = "ghostlight.tool.approval";

pub(crate) const OPERATION_DURATION: &str = "gen_ai.client.operation.duration";
pub(crate) const TOKEN_USAGE: &str = "gen_ai.client.token.usage";
pub(crate) const TOOL_DURATION: &str = "gen_ai.execute_tool.duration";
pub(crate) const AGENT_DURATION: &str = "gen_ai.invoke_agent.duration";
pub(crate) const WORKFLOW_DURATION: &str = "gen_ai.workflow.duration";
/// How long memories, retrieval and steps took.
pub(crate) const WORK_DURATION: &str = "ghostlight.operation.duration";
pub(crate) const RUNS_ENDED: &str = "ghostlight.runs.ended";
pub(crate) const RUNS_OPEN: &str = "ghostlight.runs.open";
/// Counted in millionths of the currency of the team's prices.
pub(crate) const COST: &str = "ghostlight.usage.cost_micros";
pub(crate) const MODEL_ATTEMPTS: &str = "ghostlight.model.attempts";
pub(crate) const RUNS_PARKED: &str = "ghostlight.runs.parked";
pub(crate) const RUNS_RESTARTED: &str = "ghostlight.runs.restarted";
pub(crate) const SPANS_DROPPED: &str = "ghostlight.spans.dropped";

/// The bounds of the buckets of durations, in seconds.
pub(crate) const DURATION_BUCKETS: [f64; 14] = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];
/// The bounds of the buckets of token counts.
pub(crate) const TOKEN_BUCKETS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// The behaviors that are workflows: their runs are `invoke_workflow`.
const WORKFLOWS: [&str; 17] = [
    "coordinator",
    "debate",
    "fallback",
    "fan_out",
    "for_each",
    "graph",
    "loop",
    "orchestrator",
    "parallel",
    "pipeline",
    "reactree",
    "role_play",
    "round_robin",
    "router",
    "sequential",
    "tool_chain",
    "vote",
];

/// Whether a behavior of this name works through other agents or tools by a plan of its own.
pub(crate) fn is_workflow(behavior: &str) -> bool {
    WORKFLOWS.contains(&behavior)
}

/// A provider by the conventions' name, where they have one for it.
pub(crate) fn provider_name(provider: &str) -> &str {
    match provider {
        "gemini" => "gcp.gemini",
        other => other,
    }
}
