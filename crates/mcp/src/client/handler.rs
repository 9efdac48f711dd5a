//! The handler of a server's notifications and requests.

use std::sync::{Arc, Weak};

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CustomRequest, CustomResult, ElicitRequestParams,
        ElicitResult, ElicitationAction, ElicitationCapability, FormElicitationCapability,
        Implementation, ProgressNotificationParam, ProtocolVersion,
        ResourceUpdatedNotificationParam, UrlElicitationCapability,
    },
    service::{NotificationContext, RequestContext},
};

use super::{connection::Shared, form};
use crate::ambiguous;

/// The longest progress message that is shown, in characters.
const MESSAGE: usize = 200;

/// Handles one life of a connection. It offers neither sampling nor roots, so a server that follows the protocol does
/// not ask for them. A question for a person goes through the call that caused it.
pub(super) struct Handler(Weak<Shared>);

impl Handler {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self(Arc::downgrade(shared))
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let ours = Implementation::new("ghostlight", env!("CARGO_PKG_VERSION"));
        let mut offers = ClientCapabilities::builder().enable_tasks().build();
        let mut elicitation = ElicitationCapability::new();
        elicitation.form = Some(FormElicitationCapability::default());
        elicitation.url = Some(UrlElicitationCapability::default());
        offers.elicitation = Some(elicitation);
        ClientConfig::new(offers, ours)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, rmcp::ErrorData> {
        let nobody = ElicitResult::new(ElicitationAction::Cancel);
        let Some(shared) = self.0.upgrade() else {
            return Ok(nobody);
        };
        if let Some(reason) = form::refused(&asked) {
            tracing::warn!(server = %shared.name, %reason, "the question of an MCP server is declined");
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        }
        Ok(tokio::select! {
            answer = shared.calls.ask(asked) => answer,
            () = context.ct.cancelled() => nobody,
        })
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<CustomResult, rmcp::ErrorData> {
        ambiguous::refuse(request)
    }

    async fn on_resource_updated(
        &self,
        told: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        if let Some(shared) = self.0.upgrade() {
            // There may be no listener.
            let _ = shared.updates.send(told.uri);
        }
    }

    async fn on_progress(
        &self,
        told: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let Some(shared) = self.0.upgrade() else {
            return;
        };
        let progress = shared.progress.lock();
        if let Some(show) = progress.get(&told.progress_token) {
            let share = told.total.filter(|total| *total > 0.0);
            let share = share.map(|total| (told.progress / total).clamp(0.0, 1.0));
            let message = told.message.unwrap_or_default();
            show(share, ghostlight_safety::sanitize_line(&message, MESSAGE));
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        if let Some(shared) = self.0.upgrade() {
            shared.tools_changed.notify_one();
        }
    }
}
