//! A folder, rows of a database or pages of the web, with an index that is made at the first search and kept up to
//! date.

use std::{path::PathBuf, sync::Arc, time::Duration};

use ghostlight_actors::{
    contract::{EmbedderHandle, Tool, ToolContext, ToolError, ToolOutput},
    vocabulary::{Arguments, ToolDefinition, seconds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{Mutex, OnceCell},
    time::Instant,
};

#[cfg(feature = "postgres")]
use super::{
    postgres_vectors::{PostgresVectors, VectorStoreSpec},
    server_rows::ServerRows,
};
#[cfg(feature = "postgres")]
use crate::models::Secret;
use crate::{
    models::EmbedderSpec,
    retrieval::{
        chunking::{Chunker, Structure},
        index::{Filter, Index, IndexError, Rows, Source as _, SyncOptions, SyncReport},
        readers::Readers,
        searching::{LexicalReranker, SearchTool, Searcher, Stages},
        vectors::Scan,
    },
};

/// Which rows of a database are documents: those of a SQLite file, or of a PostgreSQL server. See [`Rows`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DatabaseSpec {
    /// The file of a SQLite database, which is only read. It or a server's address has to stand here.
    #[serde(default)]
    pub file: PathBuf,
    /// The address of a PostgreSQL database, instead of a file, such as `${DATABASE_URL}`. The query runs in a transaction that
    /// only reads; since a function that it calls may still act elsewhere, let it name a role that may do nothing but read.
    /// Tables without a schema are those of `public`.
    #[cfg(feature = "postgres")]
    #[serde(default)]
    pub url: Option<Secret>,
    /// A SELECT of two columns: the name of a document, and its text, which may be Markdown. Further columns are
    /// properties, by which searches may be filtered.
    pub select: String,
}

impl DatabaseSpec {
    /// The rows of this query on a SQLite file.
    pub fn of_file(file: impl Into<PathBuf>, select: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            #[cfg(feature = "postgres")]
            url: None,
            select: select.into(),
        }
    }

    /// The rows of this query on a PostgreSQL database at this address.
    #[cfg(feature = "postgres")]
    pub fn of_server(url: Secret, select: impl Into<String>) -> Self {
        Self {
            url: Some(url),
            ..Self::of_file(PathBuf::new(), select)
        }
    }

    /// Whether it names a server.
    fn is_server(&self) -> bool {
        #[cfg(feature = "postgres")]
        let has_url = self.url.is_some();
        #[cfg(not(feature = "postgres"))]
        let has_url = false;
        has_url
    }
}

/// How texts are cut into passages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ChunkSpec {
    /// Along what all texts are cut: `markdown`, `code`, `text` (paragraphs and lines) or `sentences`. When left out,
    /// along what each document has.
    pub by: Option<Structure>,
    /// The most characters of a passage, 100 to 20,000.
    pub size: usize,
    /// How many characters of the passage before it each begins with; at most half of `size`.
    pub overlap: usize,
}

impl Default for ChunkSpec {
    fn default() -> Self {
        Self {
            by: None,
            size: 1_500,
            overlap: 0,
        }
    }
}

impl ChunkSpec {
    /// Sets these sizes and boundaries.
    ///
    /// # Errors
    /// A size or overlap that is out of its bounds.
    pub fn apply(&self, options: &mut SyncOptions) -> Result<(), String> {
        if !(100..=20_000).contains(&self.size) {
            return Err("size: it is a number of characters from 100 to 20000".to_owned());
        }
        if self.overlap > self.size / 2 {
            return Err("overlap: it is at most half of `size`".to_owned());
        }
        options.chunker = Chunker::text(self.size).overlap(self.overlap);
        options.structure = self.by;
        Ok(())
    }
}

/// The model that puts the results in order once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "`rerank` is true, false, `words` or `model`")]
pub enum RerankSpec {
    /// The words of the query and how they stand, or nobody.
    Words(bool),
    /// As named.
    By(Reranking),
}

/// By what results are ranked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reranking {
    /// By how the query's words stand in them.
    Words,
    /// By the model of the agent that searches: one more call of it for each search.
    Model,
}

impl Default for RerankSpec {
    fn default() -> Self {
        Self::Words(false)
    }
}

/// Which documents are searched, and how: those of a folder, the rows of a database, or pages of
/// the web.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DocumentSpec {
    /// The folder. In a team file a path that begins with `./` is taken from the file's folder.
    #[serde(default)]
    pub folder: PathBuf,
    /// Rows of a database, instead of a folder.
    #[serde(default)]
    pub database: Option<DatabaseSpec>,
    /// Pages of the web, instead of a folder.
    #[cfg(feature = "tools")]
    #[serde(default)]
    pub web: Option<super::WebPageSpec>,
    /// The kinds of files that tools of MCP servers read.
    #[cfg(feature = "mcp")]
    #[serde(default)]
    pub readers: Vec<super::ReaderSpec>,
    /// The file of the index, which can be deleted at any time. Without it, each process makes the
    /// index in memory.
    #[serde(default)]
    pub index: Option<PathBuf>,
    /// The subject of the documents.
    #[serde(default)]
    pub description: Option<String>,
    /// The source of vectors, for a search by more than words.
    #[serde(default)]
    pub embedder: Option<EmbedderSpec>,
    /// The store of the vectors, instead of the memory of this process: a table of PostgreSQL with pgvector. It needs
    /// `index` and `embedder`.
    #[cfg(feature = "postgres")]
    #[serde(default)]
    pub vectors: Option<VectorStoreSpec>,
    /// Whether the results are ranked again: `true` by how the query's words stand in them, `model` by the agent's
    /// model.
    #[serde(default)]
    pub rerank: RerankSpec,
    /// In how many other wordings the agent's model asks the question as well, at most 8: one more call for each
    /// search.
    #[serde(default)]
    #[schemars(range(max = 8))]
    pub queries: usize,
    /// Whether the agent's model sketches an answer, which is searched for as well (HyDE): one more call for each
    /// search.
    #[serde(default)]
    pub hypothetical_answer: bool,
    /// How much it counts that results are unlike each other, from 0 to 1.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub diversity: f64,
    /// How texts are cut into passages.
    #[serde(default)]
    pub chunks: ChunkSpec,
    /// Patterns of files and folders that are left out, as in a `.gitignore`.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Searches the documents that a `document_editor` has put into the same `index`, instead of a folder.
    #[serde(default)]
    pub added: bool,
    /// Whether a search by vectors compares only those that are near by an estimate, and so may miss
    /// one of the best now and then. It pays from some 100,000 passages on.
    #[serde(default)]
    pub approximate: bool,
    /// Which documents may be found.
    #[serde(default)]
    #[schemars(skip)]
    pub filter: Filter,
    /// The time after which a search first checks the folder for changes; a minute when left out.
    #[serde(rename = "refresh_s", with = "seconds", default = "default_refresh")]
    #[schemars(with = "f64")]
    pub refresh: Duration,
}

fn default_refresh() -> Duration {
    Duration::from_secs(60)
}

impl DocumentSpec {
    /// The settings for these rows of a database, searched by words, with an index in memory.
    pub fn of_rows(database: DatabaseSpec) -> Self {
        Self {
            database: Some(database),
            ..Self::new(PathBuf::new())
        }
    }

    /// The settings for these pages of the web, searched by words, with an index in memory.
    #[cfg(feature = "tools")]
    pub fn of_pages(pages: super::WebPageSpec) -> Self {
        Self {
            web: Some(pages),
            ..Self::new(PathBuf::new())
        }
    }

    /// The settings for this folder, searched by words, with an index in memory.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            database: None,
            #[cfg(feature = "tools")]
            web: None,
            #[cfg(feature = "mcp")]
            readers: Vec::new(),
            index: None,
            description: None,
            embedder: None,
            #[cfg(feature = "postgres")]
            vectors: None,
            rerank: RerankSpec::default(),
            queries: 0,
            hypothetical_answer: false,
            diversity: 0.0,
            chunks: ChunkSpec::default(),
            exclude: Vec::new(),
            added: false,
            approximate: false,
            filter: Filter::default(),
            refresh: default_refresh(),
        }
    }
}

/// A folder with its index, which is made when it is first needed. Clones share it.
#[derive(Clone, Debug)]
pub struct IndexedFolder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: DocumentSpec,
    origin: Origin,
    embedder: Option<EmbedderHandle>,
    #[cfg(feature = "postgres")]
    vectors: Option<PostgresVectors>,
    options: SyncOptions,
    searcher: OnceCell<Searcher>,
    /// When the index was last updated; the holder of the lock updates it.
    synced: Mutex<Option<Instant>>,
}

/// The source of the documents.
#[derive(Debug)]
enum Origin {
    Folder(PathBuf),
    Rows(Rows),
    #[cfg(feature = "postgres")]
    Server(Box<ServerRows>),
    #[cfg(feature = "tools")]
    Web(super::WebPages),
    /// The documents that were put into the index one by one.
    Added,
}

impl Origin {
    fn of(settings: &DocumentSpec) -> Result<Self, String> {
        let mut origins = Vec::new();
        if !settings.folder.as_os_str().is_empty() {
            if !settings.folder.is_dir() {
                return Err(format!("there is no folder {}", settings.folder.display()));
            }
            origins.push(Self::Folder(settings.folder.clone()));
        }
        if let Some(database) = &settings.database {
            if database.is_server() != database.file.as_os_str().is_empty() {
                return Err(format!("`database` needs {DATABASES}"));
            }
            if database.is_server() {
                #[cfg(feature = "postgres")]
                origins.push(Self::Server(Box::new(
                    ServerRows::new(database).map_err(|error| format!("database: {error}"))?,
                )));
            } else if database.file.is_file() {
                origins.push(Self::Rows(Rows::new(&database.file, &database.select)));
            } else {
                return Err(format!("there is no database {}", database.file.display()));
            }
        }
        if settings.added {
            if settings.index.is_none() {
                return Err(
                    "`added` needs `index`, the file that the documents were put into".to_owned(),
                );
            }
            origins.push(Self::Added);
        }
        #[cfg(feature = "tools")]
        if let Some(web) = &settings.web {
            let pages = super::WebPages::new(web).map_err(|error| format!("web: {error}"))?;
            origins.push(Self::Web(pages));
        }
        match (origins.pop(), origins.is_empty()) {
            (Some(origin), true) => Ok(origin),
            _ => Err(format!("name one of {ORIGINS}")),
        }
    }

    /// The name of the documents' source in the index.
    fn name(&self) -> Option<String> {
        match self {
            Self::Folder(folder) => std::fs::canonicalize(folder)
                .ok()
                .map(|folder| folder.to_string_lossy().into_owned()),
            Self::Rows(rows) => Some(rows.name()),
            #[cfg(feature = "postgres")]
            Self::Server(rows) => Some(rows.name()),
            Self::Added => Some(ADDED.to_owned()),
            #[cfg(feature = "tools")]
            Self::Web(pages) => Some(pages.name()),
        }
    }

    async fn sync(&self, index: &Index, options: &SyncOptions) -> Result<SyncReport, IndexError> {
        match self {
            Self::Folder(folder) => index.sync(folder, options, |_| {}).await,
            Self::Rows(rows) => index.sync_from(rows, options, |_| {}).await,
            #[cfg(feature = "postgres")]
            Self::Server(rows) => index.sync_from(&**rows, options, |_| {}).await,
            Self::Added => Ok(SyncReport::default()),
            #[cfg(feature = "tools")]
            Self::Web(pages) => index.sync_from(pages, options, |_| {}).await,
        }
    }
}

/// The source of documents that were put into an index one by one.
pub const ADDED: &str = "added";

#[cfg(feature = "postgres")]
const DATABASES: &str = "either `file` or `url`";
#[cfg(not(feature = "postgres"))]
const DATABASES: &str = "`file`";
#[cfg(feature = "tools")]
const ORIGINS: &str = "`folder`, `database`, `web` and `added`, and no more";
#[cfg(not(feature = "tools"))]
const ORIGINS: &str = "`folder`, `database` and `added`, and no more";

impl IndexedFolder {
    /// A folder whose files these readers read.
    ///
    /// # Errors
    /// When the folder does not exist, or the embedder or a reader cannot be made.
    pub fn new(settings: DocumentSpec, readers: Readers) -> Result<Self, String> {
        let origin = Origin::of(&settings)?;
        let embedder = settings
            .embedder
            .as_ref()
            .map(|embedder| embedder.embedder());
        let embedder = embedder
            .transpose()
            .map_err(|error| format!("embedder: {error}"))?;
        #[cfg(feature = "postgres")]
        let vectors = vectors_of(&settings, embedder.as_ref())
            .map_err(|error| format!("vectors: {error}"))?;
        #[cfg(feature = "mcp")]
        let readers = {
            let mut readers = readers;
            for reader in &settings.readers {
                let reader = super::McpReader::of(reader);
                readers = readers.with(reader.map_err(|error| format!("readers: {error}"))?);
            }
            readers
        };
        if settings.queries > 8 {
            return Err("queries: there are at most 8 other wordings".to_owned());
        }
        if !(0.0..=1.0).contains(&settings.diversity) {
            return Err("diversity: it is a number from 0 to 1".to_owned());
        }
        let mut options = SyncOptions::default();
        options.readers = readers;
        options.exclude.clone_from(&settings.exclude);
        options.check()?;
        let cut = settings.chunks.apply(&mut options);
        cut.map_err(|error| format!("chunks: {error}"))?;
        Ok(Self(Arc::new(Inner {
            settings,
            origin,
            embedder,
            #[cfg(feature = "postgres")]
            vectors,
            options,
            searcher: OnceCell::new(),
            synced: Mutex::new(None),
        })))
    }

    /// The settings.
    pub fn settings(&self) -> &DocumentSpec {
        &self.0.settings
    }

    /// The searcher of the folder. The first call indexes the folder, which takes a while for a
    /// large one; a later call looks for changes if the last look was some time ago. A document
    /// that cannot be read is skipped.
    ///
    /// # Errors
    /// When the index cannot be used or made.
    pub async fn searcher(&self) -> Result<&Searcher, IndexError> {
        let Inner {
            settings,
            origin,
            options,
            ..
        } = &*self.0;
        let searcher = self.0.searcher.get_or_try_init(|| async {
            let searcher = Searcher::new(self.open().await?);
            Ok::<_, IndexError>(match settings.rerank {
                RerankSpec::Words(true) | RerankSpec::By(Reranking::Words) => {
                    searcher.reranked_by(LexicalReranker)
                }
                _ => searcher,
            })
        });
        let searcher = searcher.await?;
        let mut synced = self.0.synced.lock().await;
        if synced.is_none_or(|last| last.elapsed() >= settings.refresh) {
            let index = searcher.index();
            match origin.sync(index, options).await {
                Ok(report) => {
                    for (document, error) in &report.failed {
                        tracing::warn!(document, error, "a document is not indexed");
                    }
                }
                // Without vectors of what changed, the rest is still found.
                Err(IndexError::Embedder(error)) if index.statistics().await?.documents > 0 => {
                    tracing::warn!(%error, "changes are not indexed until the embedder answers");
                }
                // The store gets what it lacks with a later look; until then the words are searched.
                Err(error @ IndexError::Vectors { .. })
                    if index.statistics().await?.documents > 0 =>
                {
                    tracing::warn!(%error, "the vectors are not up to date");
                }
                Err(error) => return Err(error),
            }
            *synced = Some(Instant::now());
        }
        Ok(searcher)
    }

    async fn open(&self) -> Result<Index, IndexError> {
        let embedder = self.0.embedder.clone();
        let Some(path) = &self.0.settings.index else {
            return Index::in_memory(embedder).await;
        };
        #[cfg(feature = "postgres")]
        if let (Some(vectors), Some(embedder)) = (&self.0.vectors, &embedder) {
            return Index::open_with(path, embedder.clone(), vectors.clone()).await;
        }
        Index::open(path, embedder).await
    }

    /// The stages of a search that ask the agent's model.
    pub(super) fn stages(&self) -> Stages {
        let settings = &self.0.settings;
        let mut stages = Stages::default();
        stages.paraphrases = settings.queries;
        stages.hypothetical_answer = settings.hypothetical_answer;
        stages.rerank = settings.rerank == RerankSpec::By(Reranking::Model);
        stages
    }

    /// Whether a search compares all vectors or those that are near by an estimate.
    pub(super) fn scan(&self) -> Scan {
        match self.0.settings.approximate {
            true => Scan::Approximate,
            false => Scan::Exact,
        }
    }

    /// The filter for the documents of this folder that may be found.
    pub(super) fn filter(&self) -> Filter {
        Filter {
            folder: self.0.origin.name(),
            ..self.0.settings.filter.clone()
        }
    }
}

/// The store of the vectors that the settings name.
#[cfg(feature = "postgres")]
fn vectors_of(
    settings: &DocumentSpec,
    embedder: Option<&EmbedderHandle>,
) -> Result<Option<PostgresVectors>, String> {
    let Some(spec) = &settings.vectors else {
        return Ok(None);
    };
    if settings.added {
        return Err("with `added` they are in memory: `document_editor` fills no table".to_owned());
    }
    match (embedder, &settings.index) {
        (Some(embedder), Some(_)) => PostgresVectors::new(spec, embedder.space()).map(Some),
        (None, _) => Err("they need `embedder`, which makes them".to_owned()),
        (_, None) => Err("they need `index`, the file that keeps the texts".to_owned()),
    }
}

/// A `read` tool that searches an [`IndexedFolder`]. See [`SearchTool`].
#[derive(Clone, Debug)]
pub struct DocumentSearch {
    name: String,
    folder: IndexedFolder,
    definition: ToolDefinition,
}

impl DocumentSearch {
    /// A tool of this name.
    pub fn new(name: impl Into<String>, folder: IndexedFolder) -> Self {
        let name = name.into();
        let mut definition = SearchTool::definition_of(&name);
        if let Some(about) = &folder.settings().description {
            definition.description = format!("{about} {}", definition.description);
        }
        Self {
            name,
            folder,
            definition,
        }
    }
}

impl Tool for DocumentSearch {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let searcher = self.folder.searcher().await;
        let searcher = searcher.map_err(|error| ToolError::new(error.to_string()))?;
        let tool = SearchTool::new(&self.name, searcher.clone())
            .within(self.folder.filter())
            .scan(self.folder.scan())
            .diversity(self.folder.settings().diversity)
            .staged(self.folder.stages());
        tool.call(arguments, cx).await
    }
}
