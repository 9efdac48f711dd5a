use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::{PlainOperation, state::Place};
use crate::{
    contract::{BoxFuture, Expected, StateValue, StateWrite, artifact_scopes},
    run::{
        Attempt, Begin, Changes, Composed, Gate, Performing, Ports, RunContext, Write, leg::Leg,
        load::RecordedDelivery, read_result, recorded_change::SAVE,
    },
    vocabulary::{Artifact, ArtifactInfo, Digest, ErrorKind, OperationError, Scope, Timestamp},
};

/// The kind of the operation that loads an artifact, as journals have it.
pub(crate) const LOAD: &str = "artifact_load";

/// The artifacts of one scope: named, versioned files. Every use is an operation. A saved artifact
/// becomes durable and visible to others together with its entry. An entry holds the content's hash
/// and not the content.
#[derive(Debug)]
pub struct Artifacts<'a> {
    cx: &'a RunContext,
    place: Place,
}

/// Checks that this content can be saved under this name.
pub(super) fn check(
    scope: &Scope,
    name: &str,
    content: &[u8],
    limit: u64,
) -> Result<(), OperationError> {
    if *scope == Scope::Temp {
        let message = "an artifact is kept, so it cannot be of the scope `temp`; use `run`";
        return Err(OperationError::new(ErrorKind::InvalidInput, message));
    }
    if let Some(fault) = ArtifactInfo::fault_of_name(name) {
        return Err(OperationError::new(ErrorKind::InvalidInput, fault));
    }
    let bytes = content.len() as u64;
    if bytes > limit {
        let message = format!(
            "the artifact {name:?} has {bytes} bytes, but the team keeps at most {limit} of one; \
             save less, or raise `max_artifact_bytes` of the team"
        );
        return Err(OperationError::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}

/// How often a name was written, and the number of its latest version.
pub(super) async fn written(
    ports: &Arc<dyn Ports>,
    scope: &str,
    name: &str,
) -> Result<(u64, u64), OperationError> {
    let rows = artifact_scopes::latest(scope);
    let found = ports.state(rows, name.to_owned()).await?;
    let written = found.version;
    let info = found.present().as_ref().map(read).transpose()?;
    Ok((written, info.map_or(0, |info| info.version)))
}

impl Changes {
    /// Saves the next version of a name that was [written] so often.
    pub(super) fn save(
        &mut self,
        (scope, name, media_type): (&str, &str, &str),
        content: &Arc<[u8]>,
        (written, latest): (u64, u64),
        at: Timestamp,
    ) -> ArtifactInfo {
        let info = ArtifactInfo::of(name, latest + 1, media_type, content, at);
        let writes = writes(scope, &info, Expected::Version(written));
        self.writes.extend(writes);
        self.blobs.push((info.content, content.clone()));
        info
    }
}

/// The rows of a new version: one as the latest version, and one among all versions.
pub(crate) fn writes(scope: &str, info: &ArtifactInfo, expected: Expected) -> Vec<StateWrite> {
    let write = |scope: String, key: String, expected: Expected| StateWrite {
        scope,
        key,
        value: to_raw_value(info).ok(),
        expected,
    };
    let latest = artifact_scopes::latest(scope);
    let key = artifact_scopes::key(&info.name, info.version);
    vec![
        write(latest, info.name.clone(), expected),
        write(artifact_scopes::versions(scope), key, Expected::Any),
    ]
}

pub(super) fn read(found: &StateValue) -> Result<ArtifactInfo, OperationError> {
    ArtifactInfo::deserialize(&found.value).map_err(|error| {
        let message = format!("the store's row of an artifact cannot be read: {error}");
        OperationError::new(ErrorKind::Malformed, message)
    })
}

/// The information about an artifact: about its latest version, or about the given one.
pub(super) fn look_up(
    ports: &Arc<dyn Ports>,
    scope: &str,
    name: &str,
    version: Option<u64>,
) -> BoxFuture<'static, Result<Option<ArtifactInfo>, OperationError>> {
    let (rows, key) = artifact_scopes::row(scope, name, version);
    let row = ports.state(rows, key);
    Box::pin(async move { row.await?.present().as_ref().map(read).transpose() })
}

/// The information about the latest version of each artifact of a scope, by name.
pub(super) fn list(
    ports: &Arc<dyn Ports>,
    scope: &str,
) -> BoxFuture<'static, Result<Vec<ArtifactInfo>, OperationError>> {
    let (store, scope) = (ports.store().clone(), artifact_scopes::latest(scope));
    Box::pin(async move {
        let rows = store.scope(scope).await?;
        rows.iter().map(|(_, row)| read(row)).collect()
    })
}

/// The content of an artifact, which exists as long as the artifact's row.
pub(super) async fn content(
    ports: &Arc<dyn Ports>,
    info: &ArtifactInfo,
) -> Result<Arc<[u8]>, OperationError> {
    let found = ports.store().blob(info.content).await;
    let mut error = match found {
        Ok(Some(content)) => return Ok(content),
        Ok(None) => {
            let missing = format!("the store has no blob {}", info.content);
            OperationError::new(ErrorKind::Store, missing)
        }
        Err(error) => error.into(),
    };
    error.message = format!("the content of {info} cannot be read: {}", error.message);
    Err(error)
}

/// The record of a loaded artifact. `None` when there was none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Loaded(pub(super) Option<ArtifactInfo>);

/// The content to which the result of an operation refers, if any.
pub(crate) fn content_of(kind: &str, result: &RawValue) -> Option<Digest> {
    if kind != LOAD {
        return None;
    }
    let Loaded(info) = read_result(result)?;
    info.map(|info| info.content)
}

impl Leg {
    /// The content to which a recorded result refers, if any.
    pub(crate) fn content_of(&self, next: &RecordedDelivery) -> Option<Digest> {
        let machine = self.machine();
        content_of(&machine.recorded(next.op)?.identity.kind, &next.result)
    }
}

impl Artifacts<'_> {
    /// Saves this as the next version of the name, and returns its information.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] when it has more bytes than the team allows,
    /// [`ErrorKind::InvalidInput`] for a name that cannot be used.
    pub fn save(
        &self,
        name: impl Into<String>,
        media_type: impl Into<String>,
        content: impl Into<Arc<[u8]>>,
    ) -> Performing<PlainOperation<ArtifactInfo>> {
        let (artifact, media_type, content) = (name.into(), media_type.into(), content.into());
        let (place, name) = (self.place.clone(), self.place.recorded(&artifact));
        let parts = [
            name.as_bytes(),
            media_type.as_bytes(),
            &Digest::of(&content).0,
        ];
        let digest = Digest::of_parts(&parts);
        self.cx
            .perform(PlainOperation::new(SAVE, name, digest, move |cx| {
                let limit = cx.leg.pinned.team.max_artifact_bytes();
                if let Err(error) = check(&place.scope, &artifact, &content, limit) {
                    return Begin::Ready(Err(error));
                }
                let latest = (artifact_scopes::latest(&place.store), artifact.clone());
                let saving = Arc::new((place.store, artifact, media_type, content));
                let attempt: Attempt<ArtifactInfo> = Arc::new(move || {
                    let (saving, ports) = (saving.clone(), cx.ports.clone());
                    Box::pin(async move {
                        let (store, artifact, media_type, content) = &*saving;
                        let before = written(&ports, store, artifact).await?;
                        let (mut changes, now) = (Changes::none(), ports.clock().now());
                        let version = (&**store, &**artifact, &**media_type);
                        let info = changes.save(version, content, before, now);
                        Ok((info, changes))
                    })
                });
                Begin::Write(Write::new(latest, attempt))
            }))
    }

    /// The latest version of an artifact; `None` when there is none of this name.
    ///
    /// # Errors
    /// The errors of the store.
    pub fn load(&self, name: impl Into<String>) -> Composed<Option<Artifact>> {
        self.load_any(name.into(), None)
    }

    /// A version of an artifact; `None` when it was never saved.
    ///
    /// # Errors
    /// The errors of the store.
    pub fn load_version(
        &self,
        name: impl Into<String>,
        version: u64,
    ) -> Composed<Option<Artifact>> {
        self.load_any(name.into(), Some(version))
    }

    /// Loads an artifact. The entry holds its information. The content comes from the store by its hash, live and in
    /// replay alike.
    fn load_any(&self, artifact: String, version: Option<u64>) -> Composed<Option<Artifact>> {
        let (store, name) = (self.place.store.clone(), self.place.recorded(&artifact));
        let of_version = version.map_or_else(String::new, |v| v.to_string());
        let digest = Digest::of_parts(&[name.as_bytes(), of_version.as_bytes()]);
        let loading = self
            .cx
            .perform(PlainOperation::new(LOAD, name, digest, move |cx| {
                let look = look_up(&cx.ports, &store, &artifact, version);
                Begin::act(Gate::After, async move {
                    let info = look.await?;
                    if let Some(info) = &info {
                        let content = content(&cx.ports, info).await?;
                        cx.leg.books.lock().contents.insert(cx.id, content);
                    }
                    Ok(Loaded(info))
                })
            }));
        let (leg, id) = (self.cx.leg().clone(), loading.id());
        Composed(Box::pin(async move {
            let Loaded(Some(info)) = loading.await? else {
                return Ok(None);
            };
            let content = leg.books.lock().contents.remove(&id);
            let content = content.ok_or_else(|| {
                let message = format!("the content of {info} was not at hand");
                OperationError::new(ErrorKind::Store, message)
            })?;
            Ok(Some(Artifact { info, content }))
        }))
    }

    /// The information about the latest version of each artifact, by name.
    pub fn list(&self) -> Performing<PlainOperation<Vec<ArtifactInfo>>> {
        let (store, name) = (self.place.store.clone(), self.place.scope.to_string());
        let digest = Digest::of(name.as_bytes());
        self.cx.perform(PlainOperation::new(
            "artifact_list",
            name,
            digest,
            move |cx| Begin::act(Gate::After, list(&cx.ports, &store)),
        ))
    }
}

impl RunContext {
    /// The artifacts of a scope.
    pub fn artifacts(&self, scope: Scope) -> Artifacts<'_> {
        Artifacts {
            cx: self,
            place: Place::of(self.start(), &scope),
        }
    }
}
