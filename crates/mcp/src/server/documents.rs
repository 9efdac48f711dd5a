//! The documents that a program itself offers as resources.

use std::{collections::BTreeMap, fmt, future::Future, pin::Pin, sync::Arc};

use super::template;

/// A document that every client may read.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) media_type: String,
    pub(super) content: Arc<[u8]>,
}

type Reading = Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send>>;

/// A template of document addresses; every client may read the documents.
#[derive(Clone)]
pub(super) struct DocumentTemplate {
    pub(super) template: String,
    pub(super) media_type: String,
    read: Arc<dyn Fn(BTreeMap<String, String>) -> Reading + Send + Sync>,
}

impl DocumentTemplate {
    pub(super) fn new<F, R>(template: String, media_type: String, read: F) -> Self
    where
        F: Fn(BTreeMap<String, String>) -> R + Send + Sync + 'static,
        R: Future<Output = Option<Vec<u8>>> + Send + 'static,
    {
        Self {
            template,
            media_type,
            read: Arc::new(move |values| Box::pin(read(values))),
        }
    }

    pub(super) fn leads_to(&self, uri: &str) -> bool {
        template::matched(&self.template, uri).is_some()
    }

    /// The document at an address, if it is one of these.
    pub(super) async fn at(&self, uri: &str) -> Option<Document> {
        let values = template::matched(&self.template, uri)?;
        let content = (self.read)(values).await?;
        Some(Document {
            media_type: self.media_type.clone(),
            content: content.into(),
        })
    }
}

impl fmt::Debug for DocumentTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentTemplate")
            .field("template", &self.template)
            .finish_non_exhaustive()
    }
}
