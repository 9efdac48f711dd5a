//! Why an agent elsewhere does not answer as it should.

use crate::protocol::{ErrorCode, ProtocolError};

/// Why an agent elsewhere does not answer as it should.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No connection was made, so it heard nothing.
    #[error("the agent is not reached: {0}")]
    Unreachable(String),
    /// The connection was lost, or no answer came in time: it may have heard.
    #[error("the agent did not answer: {0}")]
    Lost(String),
    /// It refuses, or has failed, in the protocol's words.
    #[error("the agent says: {0}")]
    Refused(ProtocolError),
    /// It answers with an HTTP status and without the protocol's words.
    #[error("the agent answers with HTTP status {status}: {text}")]
    Status {
        /// The status.
        status: u16,
        /// The first characters of the body.
        text: String,
    },
    /// What it says is not what the protocol wants.
    #[error("the agent's answer does not fit the protocol: {0}")]
    Malformed(String),
    /// It says more than is taken.
    #[error("the agent's answer has more than {0} bytes")]
    TooLarge(usize),
    /// It speaks nothing that is spoken here.
    #[error("the agent offers {0:?}; spoken here are JSONRPC and HTTP+JSON in version 1.0")]
    NotSpoken(String),
    /// Its card sends the client to another place, to which the headers do not belong.
    #[error(
        "the card at {card} names the agent at {agent}, which is another origin: give the agent's own address as `url`"
    )]
    OtherOrigin {
        /// Where the card is.
        card: String,
        /// Where it sends.
        agent: String,
    },
    /// A header cannot be had.
    #[error("the header {name} cannot be sent: {reason}")]
    Header {
        /// The header.
        name: String,
        /// Why; without its value.
        reason: String,
    },
}

impl ClientError {
    /// Whether the agent may have heard what was asked.
    pub fn was_sent(&self) -> bool {
        match self {
            Self::Lost(_) | Self::Malformed(_) | Self::TooLarge(_) => true,
            Self::Status { status, .. } => *status >= 500,
            Self::Refused(error) => error.code == ErrorCode::Internal,
            _ => false,
        }
    }

    /// Whether it may answer when it is asked again.
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
