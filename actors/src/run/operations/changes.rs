//! Reads and changes that tools make of their team's state and artifacts.

use std::{collections::BTreeMap, sync::Arc};

use super::{artifact, state::Place};
use crate::{
    contract::{BoxFuture, Change, StateValue, ToolState, artifact_scopes},
    run::{Attempt, Changes, Leg, Ports, Unsaved, Write, temp::Temp},
    vocabulary::{
        Artifact, ArtifactInfo, Changed, Effect, OperationError, OperationId, RunStart, Scope,
        ToolResult, ToolStatus,
    },
};

/// The state and artifacts that a run's calls may read.
#[derive(Clone, Debug)]
pub(crate) struct TeamToolState {
    ports: Arc<dyn Ports>,
    start: Arc<RunStart>,
    temp: Temp,
}

impl TeamToolState {
    fn of(leg: &Leg, ports: &Arc<dyn Ports>) -> Self {
        Self {
            ports: ports.clone(),
            start: leg.start.clone(),
            temp: leg.temp.clone(),
        }
    }

    /// That of a leg, which its calls share.
    pub(crate) fn shared(leg: &Leg, ports: &Arc<dyn Ports>) -> Arc<dyn ToolState> {
        let made = || Arc::new(Self::of(leg, ports)) as Arc<dyn ToolState>;
        leg.tool_state.get_or_init(made).clone()
    }
}

impl ToolState for TeamToolState {
    fn owner(&self) -> Option<&str> {
        self.start.owner.as_deref()
    }

    fn state(
        &self,
        scope: &Scope,
        key: &str,
    ) -> BoxFuture<'static, Result<Option<StateValue>, OperationError>> {
        let place = Place::of(&self.start, scope);
        if place.scope == Scope::Temp {
            let found = self.temp.get(key).present();
            return Box::pin(async move { Ok(found) });
        }
        let found = self.ports.state(place.store, key.to_owned());
        Box::pin(async move { Ok(found.await?.present()) })
    }

    fn artifact(
        &self,
        scope: &Scope,
        name: &str,
        version: Option<u64>,
    ) -> BoxFuture<'static, Result<Option<Artifact>, OperationError>> {
        let place = Place::of(&self.start, scope);
        let ports = self.ports.clone();
        let info = artifact::look_up(&ports, &place.store, name, version);
        Box::pin(async move {
            let Some(info) = info.await? else {
                return Ok(None);
            };
            let content = artifact::content(&ports, &info).await?;
            Ok(Some(Artifact { info, content }))
        })
    }

    fn artifacts(
        &self,
        scope: &Scope,
    ) -> BoxFuture<'static, Result<Vec<ArtifactInfo>, OperationError>> {
        let place = Place::of(&self.start, scope);
        artifact::list(&self.ports, &place.store)
    }
}

/// The commit of a call's changes. It is tried again when somebody else writes in between.
pub(crate) struct Changing {
    operation: OperationId,
    kept: TeamToolState,
    /// The most bytes of an artifact.
    limit: u64,
    /// Whether the call must not be made again.
    once: bool,
}

impl Changing {
    pub(crate) fn of(
        operation: OperationId,
        leg: &Leg,
        ports: &Arc<dyn Ports>,
        effect: Effect,
    ) -> Self {
        Self {
            operation,
            kept: TeamToolState::of(leg, ports),
            once: effect == Effect::Once,
            limit: leg.pinned.team.max_artifact_bytes(),
        }
    }

    /// The end of a call with its changes.
    pub(crate) fn write(self, result: ToolResult, changes: Vec<Change>) -> Write<ToolResult> {
        let place = changes.first().map(|change| {
            let (Change::State {
                scope, key: name, ..
            }
            | Change::Artifact { scope, name, .. }) = change;
            (Place::of(&self.kept.start, scope).store, name.clone())
        });
        let changing = Arc::new((self, result, changes));
        let made = changing.clone();
        let unsaved: Unsaved<ToolResult> = Arc::new(move |why| {
            let (this, result, _) = &*made;
            unsaved(result, this.once, why)
        });
        let attempt: Attempt<ToolResult> = Arc::new(move || {
            let changing = changing.clone();
            Box::pin(async move {
                let (this, result, changes) = &*changing;
                this.make(result, changes).await
            })
        });
        Write {
            place: place.unwrap_or_default(),
            attempt,
            unsaved: Some(unsaved),
        }
    }

    /// The result as the model reads it, and the changes that are committed with it.
    async fn make(
        &self,
        result: &ToolResult,
        changes: &[Change],
    ) -> Result<(ToolResult, Changes), OperationError> {
        let mut result = result.clone();
        for change in changes {
            if let Change::Artifact {
                scope,
                name,
                content,
                ..
            } = change
            {
                artifact::check(scope, name, content, self.limit)?;
            }
        }
        let mut made = Making {
            changing: self,
            versions: BTreeMap::new(),
            changes: Changes::none(),
        };
        for change in changes {
            if let Some(saved) = made.add(change).await? {
                let line = format!("[saved as {saved}]");
                if !result.text.is_empty() {
                    result.text.push('\n');
                }
                result.text.push_str(&line);
            }
        }
        Ok((result, made.changes))
    }
}

/// The result of a call whose changes were not made, for this reason. For a call that must not be
/// made again, the result says what the call returned.
pub(crate) fn unsaved(result: &ToolResult, once: bool, why: &OperationError) -> ToolResult {
    let (mut result, why) = (result.clone(), &why.message);
    if once {
        if !result.text.is_empty() {
            result.text.push('\n');
        }
        result.text.push_str(&format!(
            "[What this call wanted to save was not saved: {why}. The call itself was made, and must \
             not be repeated.]"
        ));
    } else {
        result.status = ToolStatus::Error;
        result.text = format!("Nothing was saved: {why}.");
    }
    result
}

struct Making<'a> {
    changing: &'a Changing,
    /// Each value after the writes so far: whether it exists, how often it was changed, and the
    /// version of an artifact.
    versions: BTreeMap<(String, String), (bool, u64, u64)>,
    changes: Changes,
}

impl Making<'_> {
    /// Adds a change, and returns the artifact that it saves, if any.
    async fn add(&mut self, change: &Change) -> Result<Option<ArtifactInfo>, OperationError> {
        let TeamToolState { ports, start, temp } = &self.changing.kept;
        match change {
            Change::State { scope, key, value } => {
                let place = Place::of(start, scope);
                let at = (place.store.clone(), key.clone());
                let known = self.versions.get(&at);
                let (is_there, before) = match known.map(|known| (known.0, known.1)) {
                    Some(known) => known,
                    None => {
                        let found = match place.scope {
                            Scope::Temp => temp.get(key),
                            _ => ports.state(at.0.clone(), at.1.clone()).await?,
                        };
                        (found.value.is_some(), found.version)
                    }
                };
                if !is_there && value.is_none() {
                    return Ok(None);
                }
                self.versions.insert(at, (value.is_some(), before + 1, 0));
                let change = (value.clone(), before);
                let op = self.changing.operation;
                self.changes.put(op, &place, key.clone(), change);
                Ok(None)
            }
            Change::Artifact {
                scope,
                name,
                media_type,
                content,
            } => {
                let place = Place::of(start, scope);
                let at = (artifact_scopes::latest(&place.store), name.clone());
                let (written, latest) = match self.versions.get(&at) {
                    Some(known) => (known.1, known.2),
                    None => artifact::written(ports, &place.store, name).await?,
                };
                let (version, now) = ((&*place.store, &**name, &**media_type), ports.clock().now());
                let info = (self.changes).save(version, content, (written, latest), now);
                self.versions.insert(at, (true, written + 1, info.version));
                let (scope, artifact) = (place.scope, info.clone());
                let changed = Changed::Artifact { scope, artifact };
                self.changes.tell(self.changing.operation, changed);
                Ok(Some(info))
            }
        }
    }
}
