//! Results of operations, as journals hold them and as models read them.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::vocabulary::{AgentError, ErrorKind, OperationError, ToolCall, ToolResult, ToolStatus};

/// The recorded end of an operation. `None` if the record has another type than this one.
pub(crate) fn read_end<T: DeserializeOwned>(
    result: &RawValue,
) -> Option<Result<T, OperationError>> {
    serde_json::from_str(result.get()).ok()
}

/// The recorded value of an operation that did not fail.
pub(crate) fn read_result<T: DeserializeOwned>(result: &RawValue) -> Option<T> {
    read_end(result)?.ok()
}

/// Whether an operation failed, which is seen without decoding its result.
pub(crate) fn is_error(result: &RawValue) -> bool {
    result.get().starts_with("{\"Err\"")
}

/// A failed operation as the result that the model reads. An error if the run must stop for the
/// failure.
pub(crate) fn as_result(
    call: &ToolCall,
    end: Result<ToolResult, AgentError>,
) -> Result<ToolResult, AgentError> {
    let error = match end {
        Ok(mut result) => {
            result.call_id.clone_from(&call.id);
            return Ok(result);
        }
        Err(error) => error,
    };
    let status = match error.kind() {
        None | Some(ErrorKind::Budget(_) | ErrorKind::InDoubt | ErrorKind::Store) => {
            return Err(error);
        }
        Some(kind) => status_of(kind),
    };
    Ok(ToolResult::new(call, status, error.to_string()))
}

/// The status of a call that failed with this error.
pub(crate) fn status_of(kind: &ErrorKind) -> ToolStatus {
    match kind {
        ErrorKind::InDoubt => ToolStatus::Unknown,
        ErrorKind::Cancelled | ErrorKind::StillRunning => ToolStatus::Interrupted,
        ErrorKind::Denied | ErrorKind::Expired => ToolStatus::Denied,
        _ => ToolStatus::Error,
    }
}
