//! An index of documents: what is found by words and by vectors, in a file of its own.
//!
//! An [`Index`] is a supervised actor over one SQLite file. The file holds what was made of the documents (chunks,
//! their vectors, what is known of each file), and nothing that could not be made again: delete it, and the next
//! [`Index::sync`] makes another one. The actor keeps both rankings in memory, and is made anew from the file when it
//! dies. Another process that writes the file is noticed.
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
mod file;
mod loaded;
mod query;
mod source;
mod sync;
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
};

pub use self::{
    file::{DocumentRow, DocumentStatus},
    loaded::IndexStatistics,
    query::{Filter, Found, Probe, Query, Ranked},
    source::{Folder, Rows, Source, SourceEntry},
    sync::{Progress, SyncOptions, SyncReport},
};

/// How often and in what time the actor may die before the index is given up.
const RESTARTS: (u32, Duration) = (10, Duration::from_secs(60));

/// Why an index cannot do what is asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The file of the index cannot be used.
    #[error("the index {}: {message}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        message: String,
    },
    /// The file holds vectors of another embedder.
    #[error(
        "the index {} was made with {kept}, and not with {wanted}: open it with the same embedder, or have it emptied \
         and index again",
        path.display()
    )]
    OtherVectors {
        /// Which file.
        path: PathBuf,
        /// What made its vectors.
        kept: String,
        /// What would make them now.
        wanted: String,
    },
    /// A folder cannot be read.
    #[error("{}: {message}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// The rows of a database cannot be had.
    #[error("the database {}: {message}", file.display())]
    Rows {
        /// Which file.
        file: PathBuf,
        /// Why, and what to do.
        message: String,
    },
    /// No vectors can be made.
    #[error("no vectors: {0}")]
    Embedder(#[from] ModelError),
    /// The query cannot be answered.
    #[error("{0}")]
    Query(String),
    /// The index was closed, or died too often.
    #[error("the index is closed, or died too often; open it again")]
    Closed,
}

/// An index of documents. Cloning shares it. See the [module](self).
#[derive(Clone)]
pub struct Index {
    path: Arc<Path>,
    embedder: Option<EmbedderHandle>,
    running: Arc<Running>,
    lives: watch::Receiver<Option<ActorRef<Request>>>,
}

impl Index {
    /// Opens the index in this file, and makes it where there is none. With an embedder it finds by vectors too. An
    /// index of an older form is emptied: the next sync fills it again.
    ///
    /// # Errors
    /// When the file cannot be used, is no index, or holds vectors of another embedder: nothing of it is changed
    /// then.
    pub async fn open(
        path: impl Into<PathBuf>,
        embedder: Option<EmbedderHandle>,
    ) -> Result<Self, IndexError> {
        Self::start(Place::File(path.into()), embedder, false).await
    }

    /// Opens the index in this file, and empties it where it was made with another embedder: the next sync fills it
    /// again.
    ///
    /// # Errors
    /// When the file cannot be used, or is no index: nothing of it is changed then.
    pub async fn open_for(
        path: impl Into<PathBuf>,
        embedder: Option<EmbedderHandle>,
    ) -> Result<Self, IndexError> {
        Self::start(Place::File(path.into()), embedder, true).await
    }

    /// An index that is kept in memory, as long as one of its handles.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub async fn in_memory(embedder: Option<EmbedderHandle>) -> Result<Self, IndexError> {
        Self::start(Place::Memory, embedder, false).await
    }

    async fn start(
        place: Place,
        embedder: Option<EmbedderHandle>,
        may_empty: bool,
    ) -> Result<Self, IndexError> {
        let path: Arc<Path> = place.path().into();
        let space = embedder.as_ref().map(|embedder| embedder.space().clone());
        let opened = tokio::task::spawn_blocking(move || {
            IndexFile::open(&place, space.as_deref(), may_empty)
        })
        .await;
        let file = opened.map_err(|_| IndexError::Closed)??;
        let book = Arc::new(Book::new(file));
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
            running: Arc::new(Running(supervisor)),
            lives,
        })
    }

    /// The file that it is kept in; `:memory:` for one in memory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The embedder of its vectors.
    pub fn embedder(&self) -> Option<&EmbedderHandle> {
        self.embedder.as_ref()
    }

    /// Its supervisor, to look at it.
    pub fn supervisor(&self) -> &Supervisor {
        &self.running.0
    }

    /// The chunks that fit a query, the best first.
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
        self.ask(|port| Request::Search(query.clone(), port)).await
    }

    /// What is known of each document, by its folder and name.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub async fn documents(&self) -> Result<Vec<DocumentRow>, IndexError> {
        self.ask(Request::Documents).await
    }

    /// How large the index is.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub async fn statistics(&self) -> Result<IndexStatistics, IndexError> {
        self.ask(Request::Statistics).await
    }

    /// Ends the actor and closes the file. Other handles of this index fail from then on.
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

    /// Asks the actor, and its next life where this one dies with the question: whatever is asked may be asked again.
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
            // The sender is gone when no further life will come.
            lives.changed().await.map_err(|_| IndexError::Closed)?;
        }
    }
}

/// Ends the actor with the last handle.
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
