//! The shared state that a fork begins with: its contents at the cut.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    actor::{SystemError, recording::tree},
    contract::{
        Expected, RunFilter, StateValue, StateWrite, StoreError, StoreHandle, StoredLine,
        artifact_scopes,
    },
    run::{ChangedByTree, Copies, KeyHistory, Recording, operations},
    session::SessionLog,
    vocabulary::{ArtifactInfo, Entry, RunId, Scope, SessionId},
};

/// Values of a scope, each with the number of its writes.
pub(in crate::actor) type Values = BTreeMap<String, (Option<serde_json::Value>, u64)>;

/// The working memory of the fork's tree.
pub(super) async fn memory(
    recording: &Recording,
    (cut, copies): (u64, &Copies),
    store: &StoreHandle,
    run: RunId,
) -> Result<Vec<StateWrite>, SystemError> {
    let [from, to] = [recording.root, run].map(operations::run_scope);
    let changed = ChangedByTree::of(recording, 0, cut, &Scope::Run)?;
    let mut values = current(store, from.clone()).await?;
    put_back(&mut values, changed.values, &Values::new());
    let mut writes = writes(&to, values, copies);
    writes.extend(artifacts(store, &from, &to, &changed.later).await?);
    Ok(writes)
}

/// The contents of a session at some moment.
pub(in crate::actor) struct SessionContents {
    /// Its state.
    pub(in crate::actor) values: Values,
    /// The versions of artifacts that were saved later.
    later: HashSet<(String, u64)>,
    /// The values that were written later.
    changed: HashSet<String>,
}

impl SessionContents {
    /// The contents of a session before this place in the order of commits.
    pub(in crate::actor) async fn of_session(
        store: &StoreHandle,
        session: &SessionId,
        cut: u64,
    ) -> Result<Self, SystemError> {
        let lines = store.journal(session.clone().into(), 0).await?;
        let mut cut = cut;
        if let Some((from, began)) = began(&lines).filter(|(_, began)| *began >= cut) {
            let before = lines.partition_point(|stored| stored.position < cut);
            let there = Self::of_origin(store, session, &from, (&lines, before)).await?;
            if let Some(there) = there {
                return Ok(there);
            }
            // The contents with which the session began are the earliest that are known.
            cut = began + 1;
        }
        let mut values = current(store, operations::session_scope(session)).await?;
        let (since, base) = base(&lines, cut);
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
                // Turns follow one another, so the value of a later turn is the newer one.
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

    /// Writes that give another session these contents of this one.
    pub(in crate::actor) async fn copied(
        self,
        store: &StoreHandle,
        from: &SessionId,
        to: &SessionId,
        copies: &Copies,
    ) -> Result<Vec<StateWrite>, SystemError> {
        let scopes = [from, to].map(operations::session_scope);
        let mut writes = writes(&scopes[1], self.values, copies);
        writes.extend(artifacts(store, &scopes[0], &scopes[1], &self.later).await?);
        Ok(writes)
    }

    /// The contents that a session which began as a branch would have, had it begun as its origin
    /// did, before this entry, which it copied from its origin. `None` where the origin's entry is
    /// not in the store any more as it was, or belongs to another owner: a document may name any session as its origin.
    async fn of_origin(
        store: &StoreHandle,
        session: &SessionId,
        from: &SessionId,
        (lines, before): (&[StoredLine], usize),
    ) -> Result<Option<Self>, SystemError> {
        let there = store.journal(from.clone().into(), 0).await?;
        let is_same = |one: &StoredLine, other: &StoredLine| {
            (one.sequence, &one.line) == (other.sequence, &other.line)
        };
        let first = lines.get(before);
        let first = first.and_then(|here| there.iter().find(|there| is_same(here, there)));
        let Some(first) = first else {
            return Ok(None);
        };
        let owner = SessionLog::of(&there, from)?.owner;
        if owner.is_some() && owner != SessionLog::of(lines, session)?.owner {
            return Ok(None);
        }
        let kept = Box::pin(Self::of_session(store, from, first.position)).await?;
        let here = operations::session_scope(session);
        let mut saved = versions(store, &operations::session_scope(from)).await?;
        saved.retain(|version, _| !kept.later.contains(version));
        let mut later = versions(store, &here).await?;
        later.retain(|version, _| !saved.contains_key(version));
        let written = current(store, here).await?.into_keys();
        let changed = written.chain(kept.values.keys().cloned()).collect();
        Ok(Some(Self {
            values: kept.values,
            later: later.into_keys().collect(),
            changed,
        }))
    }
}

/// The session from which a branch has its first entries, and the place of its beginning in the order of commits; `None`
/// of a session that is no branch.
fn began(lines: &[StoredLine]) -> Option<(SessionId, u64)> {
    let mut branched = lines.iter().rev().filter(|stored| {
        let text = &stored.line.text;
        text.starts_with("{\"session_forked\"") || text.starts_with("{\"session_branched\"")
    });
    let stored = branched.next()?;
    match stored.line.decode().ok()? {
        Entry::SessionForked { from, .. } => Some((from, stored.position)),
        _ => None,
    }
}

/// Writes that give a session's state the content that it had.
pub(in crate::actor) async fn restored(
    store: &StoreHandle,
    session: &SessionId,
    kept: &SessionContents,
) -> Result<Vec<StateWrite>, SystemError> {
    let scope = operations::session_scope(session);
    let now = current(store, scope.clone()).await?;
    let mut writes = Vec::new();
    for key in &kept.changed {
        let then = kept.values.get(key).and_then(|(value, _)| value.clone());
        if now.get(key).and_then(|(value, _)| value.clone()) == then {
            continue;
        }
        let then = then.map(|value| Copies::default().value(key, value));
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

/// Sets values that were written meanwhile back to their earlier contents: the recorded ones, or
/// else those with which the session began. A value for which neither is known stays as it is.
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
/// place of that in the order of commits: earlier writes no longer count.
fn base(lines: &[StoredLine], cut: u64) -> (u64, Values) {
    let before = lines.iter().rev().filter(|stored| stored.position < cut);
    for stored in before {
        if !stored.line.text.starts_with("{\"session_") {
            continue;
        }
        if let Ok(Entry::SessionForked { state, .. } | Entry::SessionRewound { state, .. }) =
            stored.line.decode()
        {
            let values = state.into_iter();
            let values = values.map(|(key, (value, version))| (key, (Some(value), version)));
            return (stored.position, values.collect());
        }
    }
    (0, Values::new())
}

/// Writes that make these values with these versions, for the copies of the runs that made them.
pub(in crate::actor) fn writes(scope: &str, values: Values, copies: &Copies) -> Vec<StateWrite> {
    let written = values.into_iter().filter(|(_, (_, version))| *version > 0);
    let write = |(key, (value, version)): (String, (Option<Value>, u64))| {
        let value = value.map(|value| copies.value(&key, value));
        StateWrite {
            scope: scope.to_owned(),
            key,
            value: value.and_then(|value| serde_json::value::to_raw_value(&value).ok()),
            expected: Expected::Copy(version),
        }
    };
    written.map(write).collect()
}

/// All versions of the artifacts of a scope.
pub(in crate::actor) async fn versions(
    store: &StoreHandle,
    scope: &str,
) -> Result<BTreeMap<(String, u64), ArtifactInfo>, SystemError> {
    let mut versions = BTreeMap::new();
    for (key, row) in store.scope(artifact_scopes::versions(scope)).await? {
        let info = described(scope, &key, &row)?;
        versions.insert((info.name.clone(), info.version), info);
    }
    Ok(versions)
}

/// The artifact that a row of the store describes.
pub(in crate::actor) fn described(
    scope: &str,
    key: &str,
    row: &StateValue,
) -> Result<ArtifactInfo, StoreError> {
    ArtifactInfo::deserialize(&row.value).map_err(|error| StoreError::Damaged {
        place: format!("artifact {key} of {scope}"),
        reason: error.to_string(),
    })
}

/// The artifacts of a scope, without the versions that were saved later. Their contents are in the
/// store.
async fn artifacts(
    store: &StoreHandle,
    from: &str,
    to: &str,
    later: &HashSet<(String, u64)>,
) -> Result<Vec<StateWrite>, SystemError> {
    let mut versions = versions(store, from).await?;
    versions.retain(|version, _| !later.contains(version));
    let each = versions.values();
    // Of two versions the row of the later one remains as the latest.
    Ok(each
        .flat_map(|info| operations::artifact_writes(to, info, Expected::Any))
        .collect())
}

/// The entry with which a session goes on by itself, after the entries that it has from another.
pub(in crate::actor) fn branched(
    from: &SessionId,
    values: &Values,
    owner: Option<String>,
) -> Entry {
    let (from, state) = (from.clone(), plain(values));
    Entry::SessionForked { from, state, owner }
}

/// The values that exist, without those that were removed.
pub(in crate::actor) fn plain(values: &Values) -> BTreeMap<String, (Value, u64)> {
    let there = values.iter().filter_map(|(key, (value, version))| {
        let value = value.clone()?;
        Some((key.clone(), (value, *version)))
    });
    there.collect()
}
