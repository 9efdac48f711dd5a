//! Results as journals hold them: the JSON of a `Result`.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::vocabulary::OperationError;

/// What an operation came to. `None` if it is of another type than this one.
pub(crate) fn read_end<T: DeserializeOwned>(
    result: &RawValue,
) -> Option<Result<T, OperationError>> {
    serde_json::from_str(result.get()).ok()
}

/// What an operation came to, if it did not fail.
pub(crate) fn read_result<T: DeserializeOwned>(result: &RawValue) -> Option<T> {
    read_end(result)?.ok()
}

/// Whether an operation failed, which is seen without decoding its result.
pub(crate) fn is_error(result: &RawValue) -> bool {
    result.get().starts_with("{\"Err\"")
}
