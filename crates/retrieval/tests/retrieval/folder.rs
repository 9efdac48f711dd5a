//! A folder of documents for a test, and an embedder that counts.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use ghostlight_actors::{
    contract::{Embedder, Embedding, EmbeddingPurpose, EmbeddingSpace, ModelError},
    vocabulary::ErrorKind,
};
use ghostlight_retrieval::LexicalEmbedder;

/// A folder that is deleted with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!(
            "ghostlight-retrieval-{}-{name}",
            std::process::id()
        ));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("docs")).unwrap();
        Self(path)
    }

    /// Where documents are.
    pub(crate) fn docs(&self) -> PathBuf {
        self.0.join("docs")
    }

    /// The file of the index.
    pub(crate) fn index(&self) -> PathBuf {
        self.0.join("the.index")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.docs().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Counts the texts that it is asked for, and fails where it is told to.
#[derive(Clone, Default)]
pub(crate) struct Counting {
    pub(crate) texts: Arc<AtomicUsize>,
    pub(crate) is_down: Arc<AtomicBool>,
    pub(crate) version: u32,
}

impl Embedder for Counting {
    fn space(&self) -> EmbeddingSpace {
        let mut space = LexicalEmbedder::new(64).space();
        space.name = format!("counting-{}", self.version);
        space
    }

    async fn embed(
        &self,
        texts: &[&str],
        purpose: EmbeddingPurpose,
    ) -> Result<Vec<Embedding>, ModelError> {
        if self.is_down.load(Ordering::Relaxed) {
            return Err(ModelError::new(ErrorKind::Overloaded, "the server is down").retryable());
        }
        self.texts.fetch_add(texts.len(), Ordering::Relaxed);
        LexicalEmbedder::new(64).embed(texts, purpose).await
    }
}
