//! An index of documents, searched by words and by vectors, in a file of its own.
//!
//! An [`Index`] is a supervised actor over one SQLite file. The file holds derived data only (chunks, their vectors,
//! the state of each source file): if it is deleted, the next [`Index::sync`] makes another one. The actor keeps both
//! rankings in memory, and rebuilds them from the file after a crash. It notices when another process writes the file.
//!
//! ```
//! use ghostlight_retrieval::{LexicalEmbedder, index::{Index, Query, SyncOptions}};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! # let folder = std::env::temp_dir().join(format!("ghostlight-index-{}", std::process::id()));
//! # std::fs::create_dir_all(folder.join("docs"))?;
//! # std::fs::write(folder.join("docs/faq.md"), "# Parcels\n\nThey are brought by noon.")?;
//! let index = Index::open(folder.join("docs.index"), Some(LexicalEmbedder::default().into())).await?;
//! let report = index.sync(folder.join("docs"), &SyncOptions::default(), |_| {}).await?;
//! assert_eq!((report.indexed, report.failed.len()), (1, 0));
//! let found = index.search(&Query::new("when is a parcel brought?")).await?;
//! assert_eq!(found[0].source(), "faq.md > Parcels");
//! index.close().await;
//! # std::fs::remove_dir_all(folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

mod actor;
mod columns;
mod elsewhere;
mod enriching;
mod file;
mod loaded;
mod query;
mod single;
mod source;
mod sync;
mod vector_store;
mod walk;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ghostlight_actors::{
    actor::supervisor::{Child, ChildSpec, Strategy, Supervisor, SupervisorSpec},
    contract::{EmbedderHandle, EmbeddingPurpose, ModelError},
};
use ractor::{ActorRef, RpcReplyPort, rpc::CallResult};
use tokio::sync::watch;

use self::{
    actor::{Book, IndexActor, Request},
    file::{IndexFile, Place},
    vector_store::ErasedVectorStore,
};

pub use self::{
    enriching::{Enricher, EnricherHandle, Enriching},
    file::{DocumentRow, DocumentStatus},
    loaded::{IndexHealth, IndexStatistics},
    query::{Filter, Found, Probe, Query, Ranked},
    single::NewDocument,
    source::{Folder, Reading, RowEntries, RowValue, Rows, Source, SourceEntry},
    sync::{Progress, SyncOptions, SyncReport},
    vector_store::{InMemoryVectors, VectorId, VectorStore, VectorStoreError},
};

/// How many crashes of the actor, in which time, end the index.
const RESTARTS: (u32, Duration) = (10, Duration::from_secs(60));

/// Why an index operation failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The file of the index cannot be used.
    #[error("the index {}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault in it, and what to do.
        message: String,
    },
    /// The file has vectors of another embedder.
    #[error(
        "the index {} was made with {kept}, and not with {wanted}: open it with the same embedder, or have it emptied \
         and index again",
        path.display()
    )]
    OtherVectors {
        /// The file.
        path: PathBuf,
        /// The embedder of its vectors.
        kept: String,
        /// The embedder that was given.
        wanted: String,
    },
    /// A folder cannot be read.
    #[error("{}: {message}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        message: String,
    },
    /// The rows of a database cannot be read.
    #[error("the database {}: {message}", file.display())]
    Rows {
        /// The database file, or the address of its server.
        file: PathBuf,
        /// The reason, and what to do.
        message: String,
    },
    /// A single document cannot be indexed.
    #[error("the document {name:?} is not indexed: {message}")]
    Document {
        /// Its name.
        name: String,
        /// The reason.
        message: String,
    },
    /// The store of the vectors fails: see [`Index::open_with`].
    #[error("the store of the vectors: {message}; the next sync puts it right")]
    Vectors {
        /// The reason.
        message: String,
    },
    /// No vectors can be made.
    #[error("no vectors: {0}")]
    Embedder(#[from] ModelError),
    /// The query cannot be answered.
    #[error("{0}")]
    Query(String),
    /// The index was closed, or crashed too often.
    #[error("the index is closed, or died too often; open it again")]
    Closed,
}

ghostlight_actors::parts_of_system_error!(IndexError);

/// An index of documents. Clones share it. See the [module](self).
#[derive(Clone)]
pub struct Index {
    path: Arc<Path>,
    embedder: Option<EmbedderHandle>,
    vectors: Option<Arc<dyn ErasedVectorStore>>,
    running: Arc<Running>,
    lives: watch::Receiver<Option<ActorRef<Request>>>,
}

impl Index {
    /// Opens the index in this file, or creates it. With an embedder it searches by vectors, too. An index of an older
    /// version is emptied: the next sync fills it again.
    ///
    /// # Errors
    /// The file cannot be used, is not an index, or has vectors of another embedder. Then it is left unchanged.
    pub async fn open(
        path: impl Into<PathBuf>,
        embedder: Option<EmbedderHandle>,
    ) -> Result<Self, IndexError> {
        Self::start(Place::File(path.into()), embedder, false, None).await
    }

    /// Opens the index in this file, with its vectors in a store of their own, such as a vector database, and not in the
    /// memory of this process. Searches ask the store; [`Query::diversity`] needs vectors in memory and has no effect. After each change, and with each
    /// sync, the store gets what it lacks from the file, and loses what is gone.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with(
        path: impl Into<PathBuf>,
        embedder: EmbedderHandle,
        vectors: impl VectorStore,
    ) -> Result<Self, IndexError> {
        let vectors: Arc<dyn ErasedVectorStore> = Arc::new(vectors);
        Self::start(
            Place::File(path.into()),
            Some(embedder),
            false,
            Some(vectors),
        )
        .await
    }

    /// Opens the index in this file, and empties it if it was made with another embedder: the next sync fills it again.
    ///
    /// # Errors
    /// The file cannot be used, or is not an index. Then it is left unchanged.
    pub async fn open_for(
        path: impl Into<PathBuf>,
        embedder: Option<EmbedderHandle>,
    ) -> Result<Self, IndexError> {
        Self::start(Place::File(path.into()), embedder, true, None).await
    }

    /// An index in memory, which exists as long as one of its handles.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub async fn in_memory(embedder: Option<EmbedderHandle>) -> Result<Self, IndexError> {
        Self::start(Place::Memory, embedder, false, None).await
    }

    async fn start(
        place: Place,
        embedder: Option<EmbedderHandle>,
        may_empty: bool,
        vectors: Option<Arc<dyn ErasedVectorStore>>,
    ) -> Result<Self, IndexError> {
        let path: Arc<Path> = place.path().into();
        let space = embedder.as_ref().map(|embedder| embedder.space().clone());
        let opened = tokio::task::spawn_blocking(move || {
            IndexFile::open(&place, space.as_deref(), may_empty)
        })
        .await;
        let file = opened.map_err(|_| IndexError::Closed)??;
        let book = Arc::new(Book::new(file, vectors.is_none()));
        let (lives_sender, lives) = watch::channel(None);
        let lives_sender = Arc::new(lives_sender);
        let child = Child::of(ChildSpec::worker("index"), move || {
            (IndexActor, (book.clone(), lives_sender.clone()))
        });
        let spec = SupervisorSpec::new(Strategy::OneForOne).intensity(RESTARTS.0, RESTARTS.1);
        let started = Supervisor::builder(spec).child(child).start().await;
        let (supervisor, _) = started.map_err(|error| IndexError::File {
            path: path.to_path_buf(),
            message: error.to_string(),
        })?;
        Ok(Self {
            path,
            embedder,
            vectors,
            running: Arc::new(Running(supervisor)),
            lives,
        })
    }

    /// The path of its file; `:memory:` for an index in memory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The embedder of its vectors.
    pub fn embedder(&self) -> Option<&EmbedderHandle> {
        self.embedder.as_ref()
    }

    /// Its supervisor, for inspection.
    pub fn supervisor(&self) -> &Supervisor {
        &self.running.0
    }

    /// The chunks that match a query, the best first.
    ///
    /// # Errors
    /// When the query is empty or too long, no vector of it can be made, or the index cannot be read.
    pub async fn search(&self, query: &Query) -> Result<Vec<Found>, IndexError> {
        query.check()?;
        let mut query = query.clone();
        if let Some(embedder) = &self.embedder
            && query.ranked != Ranked::Words
        {
            for probe in &mut query.probes {
                if probe.vector.is_none() {
                    let vector = embedder.embed_one(&probe.text, probe.purpose);
                    probe.vector = Some(vector.await?);
                }
            }
        }
        self.near(&mut query).await?;
        self.ask(|port| Request::Search(query.clone(), port)).await
    }

    /// The stored data of each document, sorted by folder and name.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub async fn documents(&self) -> Result<Vec<DocumentRow>, IndexError> {
        self.ask(Request::Documents).await
    }

    /// The size of the index.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub async fn statistics(&self) -> Result<IndexStatistics, IndexError> {
        self.ask(Request::Statistics).await
    }

    /// Stops the actor and closes the file. Other handles of this index fail from then on.
    pub async fn close(&self) {
        self.running.0.stop().await;
    }

    /// The vectors of these texts, where there is an embedder.
    async fn vectors(&self, texts: &[&str]) -> Result<Option<Vec<Vec<f32>>>, ModelError> {
        match &self.embedder {
            Some(embedder) => {
                let vectors = embedder.embed(texts, EmbeddingPurpose::Document).await?;
                Ok(Some(vectors))
            }
            None => Ok(None),
        }
    }

    /// Asks the actor, and asks its next life if this one dies with the question: every request may be repeated.
    async fn ask<T: Send + 'static>(
        &self,
        request: impl Fn(RpcReplyPort<Result<T, IndexError>>) -> Request,
    ) -> Result<T, IndexError> {
        let mut lives = self.lives.clone();
        loop {
            let life = lives.borrow_and_update().clone();
            if let Some(actor) = life
                && let Ok(CallResult::Success(answer)) = actor.call(&request, None).await
            {
                return answer;
            }
            // The sender is dropped when there will be no further life.
            lives.changed().await.map_err(|_| IndexError::Closed)?;
        }
    }
}

/// Stops the actor when the last handle is dropped.
struct Running(Supervisor);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.actor().stop(None);
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("path", &self.path)
            .field("embedder", &self.embedder)
            .finish_non_exhaustive()
    }
}
