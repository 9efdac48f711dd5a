//! The current topics of a run.

use std::collections::BTreeMap;

use super::{Run, SystemError, acting::Use};
use crate::run::operations::{TopicCounts, run_scope, topics_among};

impl Run {
    /// The topics that the run shares with its tree, by name: how many events were published, and how
    /// each queue stands. Topics of a session, a user or a team outlast runs and are not among them.
    ///
    /// # Errors
    /// [`SystemError::UnknownRun`]; [`SystemError::Foreign`]; what the store fails with.
    pub async fn topics(&self) -> Result<BTreeMap<String, TopicCounts>, SystemError> {
        self.check(Use::Look).await?;
        let root = self.current().await?.status().await?.root;
        let store = self.system.store();
        Ok(topics_among(store.scope(run_scope(root)).await?))
    }
}
