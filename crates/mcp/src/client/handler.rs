//! What a server tells and asks its client.

use std::sync::{Arc, Weak};

use ghostlight_actors::safety;
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam,
        ProtocolVersion,
    },
    service::NotificationContext,
};

use super::connection::Shared;

/// The longest message of progress that is shown, in characters.
const MESSAGE: usize = 200;

/// Hears one life of a connection. What it is asked for (samples of a model, folders, what a person
/// would say) it does not offer, so a server that keeps to the protocol does not ask.
pub(super) struct Handler(Weak<Shared>);

impl Handler {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self(Arc::downgrade(shared))
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let ours = Implementation::new("ghostlight", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), ours)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
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
            show(share, safety::sanitize_line(&message, MESSAGE));
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        if let Some(shared) = self.0.upgrade() {
            shared.tools_changed.notify_one();
        }
    }
}
