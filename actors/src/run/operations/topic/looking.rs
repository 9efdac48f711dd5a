//! Topics as seen from outside of runs.

use std::collections::BTreeMap;

use super::{KEY, TopicCounts, state::TopicState};
use crate::contract::StateValue;

/// The topics among the values of a scope, by name.
pub(crate) fn topics_among(values: Vec<(String, StateValue)>) -> BTreeMap<String, TopicCounts> {
    let read = |(key, found): (String, StateValue)| {
        let name = key.strip_prefix(KEY)?.to_owned();
        let state: TopicState = serde_json::from_value(found.value).ok()?;
        Some((name, state.counts()))
    };
    values.into_iter().filter_map(read).collect()
}
