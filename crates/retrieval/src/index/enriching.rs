//! The text by which a chunk is found.

use std::{fmt, sync::Arc};

use ghostlight_actors::contract::{BoxFuture, ModelError};

use crate::{chunking::Chunk, readers::Metadata};

/// The most characters of an enriched text that count.
const MAX_CHARS: usize = 20_000;

/// A chunk, and the document that it is of.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Enriching<'d> {
    /// The document's name.
    pub name: &'d str,
    /// Its own title, if it has one.
    pub title: Option<&'d str>,
    /// Its properties.
    pub metadata: &'d Metadata,
    /// Its whole text.
    pub text: &'d str,
    /// The chunk.
    pub chunk: &'d Chunk,
}

/// Writes the text by which a chunk is found, by words and by vectors: the chunk, with what a reader of the whole
/// document knows. Without one it is the chunk below its document's title and its headings
/// ([`Chunk::in_context`]). What is shown of a chunk that was found is its own text in any case.
pub trait Enricher: Send + Sync + 'static {
    /// A name that changes with what it writes: documents are enriched again when it differs.
    fn name(&self) -> String;

    /// The text of a chunk.
    ///
    /// # Errors
    /// A failure, after which the document counts as failed; it is tried again if another attempt may help.
    fn enrich(
        &self,
        passage: Enriching<'_>,
    ) -> impl Future<Output = Result<String, ModelError>> + Send;
}

trait ErasedEnricher: Send + Sync {
    fn name(&self) -> String;
    fn enrich<'a>(&'a self, passage: Enriching<'a>) -> BoxFuture<'a, Result<String, ModelError>>;
}

impl<E: Enricher> ErasedEnricher for E {
    fn name(&self) -> String {
        Enricher::name(self)
    }

    fn enrich<'a>(&'a self, passage: Enriching<'a>) -> BoxFuture<'a, Result<String, ModelError>> {
        Box::pin(Enricher::enrich(self, passage))
    }
}

/// An enricher of any kind. Clones share it.
#[derive(Clone)]
pub struct EnricherHandle(Arc<dyn ErasedEnricher>);

impl EnricherHandle {
    /// Keeps an enricher.
    pub fn new(enricher: impl Enricher) -> Self {
        Self(Arc::new(enricher))
    }

    pub(super) fn name(&self) -> String {
        self.0.name()
    }

    pub(super) async fn enrich(&self, passage: Enriching<'_>) -> Result<String, ModelError> {
        let text = self.0.enrich(passage).await?;
        Ok(match text.char_indices().nth(MAX_CHARS) {
            Some((end, _)) => text[..end].to_owned(),
            None => text,
        })
    }
}

impl<E: Enricher> From<E> for EnricherHandle {
    fn from(enricher: E) -> Self {
        Self::new(enricher)
    }
}

impl fmt::Debug for EnricherHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnricherHandle({})", self.name())
    }
}
