//! The runs that a copy of a topic knows.

use serde::{Deserialize, Serialize};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{KEY, Scope, state::TopicState};
use crate::{
    run::{
        read_result,
        recorded_change::{UPDATE, Updated, recorded_at},
    },
    vocabulary::{OperationError, RunId},
};

/// A value of shared state for a copy. A topic in the copy knows only runs of the copy, so that no
/// other run gets its signals.
pub(crate) fn copied_value(key: &str, value: Value, is_copy: impl Fn(RunId) -> bool) -> Value {
    let Some(mut topic) = topic(key, &value) else {
        return value;
    };
    topic.let_waiters_go(&is_copy);
    topic.let_members_go(&is_copy);
    serde_json::to_value(topic).unwrap_or(value)
}

/// The result of an operation for a copy of its run, if the operation changed a topic. The
/// receivers stay, so that a check of whether they live finds as many in the copy.
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
    let mut updated: Updated = read_result(result)?;
    let mut topic = topic(&key, updated.value.as_ref()?)?;
    // The copy shares a topic of the user or the team.
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
