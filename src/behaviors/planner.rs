//! A plan that a model writes, requested until it can be parsed.

use ghostlight_actors::{
    run::RunContext,
    vocabulary::{AgentError, ToolSet, Transcript},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use super::{AgentLoop, LoopOptions, TurnFormat, prompt::below_instructions};

/// How often a model is asked for a plan that can be parsed.
const ATTEMPTS: u32 = 8;

/// Requests a plan by this prompt, after the agent's instructions, and parses it by this reader.
/// The messages stay in the conversation.
pub(super) async fn plan<T: Serialize + DeserializeOwned>(
    cx: &RunContext,
    planner: AgentLoop<'_>,
    prompt: &str,
    reader: impl TurnFormat,
    conversation: &mut Transcript,
) -> Result<Vec<T>, AgentError> {
    let mut planner = planner
        .instructions(below_instructions(&cx.agent().instructions, prompt))
        .tools(ToolSet::default())
        .format(reader)
        .options(LoopOptions::of_steps(ATTEMPTS))
        .inner()
        .free_text();
    let planned = planner.run_as::<Vec<T>>().await;
    conversation.clone_from(planner.transcript());
    let steps = planned?;
    cx.emit("plan", &json!({ "steps": steps }));
    Ok(steps)
}
