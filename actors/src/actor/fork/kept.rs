//! What a fork finds in shared state: what stood there at the cut.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Deserialize;

use crate::{
    actor::{SystemError, recording::tree},
    contract::{Expected, RunFilter, StateWrite, StoreError, StoreHandle, artifact_scopes},
    run::{Recording, operations, saved_later, written},
    vocabulary::{ArtifactInfo, RunId, Scope, SessionId},
};

/// Values of a scope with how often each was written.
type Values = BTreeMap<String, (Option<serde_json::Value>, u64)>;

/// The working memory of the fork's tree.
pub(super) async fn memory(
    recording: &Recording,
    cut: u64,
    store: &StoreHandle,
    run: RunId,
) -> Result<Vec<StateWrite>, SystemError> {
    let (from, to) = (
        operations::run_scope(recording.root),
        operations::run_scope(run),
    );
    let label = Scope::Run.to_string();
    let mut values = current(store, from.clone()).await?;
    put_back(&mut values, written(recording, cut, &label)?);
    let mut writes = writes(&to, values);
    let later = saved_later(recording, cut, &label)?;
    writes.extend(artifacts(store, &from, &to, &later).await?);
    Ok(writes)
}

/// The state of the fork's session.
pub(super) async fn session_state(
    store: &StoreHandle,
    from: &SessionId,
    cut: u64,
    session: &SessionId,
) -> Result<Vec<StateWrite>, SystemError> {
    let mut values = current(store, operations::session_scope(from)).await?;
    let mut filter = RunFilter::default();
    (filter.session, filter.roots) = (Some(from.clone()), true);
    let mut rows = store.runs(filter).await?;
    rows.reverse();
    let label = Scope::Session.to_string();
    let mut all = HashMap::new();
    let mut later = HashSet::new();
    for row in rows {
        let mut turn = Recording::new(row.root);
        turn.lines = tree(store, row.root).await?;
        later.extend(saved_later(&turn, cut, &label)?);
        for (key, value) in written(&turn, cut, &label)? {
            // Turns follow one another: a later one's value is the later one.
            let known = all.entry(key).or_insert(None);
            *known = value.or(known.take());
        }
    }
    put_back(&mut values, all);
    let to = operations::session_scope(session);
    let mut writes = writes(&to, values);
    let from = operations::session_scope(from);
    writes.extend(artifacts(store, &from, &to, &later).await?);
    Ok(writes)
}

async fn current(store: &StoreHandle, scope: String) -> Result<Values, SystemError> {
    let values = store.scope(scope).await?.into_iter();
    Ok(values
        .map(|(key, found)| (key, (Some(found.value), found.version)))
        .collect())
}

/// Gives values that were written meanwhile the content that they had.
fn put_back(values: &mut Values, then: HashMap<String, Option<(Option<serde_json::Value>, u64)>>) {
    for (key, value) in then {
        match value {
            Some(value) => values.insert(key, value),
            None => values.remove(&key),
        };
    }
}

/// Writes that make these values with these versions: a version counts the writes.
fn writes(scope: &str, values: Values) -> Vec<StateWrite> {
    let mut writes = Vec::new();
    for (key, (value, version)) in values {
        let raw = value.and_then(|value| serde_json::value::to_raw_value(&value).ok());
        for _ in 0..version {
            writes.push(StateWrite {
                scope: scope.to_owned(),
                key: key.clone(),
                value: raw.clone(),
                expected: Expected::Any,
            });
        }
    }
    writes
}

/// The artifacts of a scope, but for the versions that were saved later. Their contents are there.
async fn artifacts(
    store: &StoreHandle,
    from: &str,
    to: &str,
    later: &HashSet<(String, u64)>,
) -> Result<Vec<StateWrite>, SystemError> {
    let mut versions: BTreeMap<(String, u64), ArtifactInfo> = BTreeMap::new();
    for (key, row) in store.scope(artifact_scopes::versions(from)).await? {
        let info = ArtifactInfo::deserialize(&row.value).map_err(|error| StoreError::Damaged {
            place: format!("artifact {key} of {from}"),
            reason: error.to_string(),
        })?;
        versions.insert((info.name.clone(), info.version), info);
    }
    versions.retain(|version, _| !later.contains(version));
    let each = versions.values();
    // A later version's row of the latest takes an earlier one's place.
    Ok(each
        .flat_map(|info| operations::artifact_writes(to, info, Expected::Any))
        .collect())
}
