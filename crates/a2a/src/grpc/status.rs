//! Errors: the status of gRPC, with the protocol's own reason in its details.

use prost::{Message, bytes::Bytes};
use tonic::{Code, Status};

use crate::protocol::{ErrorCode, ProtocolError};

/// The type of the details that hold a reason.
const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
/// Whose reasons are meant.
const DOMAIN: &str = "a2a-protocol.org";

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct Details {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.ErrorInfo`, without its metadata.
#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
}

/// The status of an error.
pub fn status_of(error: &ProtocolError) -> Status {
    let code = match error.code.status_word() {
        "INVALID_ARGUMENT" => Code::InvalidArgument,
        "NOT_FOUND" => Code::NotFound,
        "FAILED_PRECONDITION" => Code::FailedPrecondition,
        "PERMISSION_DENIED" => Code::PermissionDenied,
        "UNAVAILABLE" => Code::Unavailable,
        _ => Code::Internal,
    };
    let info = ErrorInfo {
        reason: error.code.reason().to_owned(),
        domain: DOMAIN.to_owned(),
    };
    let details = Details {
        code: code as i32,
        message: error.message.clone(),
        details: vec![Any {
            type_url: ERROR_INFO.to_owned(),
            value: info.encode_to_vec(),
        }],
    };
    Status::with_details(code, &error.message, Bytes::from(details.encode_to_vec()))
}

/// The error of a status that an agent gave: its reason, or else what the status stands for.
pub fn error_of(status: &Status) -> ProtocolError {
    let details = Details::decode(status.details()).unwrap_or_default();
    let infos = details
        .details
        .iter()
        .filter(|detail| detail.type_url == ERROR_INFO)
        .filter_map(|detail| ErrorInfo::decode(detail.value.as_slice()).ok());
    let reason = infos
        .filter(|info| info.domain == DOMAIN)
        .find_map(|info| ErrorCode::of_reason(&info.reason));
    let code = reason.unwrap_or(match status.code() {
        Code::InvalidArgument | Code::OutOfRange => ErrorCode::InvalidParams,
        Code::NotFound => ErrorCode::TaskNotFound,
        Code::FailedPrecondition | Code::Aborted | Code::AlreadyExists => {
            ErrorCode::UnsupportedOperation
        }
        Code::PermissionDenied | Code::Unauthenticated => ErrorCode::Forbidden,
        Code::Unimplemented => ErrorCode::MethodNotFound,
        Code::Unavailable | Code::ResourceExhausted => ErrorCode::Unavailable,
        _ => ErrorCode::Internal,
    });
    ProtocolError::new(code, status.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_same_behind_its_status_and_a_foreign_status_is_what_it_stands_for() {
        for code in ErrorCode::ALL {
            let error = ProtocolError::new(code, "no paper");
            assert_eq!(error_of(&status_of(&error)), error);
        }
        for (status, code) in [
            (Status::not_found("x"), ErrorCode::TaskNotFound),
            (Status::unauthenticated("x"), ErrorCode::Forbidden),
            (Status::unknown("x"), ErrorCode::Internal),
            (
                Status::with_details(Code::NotFound, "x", Bytes::from_static(b"\xff\xff")),
                ErrorCode::TaskNotFound,
            ),
        ] {
            assert_eq!(error_of(&status).code, code, "{status}");
        }
    }
}
