//! Documents that are recalled automatically.

use ghostlight_actors::{
    run::PolicyContext,
    vocabulary::{AgentError, Effect, Message, ModelRequest, Transcript},
};
use serde::{Deserialize, Serialize};

use super::IndexedFolder;
use crate::{
    context::ContextSource,
    retrieval::{
        index::{IndexError, Query},
        searching::{Staged, StagedSearch, shown},
    },
};

/// The default number of passages.
const LIMIT: usize = 5;
/// The most characters of a message that are searched for.
const MAX_QUERY_CHARS: usize = 2_000;

/// A part of a search: a question to the agent's model, or the passages.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Part {
    Found(String),
    Asks(String, StagedSearch),
}

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
        let last = said.last_from_user().and_then(|place| said.get(place));
        let text = last.map(|said| said.content()).unwrap_or_default();
        let text: String = text.chars().take(MAX_QUERY_CHARS).collect();
        if text.trim().is_empty() {
            return Ok(None);
        }
        let query = Query::new(text)
            .limit(self.limit)
            .filter(self.folder.filter())
            .scan(self.folder.scan())
            .diversity(self.folder.settings().diversity);
        let stages = self.folder.stages();
        let mut search = StagedSearch::new();
        loop {
            let (folder, query, mut begun) = (self.folder.clone(), query.clone(), search.clone());
            let part = cx.step("recall documents", Effect::Read, async move {
                let searcher = folder.searcher().await?;
                let staged = begun.next(searcher, &folder.stages(), &query).await?;
                Ok::<_, IndexError>(match staged {
                    Staged::Ask(prompt) => Part::Asks(prompt, begun),
                    Staged::Found(result) => {
                        let found: Vec<String> = result.found.iter().map(shown).collect();
                        Part::Found(found.join("\n"))
                    }
                })
            });
            let prompt = match part.await {
                Ok(Part::Found(found)) => return Ok((!found.is_empty()).then_some(found)),
                Ok(Part::Asks(prompt, begun)) => {
                    search = begun;
                    prompt
                }
                Err(error) => {
                    cx.emit("documents_not_recalled", &error.to_string());
                    return Ok(None);
                }
            };
            let request = ModelRequest::new(Transcript::from_iter([Message::user(prompt)]));
            match cx.model(request).await {
                Ok(response) => search.answered(&stages, Ok(&response.content())),
                Err(AgentError::Operation(error)) => {
                    search.answered(&stages, Err(&error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
    }
}
