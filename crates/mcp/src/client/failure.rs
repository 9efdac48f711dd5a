//! Why a server gave no result, in its own words.

use ghostlight_actors::contract::ToolError;
use rmcp::{
    service::{ClientInitializeError, ServiceError},
    transport::DynamicTransportError,
};

use super::wire::WireError;
use crate::ambiguous;

/// The most characters of a server's words.
const WORDS: usize = 2_000;

/// The error of a call without a result. It counts as certainly failed only if the server said so, or if it cannot have
/// been sent.
pub(super) fn failed(error: ServiceError) -> ToolError {
    match &error {
        ServiceError::McpError(error) if ambiguous::is_answer(error) => {
            let reason = ghostlight_safety::sanitize_line(&error.message, WORDS);
            ToolError::in_doubt(format!("the server's answer is ambiguous: {reason}"))
        }
        ServiceError::McpError(error) => {
            let said = ghostlight_safety::sanitize_line(&error.message, WORDS);
            ToolError::new(format!("The server refuses the call: {said}"))
        }
        ServiceError::Cancelled { .. } => {
            ToolError::in_doubt("it was cancelled, and the server told so")
        }
        ServiceError::UnexpectedResponse => {
            ToolError::in_doubt("the server's answer cannot be read")
        }
        ServiceError::TransportSend(sent) => match over_http(sent) {
            Some(error) if was_not_done(error) => ToolError::new(format!(
                "The server does not serve the call: {}",
                told(error)
            )),
            Some(error) if !is_broken(error) => ToolError::in_doubt(told(error)),
            _ => ToolError::in_doubt(LOST),
        },
        ServiceError::TransportClosed => ToolError::in_doubt(LOST),
        other => ToolError::in_doubt(other.to_string()),
    }
}

const LOST: &str = "the connection to the server was lost in the middle of it";

/// Whether the connection was lost, so that another attempt may end otherwise.
pub(super) fn is_lost(error: &ServiceError) -> bool {
    match error {
        ServiceError::TransportClosed => true,
        ServiceError::TransportSend(sent) => over_http(sent).is_none_or(is_broken),
        _ => false,
    }
}

/// The fault, for a message about the server.
pub(super) fn reason(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => ghostlight_safety::sanitize_line(&error.message, WORDS),
        ServiceError::TransportSend(sent) => match over_http(sent) {
            Some(error) => told(error),
            None => error.to_string(),
        },
        ServiceError::UnexpectedResponse => "its answer cannot be read".to_owned(),
        other => other.to_string(),
    }
}

/// Why a connection was not begun.
pub(super) fn not_begun(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            ghostlight_safety::sanitize_line(&error.message, WORDS)
        }
        ClientInitializeError::TransportError { error: sent, .. } => match over_http(sent) {
            Some(error) => told(error),
            None => error.to_string(),
        },
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => not_begun(fallback),
        other => other.to_string(),
    }
}

fn over_http(sent: &DynamicTransportError) -> Option<&WireError> {
    sent.error.downcast_ref()
}

/// Whether the request broke off, instead of being answered.
fn is_broken(error: &WireError) -> bool {
    matches!(
        error,
        WireError::Sse(_)
            | WireError::Io(_)
            | WireError::Client(_)
            | WireError::UnexpectedEndOfStream
            | WireError::TransportChannelClosed
            | WireError::TokioJoinError(_)
    )
}

/// Whether the server cannot have done what it was asked.
fn was_not_done(error: &WireError) -> bool {
    match error {
        WireError::Client(error) => error.is_connect(),
        WireError::SessionExpired
        | WireError::ReinitializationFailed(_)
        | WireError::ReservedHeaderConflict(_)
        | WireError::AuthRequired(_)
        | WireError::InsufficientScope(_)
        | WireError::Auth(_) => true,
        _ => false,
    }
}

fn told(error: &WireError) -> String {
    match error {
        WireError::UnexpectedServerResponse(said) => said.clone().into_owned(),
        WireError::SessionExpired => {
            "it does not know the session, not even after a new one was begun".to_owned()
        }
        WireError::ReinitializationFailed(error) => {
            let said = ghostlight_safety::sanitize_line(&error.message, WORDS);
            format!("it lost the session, and does not begin another: {said}")
        }
        WireError::AuthRequired(_) | WireError::InsufficientScope(_) => {
            "it wants somebody to sign in".to_owned()
        }
        WireError::UnexpectedContentType(kind) => match kind {
            Some(kind) => format!(
                "it answers with content of the type {:?}",
                ghostlight_safety::sanitize_line(kind, 100)
            ),
            None => "it answers with content that has no type".to_owned(),
        },
        WireError::Client(error) => chain(error),
        other => ghostlight_safety::sanitize_line(&other.to_string(), WORDS),
    }
}

/// An error with its causes, which say more than it.
fn chain(error: &reqwest::Error) -> String {
    // The address may hold a secret.
    let mut told = match error.is_connect() {
        true => "it cannot be reached".to_owned(),
        false => "the request failed".to_owned(),
    };
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        told = format!("{told}: {error}");
        cause = error.source();
    }
    ghostlight_safety::sanitize_line(&told, WORDS)
}
