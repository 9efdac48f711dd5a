//! Bounds on the calls of single tools.

use std::collections::{BTreeMap, BTreeSet};

use ghostlight_actors::{
    run::{BeforeTool, Policy, PolicyContext},
    vocabulary::{AgentError, Scope, ToolCall, ToolResult, ToolStatus},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Checked;

/// Bounds how often single tools are called in a run and in all runs below its root, beside the
/// budget of tool calls, which counts all tools together. A call beyond the bound is refused, and
/// the model reads that it is; the run goes on.
///
/// Each agent that it watches over counts into the same books, so as a policy of the team it bounds
/// the whole tree. A call counts when it is let through, whatever comes of it; one that another policy held back does not.
///
/// ```yaml
/// policies: [{ name: tool_limits, calls: { search: 5, send_mail: 1 } }]
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolLimits {
    /// How often each tool may be called, by its name; 0 is never.
    pub calls: BTreeMap<String, u32>,
    /// The ids of the calls that were counted and have no result yet.
    #[serde(skip)]
    counted: BTreeSet<String>,
}

impl ToolLimits {
    /// At most this many calls of this tool.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>, calls: u32) -> Self {
        self.calls.insert(name.into(), calls);
        self
    }
}

impl Checked for ToolLimits {
    fn check(&self) -> Result<(), String> {
        match self.calls.is_empty() {
            true => Err("calls must name at least one tool".to_owned()),
            false => Ok(()),
        }
    }
}

impl Policy for ToolLimits {
    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        let Some(most) = self.calls.get(&call.name).copied() else {
            return Ok(BeforeTool::Go);
        };
        // The call was counted when it was first asked about.
        if cx.is_asked_again() {
            return Ok(BeforeTool::Go);
        }
        let count = move |calls: Option<u32>| calls.unwrap_or(0).saturating_add(1);
        let calls = cx.state(Scope::Run).update(key(call), count).await?;
        if calls <= most {
            self.counted.insert(call.id.clone());
            return Ok(BeforeTool::Go);
        }
        let told = format!(
            "Not called: {} may be called {most} times in this run, and was. Go on without it.",
            call.name
        );
        Ok(BeforeTool::blocked(call, told))
    }

    async fn after_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Result<Option<ToolResult>, AgentError> {
        if self.counted.remove(&call.id) && result.status == ToolStatus::Blocked {
            let uncount = |calls: Option<u32>| calls.unwrap_or(0).saturating_sub(1);
            cx.state(Scope::Run).update(key(call), uncount).await?;
        }
        Ok(None)
    }
}

/// Where the calls of a tool are counted.
fn key(call: &ToolCall) -> String {
    format!("tool_limits:{}", call.name)
}
