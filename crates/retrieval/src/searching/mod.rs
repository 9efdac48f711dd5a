//! A search in several stages: rephrasing the query, searching the index, reranking the results.
//!
//! Each stage but the index is optional. A stage that fails is left out, and the result names it.

mod expansion;
mod rerank;
mod staged;
mod tool;

use std::{fmt, sync::Arc};

use ghostlight_actors::contract::{BoxFuture, ModelError};

pub use self::{
    expansion::{Expansion, QueryExpander},
    rerank::{LexicalReranker, ModelReranker},
    staged::{Staged, StagedSearch, Stages},
    tool::{SearchTool, label, shown},
};
use crate::index::{Found, Index, IndexError, Query, Ranked};

/// How many candidates are reranked for each wanted result, and the most candidates.
const CANDIDATES: (usize, usize) = (4, 50);

/// Reranks results.
pub trait Reranker: Send + Sync + 'static {
    /// The same chunks, with the best for this question first.
    ///
    /// # Errors
    /// The reason why they cannot be reranked.
    fn rerank(
        &self,
        question: &str,
        found: Vec<Found>,
    ) -> impl Future<Output = Result<Vec<Found>, ModelError>> + Send;
}

trait ErasedReranker: Send + Sync {
    fn rerank<'a>(
        &'a self,
        question: &'a str,
        found: Vec<Found>,
    ) -> BoxFuture<'a, Result<Vec<Found>, ModelError>>;
}

impl<R: Reranker> ErasedReranker for R {
    fn rerank<'a>(
        &'a self,
        question: &'a str,
        found: Vec<Found>,
    ) -> BoxFuture<'a, Result<Vec<Found>, ModelError>> {
        Box::pin(Reranker::rerank(self, question, found))
    }
}

/// Searches an index in stages. Clones share it.
#[derive(Clone)]
pub struct Searcher {
    index: Index,
    expander: Option<Arc<QueryExpander>>,
    reranker: Option<Arc<dyn ErasedReranker>>,
}

/// The result of a search, and the stages that failed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SearchResult {
    /// The chunks, the best first.
    pub found: Vec<Found>,
    /// Stages that failed and were left out, each with the reason.
    pub left_out: Vec<String>,
}

impl Searcher {
    /// Searches this index, without further stages.
    pub fn new(index: Index) -> Self {
        Self {
            index,
            expander: None,
            reranker: None,
        }
    }

    /// Rephrases the question with a model, or writes how its answer could read.
    #[must_use]
    pub fn expanded_by(mut self, expander: QueryExpander) -> Self {
        self.expander = Some(Arc::new(expander));
        self
    }

    /// Orders what was found with this reranker.
    #[must_use]
    pub fn reranked_by(mut self, reranker: impl Reranker) -> Self {
        self.reranker = Some(Arc::new(reranker));
        self
    }

    /// The index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The chunks that match a query best. If no vectors can be made, they are ranked by words, unless only vectors were
    /// asked for.
    ///
    /// # Errors
    /// The other errors of [`Index::search`].
    pub async fn search(&self, query: &Query) -> Result<SearchResult, IndexError> {
        let mut left_out = Vec::new();
        let mut asked = query.clone();
        if let Some(expander) = &self.expander {
            match expander.probes(query.text()).await {
                Ok(probes) => asked.probes.extend(probes),
                Err(error) => left_out.push(format!("other words for the question: {error}")),
            }
        }
        if self.reranker.is_some() {
            asked.limit = (query.limit * CANDIDATES.0)
                .min(CANDIDATES.1)
                .max(query.limit);
        }
        let mut found = match self.index.search(&asked).await {
            Err(error @ (IndexError::Embedder(_) | IndexError::Vectors { .. }))
                if asked.ranked == Ranked::Both =>
            {
                left_out.push(format!("the search by meaning: {error}"));
                self.index.search(&asked.ranked(Ranked::Words)).await?
            }
            found => found?,
        };
        if let Some(reranker) = &self.reranker {
            match reranker.rerank(query.text(), found.clone()).await {
                Ok(better) => found = better,
                Err(error) => left_out.push(format!("a better order: {error}")),
            }
        }
        found.truncate(query.limit);
        Ok(SearchResult { found, left_out })
    }
}

impl fmt::Debug for Searcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Searcher")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}
