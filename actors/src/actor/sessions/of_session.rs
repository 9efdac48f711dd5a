//! The stored contents of one session, through its handle.

use serde_json::Value;

use super::Sessions;
use crate::{
    actor::{Pruned, Session, System, SystemError, launch::first_of},
    session::SessionLog,
    vocabulary::{Artifact, ArtifactInfo, Data, Scope, Transcript},
};

impl System {
    /// The sessions of the store, to list, fork, export and import them.
    pub fn sessions(&self) -> Sessions {
        Sessions::of_system(self.clone())
    }
}

impl Session {
    /// The conversation as it is recorded, up to the last turn that ended.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn transcript(&self) -> Result<Transcript, SystemError> {
        self.kept().check(&self.id).await?;
        let fold = first_of(self.system.store(), &self.id, u64::MAX).await?;
        Ok(fold.transcript)
    }

    /// The sessions of the store, for the methods below.
    fn kept(&self) -> Sessions {
        self.system.sessions()
    }

    /// The turns of the session that count, in order.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn log(&self) -> Result<SessionLog, SystemError> {
        self.kept().log(&self.id).await
    }

    /// A file of one of its turns: see [`Sessions::file`].
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn file(&self, turn: u64, place: usize) -> Result<Option<Data>, SystemError> {
        self.kept().file(&self.id, turn, place).await
    }

    /// Begins another session that goes on from a point of this one: see [`Sessions::fork`].
    ///
    /// # Errors
    /// The errors of [`Sessions::fork`].
    pub async fn fork(&self, turns: u64, key: impl AsRef<str>) -> Result<Self, SystemError> {
        let id = self.kept().fork(&self.id, turns, key).await?;
        let system = self.system.clone();
        Ok(Self { system, id })
    }

    /// Goes back to a point of the session: see [`Sessions::rewind`].
    ///
    /// # Errors
    /// The errors of [`Sessions::rewind`].
    pub async fn rewind(&self, turns: u64) -> Result<(), SystemError> {
        self.kept().rewind(&self.id, turns).await
    }

    /// Deletes the session for good, with its runs: see [`Sessions::delete`].
    ///
    /// # Errors
    /// The errors of [`Sessions::delete`].
    pub async fn delete(&self) -> Result<Pruned, SystemError> {
        self.kept().delete(&self.id).await
    }

    /// The values of a scope of state, by key.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn state(&self, scope: Scope) -> Result<Vec<(String, Value)>, SystemError> {
        self.kept().state(&self.id, &scope).await
    }

    /// The latest version of each artifact of a scope, by name, without its content.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn artifacts(&self, scope: Scope) -> Result<Vec<ArtifactInfo>, SystemError> {
        self.kept().artifacts(&self.id, &scope).await
    }

    /// An artifact of a scope with its content: the latest version, or the given one.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn artifact(
        &self,
        scope: Scope,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<Artifact>, SystemError> {
        let kept = self.kept();
        kept.artifact(&self.id, &scope, name, version).await
    }
}
