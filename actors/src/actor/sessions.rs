//! What a store keeps of sessions, for whoever looks at it: a System or a command.

use crate::{
    actor::SystemError,
    contract::{StateValue, StoreError, StoreHandle, artifact_scopes},
    run::operations,
    vocabulary::{Artifact, ArtifactInfo, Scope, SessionId},
};

/// What a store keeps of sessions. It needs no team and no System, and looking changes nothing.
#[derive(Clone, Debug)]
pub struct Sessions {
    store: StoreHandle,
}

impl Sessions {
    /// The sessions of this store.
    pub fn of(store: impl Into<StoreHandle>) -> Self {
        Self {
            store: store.into(),
        }
    }

    /// What is known of the latest version of each artifact of a scope, by name. The scope of one
    /// run, [`Scope::Run`], is none of a session's.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn artifacts(
        &self,
        session: &SessionId,
        scope: &Scope,
    ) -> Result<Vec<ArtifactInfo>, SystemError> {
        let Some(scope) = operations::scope_of_session(session, scope) else {
            return Ok(Vec::new());
        };
        let rows = self.store.scope(artifact_scopes::latest(&scope)).await?;
        rows.iter().map(|(_, row)| info(&scope, row)).collect()
    }

    /// An artifact of a scope with its content: its latest version, or one of them.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn artifact(
        &self,
        session: &SessionId,
        scope: &Scope,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<Artifact>, SystemError> {
        let Some(scope) = operations::scope_of_session(session, scope) else {
            return Ok(None);
        };
        let (rows, key) = match version {
            None => (artifact_scopes::latest(&scope), name.to_owned()),
            Some(version) => {
                let key = artifact_scopes::key(name, version);
                (artifact_scopes::versions(&scope), key)
            }
        };
        let Some(row) = self.store.state(rows, key).await? else {
            return Ok(None);
        };
        let info = info(&scope, &row)?;
        let content = self.store.blob(info.content).await?;
        let content = content.ok_or_else(|| StoreError::Damaged {
            place: format!("artifact {info} of {scope}"),
            reason: format!("its content {} is not there", info.content),
        })?;
        Ok(Some(Artifact { info, content }))
    }
}

fn info(scope: &str, row: &StateValue) -> Result<ArtifactInfo, SystemError> {
    let info = serde_json::from_value(row.value.clone()).map_err(|error| StoreError::Damaged {
        place: format!("an artifact of {scope}"),
        reason: error.to_string(),
    });
    Ok(info?)
}
