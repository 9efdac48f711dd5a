//! Documents that are recalled automatically.

use ghostlight_actors::{
    run::PolicyContext,
    vocabulary::{AgentError, Effect, Transcript},
};

use super::IndexedFolder;
use crate::{
    context::ContextSource,
    retrieval::{
        index::{IndexError, Query},
        searching::shown,
    },
};

/// The default number of passages.
const LIMIT: usize = 5;
/// The most characters of a message that are searched for.
const MAX_QUERY_CHARS: usize = 2_000;

/// Finds the passages of a folder that a user's message is about, so that a
/// [`ContextProvider`](crate::context::ContextProvider) can add them to the agent's requests. As a
/// policy of a team file it is `recall_documents`, with the settings of
/// [`DocumentSpec`](super::DocumentSpec), `limit` and `max_tokens`.
///
/// The passages are recorded. If the search fails, the agent continues without them, and an event
/// says so.
#[derive(Clone, Debug)]
pub struct RecalledDocuments {
    folder: IndexedFolder,
    limit: usize,
}

impl RecalledDocuments {
    /// Searches this folder.
    pub fn new(folder: IndexedFolder) -> Self {
        Self {
            folder,
            limit: LIMIT,
        }
    }

    /// Sets the most passages.
    #[must_use]
    pub fn limit(mut self, passages: usize) -> Self {
        self.limit = passages.max(1);
        self
    }
}

impl ContextSource for RecalledDocuments {
    async fn recall(
        &mut self,
        cx: &PolicyContext<'_>,
        said: &Transcript,
    ) -> Result<Option<String>, AgentError> {
        let messages = said.messages();
        let last = messages.iter().rev().find(|said| said.is_from_user());
        let text = last.map(|said| said.content()).unwrap_or_default();
        let text: String = text.chars().take(MAX_QUERY_CHARS).collect();
        if text.trim().is_empty() {
            return Ok(None);
        }
        let query = Query::new(text)
            .limit(self.limit)
            .filter(self.folder.filter())
            .scan(self.folder.scan());
        let folder = self.folder.clone();
        let found = cx.step("recall documents", Effect::Read, async move {
            let result = folder.searcher().await?.search(&query).await?;
            Ok::<_, IndexError>(
                result
                    .found
                    .iter()
                    .map(shown)
                    .collect::<Vec<_>>()
                    .join("\n"),
            )
        });
        match found.await {
            Ok(found) => Ok((!found.is_empty()).then_some(found)),
            Err(error) => {
                cx.emit("documents_not_recalled", &error.to_string());
                Ok(None)
            }
        }
    }
}
