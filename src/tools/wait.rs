//! The tool `wait`: time passes, and the run costs nothing meanwhile.

use std::time::Duration;

use ghostlight_actors::{
    contract::{ToolContext, ToolHandle, ToolOutput},
    vocabulary::{Continuation, Effect, ToolDefinition},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::tool_fn_with_context;

/// The name of the tool that waits.
pub const WAIT: &str = "wait";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wait {
    /// How many seconds; at most 30 days (2592000).
    #[schemars(range(min = 1, max = 2_592_000))]
    seconds: u32,
}

/// The tool `wait`: the model lets time pass, such as until something that it began elsewhere has had time to end.
///
/// The time is counted from the first call, over restarts, and a run that waits for long leaves memory.
#[must_use]
pub fn wait() -> ToolHandle {
    let description = "Lets so many seconds pass before you go on.";
    let definition = ToolDefinition::new(WAIT, description).effect(Effect::Read);
    tool_fn_with_context(definition, |wait: Wait, cx: ToolContext| async move {
        let seconds = wait.seconds;
        if cx.continued().is_some() {
            return Ok(ToolOutput::text(format!("{seconds} seconds have passed.")));
        }
        let pause = Duration::from_secs(u64::from(seconds));
        let continuation = Continuation::of(WAIT).after(pause).repeatable();
        Ok(ToolOutput::goes_on(continuation))
    })
}
