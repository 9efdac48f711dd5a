//! Calls that a server turned into tasks: the task's id is the ticket that the engine stores.

use std::time::Duration;

use ghostlight_actors::contract::{ToolContext, ToolError, ToolOutput};
use rmcp::{
    Peer, RoleClient,
    model::{CancelTaskParams, GetTaskParams, TaskPayload, UpdateTaskParams},
};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    content,
    failure::failed,
    lenient,
    place::{Place, Wanted},
};

/// How long one part of the call waits for its task.
const LOOKING: Duration = Duration::from_secs(20);
/// The pause between two polls, if the server gives none or an unusable one.
const USUAL: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(10);
/// After this many parts the engine waits between two parts, during which the run costs nothing.
const BUSY: u32 = 3;
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The longest task message that is shown, in characters.
const MESSAGE: usize = 200;

/// A task of a server.
pub(super) struct Task<'a> {
    pub(super) server: &'a str,
    pub(super) peer: &'a Peer<RoleClient>,
    pub(super) id: String,
}

impl Task<'_> {
    /// Waits until the task has ended, needs input, or this part of the call is over. A part that is repeated after a
    /// crash polls again, and has no other effect.
    pub(super) async fn go_on(
        self,
        looks: u32,
        wanted: Option<Wanted>,
        answer: Option<&Value>,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        if let Some(mut wanted) = wanted {
            let fault = wanted.take(answer);
            if fault.is_some() || !wanted.is_answered() {
                return self
                    .place(looks, Some(wanted))
                    .goes_on(self.server, fault.as_deref());
            }
            let params = UpdateTaskParams::new(self.id.clone(), wanted.into_answers());
            self.peer.update_task(params).await.map_err(failed)?;
        }
        let until = Instant::now() + LOOKING;
        let cancelled = cx.cancelled();
        let _wanting = Wanting {
            peer: self.peer,
            id: &self.id,
            cancelled,
        };
        loop {
            let looked = tokio::select! {
                looked = self.peer.get_task(GetTaskParams::new(self.id.clone())) => looked,
                () = cancelled.cancelled() => return Err(cancelled_now()),
            };
            let looked = looked.map_err(failed)?.task;
            if let Some(message) = &looked.task.status_message {
                cx.progress(None, ghostlight_safety::sanitize_line(message, MESSAGE));
            }
            match looked.payload {
                TaskPayload::Completed { result } => {
                    return match lenient::call_result(result, self.server) {
                        Ok(result) => content::output(result),
                        Err(error) => Err(ToolError::new(format!(
                            "The task has ended, and its result is none: {error}"
                        ))),
                    };
                }
                TaskPayload::Failed { error } => {
                    let message = error.get("message").and_then(Value::as_str);
                    return Err(ToolError::new(format!(
                        "The server's task failed: {}",
                        message.unwrap_or("it does not say why")
                    )));
                }
                TaskPayload::Cancelled => {
                    return Err(ToolError::new("The server's task was cancelled."));
                }
                TaskPayload::InputRequired { input_requests } => {
                    let wanted = Wanted::of(Some(input_requests))?;
                    return self.place(looks, Some(wanted)).goes_on(self.server, None);
                }
                _ => {}
            }
            let pause = looked.task.poll_interval_ms.map(Duration::from_millis);
            let pause = pause.unwrap_or(USUAL).clamp(SHORTEST, LONGEST);
            if Instant::now() + pause > until {
                let mut output = self.place(looks + 1, None).goes_on(self.server, None)?;
                if let Some(continuation) = &mut output.continuation
                    && looks >= BUSY
                {
                    let pause = LOOKING * (looks - BUSY + 1);
                    **continuation = continuation.clone().after(pause.min(LONGEST_PAUSE));
                }
                return Ok(output);
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = cancelled.cancelled() => return Err(cancelled_now()),
            }
        }
    }

    fn place(&self, looks: u32, wanted: Option<Wanted>) -> Place {
        let id = self.id.clone();
        Place::Task { id, looks, wanted }
    }
}

/// Cancels the task when its result is not wanted any more. It does not when a part of the call is dropped because this
/// process ends: the next process continues to wait for the task.
struct Wanting<'a> {
    peer: &'a Peer<RoleClient>,
    id: &'a str,
    cancelled: &'a CancellationToken,
}

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        if self.cancelled.is_cancelled()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (peer, params) = (self.peer.clone(), CancelTaskParams::new(self.id));
            runtime.spawn(async move {
                // The server may be gone, or the task may have ended.
                let _ = peer.cancel_task(params).await;
            });
        }
    }
}

fn cancelled_now() -> ToolError {
    ToolError::in_doubt("it was cancelled, and the server told so")
}
