//! What agents do as messages of a log. The newest revision deprecates these: older clients know nothing else that needs
//! no token, and a client of the newest has to ask for them with each request.
#![expect(deprecated, reason = "clients of older revisions have it")]

use rmcp::{
    RoleServer,
    model::{LoggingLevel, LoggingMessageNotificationParam, SetLevelRequestParams},
    service::{Peer, ServiceError},
};

/// What a client of the older wire sets.
pub(super) type SetLevel = SetLevelRequestParams;

/// Whether a client that sets this level wants what agents do.
pub(super) fn wants(set: &SetLevel) -> bool {
    are_wanted(set.level)
}

/// Whether messages of the level at which agents are told of are wanted.
pub(super) fn are_wanted(level: LoggingLevel) -> bool {
    matches!(level, LoggingLevel::Debug | LoggingLevel::Info)
}

pub(super) async fn tell(
    peer: &Peer<RoleServer>,
    team: &str,
    message: &str,
) -> Result<(), ServiceError> {
    let params = LoggingMessageNotificationParam::new(LoggingLevel::Info, message.into());
    peer.notify_logging_message(params.with_logger(team)).await
}
