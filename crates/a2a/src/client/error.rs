//! The errors of a request to a remote agent.

use crate::{
    protocol::{ErrorCode, ProtocolError},
    signing::CardError,
};

/// Why a request to a remote agent failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No connection was made, so the agent did not get the request.
    #[error("the agent is not reached: {0}")]
    Unreachable(String),
    /// The connection was lost, or no answer came in time: the agent may have got the request.
    #[error("the agent did not answer: {0}")]
    Lost(String),
    /// The agent refused or failed, with an error of the protocol.
    #[error("the agent says: {0}")]
    Refused(ProtocolError),
    /// The agent answered with an HTTP status and no error of the protocol.
    #[error("the agent answers with HTTP status {status}: {text}")]
    Status {
        /// The status.
        status: u16,
        /// The first characters of the body.
        text: String,
    },
    /// The agent's answer does not follow the protocol.
    #[error("the agent's answer does not fit the protocol: {0}")]
    Malformed(String),
    /// The agent's answer is larger than the limit.
    #[error("the agent's answer has more than {0} bytes")]
    TooLarge(usize),
    /// The agent offers no binding that this client supports.
    #[error(
        "the agent offers {0:?}; spoken here are JSONRPC, HTTP+JSON and GRPC in version 1.0, or the one that its settings name"
    )]
    NotSpoken(String),
    /// The card is not signed by a trusted key, although the settings name [keys](crate::ClientOptions::signed_by).
    #[error("the agent's card is not trusted: {0}")]
    Untrusted(CardError),
    /// The card names the agent at another origin, to which the headers must not be sent.
    #[error(
        "the card at {card} names the agent at {agent}, which is another origin: give the agent's own address as `url`"
    )]
    OtherOrigin {
        /// The card's address.
        card: String,
        /// The agent's address in the card.
        agent: String,
    },
    /// The value of a header cannot be obtained.
    #[error("the header {name} cannot be sent: {reason}")]
    Header {
        /// The header's name.
        name: String,
        /// The reason, without the value.
        reason: String,
    },
}

ghostlight_actors::parts_of_system_error!(ClientError);

impl ClientError {
    /// Whether the agent may have got the request.
    pub fn was_sent(&self) -> bool {
        match self {
            Self::Lost(_) | Self::Malformed(_) | Self::TooLarge(_) => true,
            Self::Status { status, .. } => *status >= 500,
            Self::Refused(error) => error.code == ErrorCode::Internal,
            _ => false,
        }
    }

    /// Whether a later attempt may succeed.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Lost(_) => true,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500..),
            Self::Refused(error) => {
                matches!(error.code, ErrorCode::Internal | ErrorCode::Unavailable)
            }
            _ => false,
        }
    }
}
