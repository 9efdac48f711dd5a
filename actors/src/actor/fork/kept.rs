//! What a fork finds in shared state: what stood there at the cut.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    actor::{SystemError, launch::read_journal, recording::tree},
    contract::{Expected, RunFilter, StateWrite, StoreError, StoreHandle, artifact_scopes},
    run::{ChangedByTree, KeyHistory, Recording, operations},
    vocabulary::{ArtifactInfo, Entry, JournalId, RunId, Scope, SessionId},
};

/// Values of a scope with how often each was written.
pub(in crate::actor) type Values = BTreeMap<String, (Option<serde_json::Value>, u64)>;

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
    let changed = ChangedByTree::of(recording, 0, cut, &Scope::Run)?;
    let mut values = current(store, from.clone()).await?;
    put_back(&mut values, changed.values, &Values::new());
    let mut writes = writes(&to, values);
    writes.extend(artifacts(store, &from, &to, &changed.later).await?);
    Ok(writes)
}

/// The state of the fork's session.
pub(super) async fn session_state(
    store: &StoreHandle,
    from: &SessionId,
    cut: u64,
    session: &SessionId,
) -> Result<Vec<StateWrite>, SystemError> {
    let kept = Kept::of_session(store, from, cut).await?;
    let (from, to) = (
        operations::session_scope(from),
        operations::session_scope(session),
    );
    let mut writes = writes(&to, kept.values);
    writes.extend(artifacts(store, &from, &to, &kept.later).await?);
    Ok(writes)
}

/// What a session kept at some moment.
pub(in crate::actor) struct Kept {
    /// Its state.
    pub(in crate::actor) values: Values,
    /// The versions of artifacts that were saved later.
    pub(in crate::actor) later: HashSet<(String, u64)>,
    /// The values that were written later.
    changed: HashSet<String>,
}

impl Kept {
    /// What a session kept before this place in the order of commits.
    pub(in crate::actor) async fn of_session(
        store: &StoreHandle,
        session: &SessionId,
        cut: u64,
    ) -> Result<Self, SystemError> {
        let mut values = current(store, operations::session_scope(session)).await?;
        let (since, base) = base(store, session, cut).await?;
        let mut filter = RunFilter::default();
        (filter.session, filter.roots) = (Some(session.clone()), true);
        let mut rows = store.runs(filter).await?;
        rows.reverse();
        let mut all: HashMap<String, KeyHistory> = HashMap::new();
        let mut later = HashSet::new();
        for row in rows {
            let mut turn = Recording::new(row.root);
            turn.lines = tree(store, row.root).await?;
            let changed = ChangedByTree::of(&turn, since, cut, &Scope::Session)?;
            later.extend(changed.later);
            for (key, history) in changed.values {
                // Turns follow one another: a later one's value is the later one.
                all.entry(key).or_default().go_on(history);
            }
        }
        let is_later =
            |(key, history): (&String, &KeyHistory)| history.later.is_some().then(|| key.clone());
        let changed = all.iter().filter_map(is_later).collect();
        put_back(&mut values, all, &base);
        Ok(Self {
            values,
            later,
            changed,
        })
    }
}

/// Writes that give a session's state the content that it had.
pub(in crate::actor) async fn restored(
    store: &StoreHandle,
    session: &SessionId,
    kept: &Kept,
) -> Result<Vec<StateWrite>, SystemError> {
    let scope = operations::session_scope(session);
    let now = current(store, scope.clone()).await?;
    let mut writes = Vec::new();
    for key in &kept.changed {
        let then = kept.values.get(key).and_then(|(value, _)| value.clone());
        if now.get(key).and_then(|(value, _)| value.clone()) == then {
            continue;
        }
        writes.push(StateWrite {
            scope: scope.clone(),
            key: key.clone(),
            value: then.and_then(|value| serde_json::value::to_raw_value(&value).ok()),
            expected: Expected::Any,
        });
    }
    Ok(writes)
}

async fn current(store: &StoreHandle, scope: String) -> Result<Values, SystemError> {
    let values = store.scope(scope).await?.into_iter();
    Ok(values
        .map(|(key, found)| (key, (Some(found.value), found.version)))
        .collect())
}

/// Gives values that were written meanwhile the content that they had: what is recorded of them, or
/// else what the session began with. One of which neither is known any more stays as it is.
fn put_back(values: &mut Values, then: HashMap<String, KeyHistory>, base: &Values) {
    for (key, history) in then {
        match (history.before, history.later) {
            (Some(value), _) => {
                values.insert(key, value);
            }
            (None, Some(1)) => {
                values.remove(&key);
            }
            (None, _) => {
                if let Some(value) = base.get(&key) {
                    values.insert(key, value.clone());
                }
            }
        }
    }
}

/// The state that a session had when it was branched off or rewound last before the cut, and the
/// place of that in the order of commits: what was written before it counts no more.
async fn base(
    store: &StoreHandle,
    session: &SessionId,
    cut: u64,
) -> Result<(u64, Values), SystemError> {
    let journal = JournalId::Session(session.clone());
    let lines = read_journal(store, &journal, 0).await?;
    let before = lines.iter().rev().filter(|stored| stored.position < cut);
    for stored in before {
        if !stored.line.text.starts_with("{\"session_") {
            continue;
        }
        if let Ok(Entry::SessionBranched { state, .. } | Entry::SessionRewound { state, .. }) =
            stored.line.decode()
        {
            let values = state.into_iter();
            let values = values.map(|(key, (value, version))| (key, (Some(value), version)));
            return Ok((stored.position, values.collect()));
        }
    }
    Ok((0, Values::new()))
}

/// Writes that make these values with these versions: a version counts the writes.
pub(in crate::actor) fn writes(scope: &str, values: Values) -> Vec<StateWrite> {
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
pub(in crate::actor) async fn artifacts(
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

/// The values that are there.
pub(in crate::actor) fn plain(values: &Values) -> BTreeMap<String, (Value, u64)> {
    let there = values.iter().filter_map(|(key, (value, version))| {
        let value = value.clone()?;
        Some((key.clone(), (value, *version)))
    });
    there.collect()
}
