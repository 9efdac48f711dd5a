//! What a copy of a topic knows of the runs that used it.

use serde::{Deserialize, Serialize};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{
    super::state::{UPDATE, Updated, recorded_at},
    KEY, Scope,
    state::TopicState,
};
use crate::vocabulary::{OperationError, RunId};

/// A value of shared state as it is to stand in a copy: a topic there knows no run that is not
/// there, so that nobody else is told of what happens in the copy.
pub(crate) fn copied_value(key: &str, value: Value, is_copy: impl Fn(RunId) -> bool) -> Value {
    let Some(mut topic) = topic(key, &value) else {
        return value;
    };
    topic.let_waiters_go(&is_copy);
    topic.let_members_go(&is_copy);
    serde_json::to_value(topic).unwrap_or(value)
}

/// The result of an operation as a copy of its run is to have it, where it is a change of a topic
/// and another than the recorded one. The receivers are left: who looked whether they live looks
/// for as many in the copy.
pub(crate) fn copied_result(
    kind: &str,
    name: &str,
    result: &RawValue,
    is_copy: impl Fn(RunId) -> bool,
) -> Option<Box<RawValue>> {
    let (scope, key) = recorded_at(name).filter(|_| kind == UPDATE)?;
    if !key.starts_with(KEY) {
        return None;
    }
    let result: Result<Updated, OperationError> = serde_json::from_str(result.get()).ok()?;
    let mut updated = result.ok()?;
    let mut topic = topic(&key, updated.value.as_ref()?)?;
    // A topic of the user's or the team's is one with the copy's.
    let is_shared = !matches!(scope, Scope::Run | Scope::Session);
    topic.let_waiters_go(|run| is_shared || is_copy(run));
    updated.value = Some(topic.serialize(serde_json::value::Serializer).ok()?);
    to_raw_value(&Ok::<_, OperationError>(updated)).ok()
}

fn topic(key: &str, value: &Value) -> Option<TopicState> {
    let topic = key
        .strip_prefix(KEY)
        .map(|_| TopicState::deserialize(value));
    topic?.ok()
}
