//! The protocol's errors.

use serde_json::{Value, json};

/// The kinds of errors, with their codes in the bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The body is not JSON.
    Parse,
    /// The request is malformed.
    InvalidRequest,
    /// There is no such method.
    MethodNotFound,
    /// The parameters are invalid.
    InvalidParams,
    /// The server failed.
    Internal,
    /// There is no such task, or none that the client may know of.
    TaskNotFound,
    /// The task has ended.
    TaskNotCancelable,
    /// There are no push notifications.
    PushNotificationNotSupported,
    /// The agent does not support this operation, or not in this state.
    UnsupportedOperation,
    /// A part has a media type that the agent does not accept.
    ContentTypeNotSupported,
    /// The agent has no extended card.
    ExtendedCardNotConfigured,
    /// The version of the protocol is not supported.
    VersionNotSupported,
    /// The key lacks a scope.
    Forbidden,
    /// There are too many requests now.
    Unavailable,
}

impl ErrorCode {
    pub(crate) const ALL: [Self; 14] = [
        Self::Parse,
        Self::InvalidRequest,
        Self::MethodNotFound,
        Self::InvalidParams,
        Self::Internal,
        Self::TaskNotFound,
        Self::TaskNotCancelable,
        Self::PushNotificationNotSupported,
        Self::UnsupportedOperation,
        Self::ContentTypeNotSupported,
        Self::ExtendedCardNotConfigured,
        Self::VersionNotSupported,
        Self::Forbidden,
        Self::Unavailable,
    ];

    /// Its number in JSON-RPC, its HTTP status, the name of its gRPC status, and its reason.
    fn codes(self) -> (i64, u16, &'static str, &'static str) {
        const INVALID: &str = "INVALID_ARGUMENT";
        const STATE: &str = "FAILED_PRECONDITION";
        match self {
            Self::Parse => (-32700, 400, INVALID, "JSON_PARSE_ERROR"),
            Self::InvalidRequest => (-32600, 400, INVALID, "INVALID_REQUEST"),
            Self::MethodNotFound => (-32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND"),
            Self::InvalidParams => (-32602, 400, INVALID, "INVALID_PARAMS"),
            Self::Internal => (-32603, 500, "INTERNAL", "INTERNAL_ERROR"),
            Self::TaskNotFound => (-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
            Self::TaskNotCancelable => (-32002, 400, STATE, "TASK_NOT_CANCELABLE"),
            Self::PushNotificationNotSupported => {
                (-32003, 400, STATE, "PUSH_NOTIFICATION_NOT_SUPPORTED")
            }
            Self::UnsupportedOperation => (-32004, 400, STATE, "UNSUPPORTED_OPERATION"),
            Self::ContentTypeNotSupported => (-32005, 400, INVALID, "CONTENT_TYPE_NOT_SUPPORTED"),
            Self::ExtendedCardNotConfigured => {
                (-32007, 400, STATE, "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
            }
            Self::VersionNotSupported => (-32009, 400, STATE, "VERSION_NOT_SUPPORTED"),
            Self::Forbidden => (-32603, 403, "PERMISSION_DENIED", "PERMISSION_DENIED"),
            Self::Unavailable => (-32603, 503, "UNAVAILABLE", "UNAVAILABLE"),
        }
    }

    /// Its number in JSON-RPC.
    pub fn number(self) -> i64 {
        self.codes().0
    }

    /// Its HTTP status.
    pub fn status(self) -> u16 {
        self.codes().1
    }

    /// The name of its gRPC status, which bodies of HTTP+JSON have, too.
    pub(crate) fn status_word(self) -> &'static str {
        self.codes().2
    }

    /// Its reason, a word in capitals.
    pub fn reason(self) -> &'static str {
        self.codes().3
    }

    /// The kind with this number in JSON-RPC.
    pub fn of_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.number() == number)
    }

    /// The kind with this reason.
    pub fn of_reason(reason: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.reason() == reason)
    }
}

/// Why a request is refused or fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ProtocolError {
    /// The kind of the error.
    pub code: ErrorCode,
    /// The reason, and what to do next.
    pub message: String,
}

impl ProtocolError {
    /// An error of this kind.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    /// An error for invalid parameters.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidParams, message)
    }

    fn details(&self) -> Value {
        json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": self.code.reason(),
            "domain": "a2a-protocol.org",
        }])
    }

    /// The error in the form of JSON-RPC.
    pub fn rpc(&self) -> Value {
        json!({ "code": self.code.number(), "message": self.message, "data": self.details() })
    }

    /// The error as a response body of the HTTP+JSON binding.
    pub fn http(&self) -> Value {
        let (_, status, word, _) = self.code.codes();
        json!({ "error": {
            "code": status, "status": word, "message": self.message, "details": self.details(),
        } })
    }
}
