//! A tool's access to the state and artifacts of its team.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::{Change, ToolContext, ToolError, ToolOutput, ToolState};
use crate::vocabulary::{Artifact, ArtifactInfo, Scope};

impl ToolContext {
    fn kept(&self) -> Result<&Arc<dyn ToolState>, ToolError> {
        let outside = || ToolError::new("outside of a run nothing is kept");
        self.kept.as_ref().ok_or_else(outside)
    }

    /// The owner of the session of the run that calls, where it is known.
    pub fn owner(&self) -> Option<&str> {
        self.kept.as_ref()?.owner()
    }

    /// A value of shared state. To change one, return it with [`ToolOutput::set`].
    ///
    /// # Errors
    /// When the value is not of this type, when the store fails, and outside of a run.
    pub async fn state<T: DeserializeOwned>(
        &self,
        scope: &Scope,
        key: &str,
    ) -> Result<Option<T>, ToolError> {
        let found = self.kept()?.state(scope, key).await?;
        let value = found.map(|found| serde_json::from_value(found.value));
        Ok(value.transpose()?)
    }

    /// An artifact: its latest version, or one of them. To save one, return it with
    /// [`ToolOutput::save`].
    ///
    /// # Errors
    /// When the store fails, and outside of a run.
    pub async fn artifact(
        &self,
        scope: &Scope,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<Artifact>, ToolError> {
        Ok(self.kept()?.artifact(scope, name, version).await?)
    }

    /// The descriptions of the latest versions of all artifacts, by name.
    ///
    /// # Errors
    /// When the store fails, and outside of a run.
    pub async fn artifacts(&self, scope: &Scope) -> Result<Vec<ArtifactInfo>, ToolError> {
        Ok(self.kept()?.artifacts(scope).await?)
    }
}

impl ToolOutput {
    /// Changes a value of shared state, together with this result. The change is made exactly once,
    /// when the result is recorded, and not at all where the call is in doubt.
    ///
    /// # Errors
    /// When the value has no form as JSON.
    pub fn set<T: serde::Serialize>(
        self,
        scope: Scope,
        key: impl Into<String>,
        value: &T,
    ) -> Result<Self, ToolError> {
        let value = Some(serde_json::to_value(value)?);
        let key = key.into();
        Ok(self.changing(Change::State { scope, key, value }))
    }

    /// Deletes a value of shared state, together with this result.
    #[must_use]
    pub fn delete(self, scope: Scope, key: impl Into<String>) -> Self {
        let (key, value) = (key.into(), None);
        self.changing(Change::State { scope, key, value })
    }

    /// Saves this as the next version of an artifact, together with this result. After the result's text the model
    /// reads which version it is. Where the name or the size is refused, the call fails and nothing is changed.
    #[must_use]
    pub fn save(
        self,
        scope: Scope,
        name: impl Into<String>,
        media_type: impl Into<String>,
        content: impl Into<Arc<[u8]>>,
    ) -> Self {
        self.changing(Change::Artifact {
            scope,
            name: name.into(),
            media_type: media_type.into(),
            content: content.into(),
        })
    }

    fn changing(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }
}
