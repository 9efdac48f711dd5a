//! The agents' actions as log messages. The newest revision deprecates log messages, and its clients have to ask for
//! them with each request; older clients know no other notification that needs no token.
#![expect(deprecated, reason = "clients of older revisions have it")]

use rmcp::{
    RoleServer,
    model::{LoggingLevel, LoggingMessageNotificationParam, SetLevelRequestParams},
    service::{Peer, ServiceError},
};

/// The level that a client of an older revision sets.
pub(super) type SetLevel = SetLevelRequestParams;

/// Whether a client that sets this level wants the agents' actions.
pub(super) fn wants(set: &SetLevel) -> bool {
    are_wanted(set.level)
}

/// Whether this level includes the messages about agents.
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
