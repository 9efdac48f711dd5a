//! Tools that end a loop.

use ghostlight_actors::{
    run::{BeforeTool, OwnTool, Policy, PolicyContext},
    vocabulary::{
        AgentError, Effect, ModelRequest, ModelResponse, StopReason, ToolCall, ToolDefinition,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Checked;

pub(super) const EXIT_LOOP: &str = "exit_loop";
pub(super) const ESCALATE: &str = "escalate";

/// Gives the agent the tools `exit_loop` and `escalate`. A call of one ends the run when the other
/// calls of its step have their results, without another model call:
/// [`StopReason::LoopExited`] or [`StopReason::Escalated`], with what the agent said last.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Control {
    /// Whether there is `exit_loop`.
    pub exit_loop: bool,
    /// Whether there is `escalate`.
    pub escalate: bool,
    #[serde(skip, default = "tools")]
    tools: [OwnTool; 2],
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Escalation {
    /// What the problem is, and what was tried.
    reason: String,
}

fn tools() -> [OwnTool; 2] {
    let exit = ToolDefinition::new(EXIT_LOOP, "Ends the loop: nothing is left to be done.");
    let escalate = "Hands a problem that you cannot solve to whoever gave you the task.";
    let escalate = ToolDefinition::new(ESCALATE, escalate).parameters_of::<Escalation>();
    [
        OwnTool::new(exit.effect(Effect::Read)),
        OwnTool::new(escalate.effect(Effect::Read)),
    ]
}

impl Default for Control {
    fn default() -> Self {
        Self {
            exit_loop: true,
            escalate: true,
            tools: tools(),
        }
    }
}

impl Checked for Control {}

impl Policy for Control {
    fn tools(&self) -> Vec<String> {
        self.tools.iter().map(OwnTool::name).collect()
    }

    async fn before_model(
        &mut self,
        _: &PolicyContext<'_>,
        request: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        let wanted = [self.exit_loop, self.escalate];
        for (tool, _) in self
            .tools
            .iter_mut()
            .zip(wanted)
            .filter(|(_, wanted)| *wanted)
        {
            tool.offer(request);
        }
        Ok(None)
    }

    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        Ok(match call.name.as_str() {
            EXIT_LOOP if self.exit_loop => {
                cx.stop(StopReason::LoopExited);
                BeforeTool::done(call, "The loop ends.")
            }
            ESCALATE if self.escalate => match call.arguments.parse::<Escalation>() {
                Ok(Escalation { reason }) if !reason.trim().is_empty() => {
                    cx.stop(StopReason::Escalated(reason));
                    BeforeTool::done(call, "The problem was handed on.")
                }
                Ok(_) => BeforeTool::failed(call, "Not done: `reason` is empty."),
                Err(error) => BeforeTool::failed(call, format!("Not done: {error}.")),
            },
            _ => BeforeTool::Go,
        })
    }
}
