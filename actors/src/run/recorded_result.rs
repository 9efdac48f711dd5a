//! Results as journals hold them: the JSON of a `Result`.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::vocabulary::OperationError;

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
