use std::time::Duration;

use ghostlight_actors::{
    contract::{
        Interceptor, ModelContext, ModelError, NextModel, NextTool, ToolContext, ToolError,
        ToolOutput,
    },
    vocabulary::{Arguments, ErrorKind, ModelRequest, ModelResponse, seconds},
};
use serde::Deserialize;

/// Ends a call that takes too long, including everything further in. Outside of a retry it bounds
/// the whole call, inside of it each attempt. A call that had begun, and whose effect is `once`, is
/// then in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeout {
    #[serde(rename = "after_s", with = "seconds")]
    after: Duration,
}

impl Timeout {
    /// Ends a call that takes longer than this.
    pub fn after(time: Duration) -> Self {
        Self { after: time }
    }
}

impl Interceptor for Timeout {
    async fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let model = request.model.clone();
        tokio::select! {
            biased;
            answer = next.respond(request, cx) => answer,
            () = next.pause(self.after) => {
                let message = format!("the model {model:?} gave no answer within {:?}", self.after);
                Err(ModelError::new(ErrorKind::Timeout, message).retryable())
            }
        }
    }

    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        tokio::select! {
            biased;
            output = next.call(arguments, cx) => output,
            () = next.pause(self.after) => {
                Err(ToolError::in_doubt(format!("no end within {:?}", self.after)))
            }
        }
    }
}
