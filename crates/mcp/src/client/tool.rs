//! A tool of a server.

use std::sync::Arc;

use ghostlight_actors::{
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    vocabulary::{Arguments, Effect, ToolDefinition},
};
use rmcp::{
    Peer, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
        ClientNotification, ClientRequest, ProgressToken, RequestId, RequestMetaObject,
        ServerResult,
    },
    service::{PeerRequestOptions, RequestHandle, ServiceError},
};
use serde_json::Value;

use super::{
    connection::{Connection, Shared},
    content,
};

/// The key of the metadata under which a call has its idempotency key.
const IDEMPOTENCY_KEY: &str = "ghostlight/idempotencyKey";

/// A tool of a server.
pub(super) struct McpTool {
    pub(super) connection: Connection,
    /// Its name at the server.
    pub(super) remote: String,
    pub(super) definition: ToolDefinition,
    /// Whether the server says something else of it than what was accepted.
    pub(super) is_changed: bool,
}

impl Tool for McpTool {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let approved = cx.origin().is_some_and(|origin| origin.approval.is_some());
        if self.is_changed && !approved {
            return Err(ToolError::denied(
                "The server changed what it says of this tool since it was accepted, and no person has \
                 approved this call. From the next run on a person is asked.",
            ));
        }
        let arguments = match arguments.value() {
            Ok(Value::Object(fields)) => fields.clone(),
            Ok(Value::Null) => serde_json::Map::new(),
            _ => return Err(ToolError::new("The arguments must be an object.")),
        };
        let mut params = CallToolRequestParams::new(self.remote.clone());
        params.arguments = Some(arguments);
        let repeatable = self.definition.effect != Effect::Once;
        let (first, peer) = self.connection.peer_after(0).await?;
        let failure = match self.exchange(&peer, params.clone(), &cx).await {
            Ok(result) => return answer(result),
            Err(failure) => failure,
        };
        // What has no effect, or knows its key again, is asked again of the server's next life, and so is
        // what was never sent.
        if !failure.is_lost() || (failure.was_sent && !repeatable) {
            return Err(failed(failure.error));
        }
        let (_, peer) = self.connection.peer_after(first).await?;
        let result = self.exchange(&peer, params, &cx).await;
        answer(result.map_err(|failure| failed(failure.error))?)
    }
}

/// Why a call has no answer.
struct Failure {
    error: ServiceError,
    was_sent: bool,
}

impl Failure {
    fn is_lost(&self) -> bool {
        matches!(
            self.error,
            ServiceError::TransportClosed | ServiceError::TransportSend(_)
        )
    }
}

/// What the server answered.
fn answer(result: ServerResult) -> Result<ToolOutput, ToolError> {
    match result {
        ServerResult::CallToolResult(result) => content::output(result),
        ServerResult::InputRequiredResult(_) => Err(ToolError::new(
            "The server wants to ask a person, which this client does not offer. It has done nothing.",
        )),
        ServerResult::CreateTaskResult(_) => Err(ToolError::in_doubt(
            "the server made a task of the call, which this client did not ask for",
        )),
        // An empty result is one, to older servers.
        ServerResult::EmptyResult(_) => Ok(ToolOutput::default()),
        other => match serde_json::to_value(other) {
            Ok(other) => Ok(ToolOutput::text(other.to_string())),
            Err(error) => Err(ToolError::in_doubt(format!("its answer is none: {error}"))),
        },
    }
}

/// A call that came to no result: known to have failed only where the server said so.
fn failed(error: ServiceError) -> ToolError {
    match error {
        ServiceError::McpError(error) => {
            ToolError::new(format!("The server refuses the call: {}", error.message))
        }
        ServiceError::Cancelled { .. } => {
            ToolError::in_doubt("it was cancelled, and the server told so")
        }
        ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
            ToolError::in_doubt("the connection to the server was lost in the middle of it")
        }
        other => ToolError::in_doubt(other.to_string()),
    }
}

impl McpTool {
    /// Sends the call and waits for its end. Dropped before it, or cancelled, it tells the server.
    async fn exchange(
        &self,
        peer: &Peer<RoleClient>,
        params: CallToolRequestParams,
        cx: &ToolContext,
    ) -> Result<ServerResult, Failure> {
        let mut options = PeerRequestOptions::no_options();
        if self.definition.effect == Effect::Idempotent {
            let mut meta = RequestMetaObject::default();
            meta.insert(IDEMPOTENCY_KEY.to_owned(), cx.idempotency_key().into());
            options = options.with_meta(meta);
        }
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let handle = peer.send_cancellable_request(request, options).await;
        let handle = handle.map_err(|error| Failure {
            error,
            was_sent: false,
        })?;
        let mut call = Call::begin(self.connection.shared(), &handle, cx);
        let cancelled = cx.cancelled();
        let answered = handle.await_response();
        tokio::pin!(answered);
        let result = tokio::select! {
            biased;
            result = &mut answered => result,
            () = cancelled.cancelled() => {
                call.tell_cancelled().await;
                // The SDK ends the request when it tells the server.
                answered.await
            }
        };
        call.is_over = true;
        result.map_err(|error| Failure {
            error,
            was_sent: true,
        })
    }
}

/// A call that is under way.
struct Call {
    shared: Arc<Shared>,
    peer: Peer<RoleClient>,
    id: RequestId,
    token: ProgressToken,
    is_over: bool,
}

impl Call {
    fn begin(shared: &Arc<Shared>, handle: &RequestHandle<RoleClient>, cx: &ToolContext) -> Self {
        let token = handle.progress_token.clone();
        if cx.is_watched() {
            let cx = cx.clone();
            let show = move |share, message: String| cx.progress(share, message);
            shared.progress.lock().insert(token.clone(), Box::new(show));
        }
        Self {
            shared: shared.clone(),
            peer: handle.peer.clone(),
            id: handle.id.clone(),
            token,
            is_over: false,
        }
    }

    async fn tell_cancelled(&mut self) {
        self.is_over = true;
        let _ = self
            .peer
            .send_notification(cancelled(self.id.clone()))
            .await;
    }
}

fn cancelled(id: RequestId) -> ClientNotification {
    let mut params = CancelledNotificationParam::new(Some(id), None);
    params.reason = Some("nobody wants the result any more".to_owned());
    ClientNotification::CancelledNotification(CancelledNotification::new(params))
}

impl Drop for Call {
    fn drop(&mut self) {
        self.shared.progress.lock().remove(&self.token);
        if !self.is_over
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (peer, id) = (self.peer.clone(), self.id.clone());
            runtime.spawn(async move {
                // A server that is gone needs no telling.
                let _ = peer.send_notification(cancelled(id)).await;
            });
        }
    }
}
