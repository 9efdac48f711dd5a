//! `ghostlight docs index`, `ghostlight docs search`, and the process that reads a PDF.

use std::{
    io::{self, IsTerminal as _, Read as _, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use ghostlight::{
    documents::{ADDED, ChunkSpec, PostgresVectors, VectorStoreSpec, WebPageSpec, WebPages},
    models::{EmbedderSpec, Secret},
    retrieval::{
        chunking::Structure,
        index::{
            Filter, Folder, Index, IndexError, NewDocument, Query, Ranked, Rows, Source,
            SyncOptions, SyncReport,
        },
        readers::{Metadata, PdfReader, Readers, serve_pdf},
        searching::{LexicalReranker, Searcher, label},
        vectors::Scan,
    },
};

#[cfg(target_os = "linux")]
use crate::folder_notices::FolderNotices;
use crate::{
    document_arguments::{ChunkBy, Documents, IndexArguments, IndexFile, SearchArguments},
    exit::{Exit, Failure},
    follow::print_json,
    interrupt::Interrupt,
    keeping, say,
};

impl From<ChunkBy> for Structure {
    fn from(by: ChunkBy) -> Self {
        match by {
            ChunkBy::Markdown => Self::Markdown,
            ChunkBy::Code => Self::Code,
            ChunkBy::Text => Self::Text,
            ChunkBy::Sentences => Self::Sentences,
        }
    }
}

/// How often what gives no notice of its changes is looked at: databases, pages, and folders that cannot be watched.
const LOOK: Duration = Duration::from_secs(2);
/// How often a folder is looked at that is watched, in case that a notice was missed.
#[cfg(target_os = "linux")]
const LOOK_ANYWAY: Duration = Duration::from_secs(300);
/// The pause after a notice, in which what is written at once is waited for.
#[cfg(target_os = "linux")]
const PAUSE: Duration = Duration::from_millis(100);

/// The readers of the command: another process of it reads PDF.
pub(crate) fn readers() -> Readers {
    match std::env::current_exe() {
        Ok(program) => Readers::default().with(PdfReader::new(program, ["docs", "read-pdf"])),
        Err(_) => Readers::default(),
    }
}

/// Runs the command.
pub(super) async fn perform(asked: Documents) -> Result<Exit, Failure> {
    match asked {
        Documents::Index(arguments) => index(arguments).await,
        Documents::Search(arguments) => search(arguments).await,
        Documents::ReadPdf => read_pdf(),
    }
}

/// Updates an index from folders and rows.
async fn index(arguments: IndexArguments) -> Result<Exit, Failure> {
    let (path, embedder) = place_of(&arguments.file)?;
    let index = open(&arguments.file, &path, &embedder, arguments.empty).await?;
    let sources = Sources::of(&arguments)?;
    single(&index, &arguments, &sources.unfiltered).await?;
    // While a folder is watched, a request to end is heard also when it comes in the middle of an update.
    let mut interrupt = match arguments.watch {
        true => Some(Interrupt::new()?),
        false => None,
    };
    let mut is_first = true;
    let mut exit = Exit::Done;
    loop {
        // It is watched from before the update on, so that no change falls between them.
        let changes = arguments.watch.then(|| Changes::of(&arguments));
        for (source, report) in sources.update(&index, &arguments).await? {
            if is_first || report.indexed + report.removed > 0 {
                super::note(&told(&source, &report));
                for (document, error) in &report.failed {
                    say(&format!("  {document}: {error}"));
                }
            }
            if !report.failed.is_empty() {
                exit = Exit::Failed;
            }
        }
        let (Some(interrupt), Some(changes)) = (&mut interrupt, changes) else {
            break;
        };
        if std::mem::take(&mut is_first) {
            super::note("watches for changes; Ctrl-C ends it");
        }
        tokio::select! {
            () = interrupt.fired() => break,
            () = changes.next() => {}
        }
    }
    if arguments.statistics {
        let statistics = index.statistics().await.map_err(failure)?;
        super::note(&format!(
            "{} documents ({}), {} chunks of {} bytes in all, a file of {} bytes, {} bytes of vectors in memory: {}",
            statistics.documents,
            statistics.health().as_str(),
            statistics.chunks,
            statistics.text_bytes,
            statistics.file_bytes,
            statistics.vector_bytes,
            path.display()
        ));
    }
    index.close().await;
    Ok(exit)
}

/// The next change of what is indexed.
struct Changes {
    #[cfg(target_os = "linux")]
    notices: Option<FolderNotices>,
}

impl Changes {
    #[cfg(target_os = "linux")]
    fn of(arguments: &IndexArguments) -> Self {
        let others = arguments.database.is_some();
        let others = others || !arguments.pages.is_empty();
        let notices = match others {
            true => None,
            // A folder that is gone is reported by the update.
            false => FolderNotices::watch(&arguments.folders).ok(),
        };
        Self { notices }
    }

    #[cfg(not(target_os = "linux"))]
    fn of(_: &IndexArguments) -> Self {
        Self {}
    }

    async fn next(self) {
        #[cfg(target_os = "linux")]
        if let Some(notices) = &self.notices {
            // Running out of time is a look like any other.
            let _ = tokio::time::timeout(LOOK_ANYWAY, notices.next()).await;
            tokio::time::sleep(PAUSE).await;
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Adds or removes the one text that is named.
async fn single(
    index: &Index,
    arguments: &IndexArguments,
    options: &SyncOptions,
) -> Result<(), Failure> {
    if let Some(name) = &arguments.add {
        let text = io::read_to_string(io::stdin().take(options.max_file_bytes))?;
        let document = NewDocument::text(ADDED, name, text);
        let row = index.put(document, options).await.map_err(failure)?;
        super::note(&format!("{name}: {} bytes indexed", row.bytes));
    }
    if let Some(name) = &arguments.remove {
        if !index.remove(ADDED, name).await.map_err(failure)? {
            return Err(Failure::Usage(format!(
                "no text of the name {name:?} was added to this index"
            )));
        }
        super::note(&format!("{name}: removed"));
    }
    Ok(())
}

/// How the documents that the arguments name are read.
struct Sources {
    /// For folders, in which only some endings may be wanted.
    filtered: SyncOptions,
    /// For rows and pages, which are all wanted.
    unfiltered: SyncOptions,
    pages: Option<WebPages>,
}

impl Sources {
    fn of(arguments: &IndexArguments) -> Result<Self, Failure> {
        let mut unfiltered = SyncOptions::default();
        unfiltered.readers = readers();
        unfiltered.exclude.clone_from(&arguments.exclude);
        let mut cut = ChunkSpec::default();
        cut.size = arguments.chunk_size.unwrap_or(cut.size);
        cut.overlap = arguments.overlap;
        cut.by = arguments.chunk_by.map(Structure::from);
        cut.apply(&mut unfiltered).map_err(Failure::Usage)?;
        let mut filtered = unfiltered.clone();
        filtered.filter.endings.clone_from(&arguments.only);
        Ok(Self {
            filtered,
            unfiltered,
            pages: pages(arguments)?,
        })
    }

    /// Brings the index up to each source.
    async fn update(
        &self,
        index: &Index,
        arguments: &IndexArguments,
    ) -> Result<Vec<(PathBuf, SyncReport)>, Failure> {
        let mut reports = Vec::new();
        for folder in &arguments.folders {
            let source = Folder::open(folder).await.map_err(failure)?;
            let report = sync(index, &source, &self.filtered).await?;
            reports.push((folder.clone(), report));
        }
        if let (Some(file), Some(select)) = (&arguments.database, &arguments.select) {
            let rows = Rows::new(file, select);
            let report = sync(index, &rows, &self.unfiltered).await?;
            reports.push((file.clone(), report));
        }
        if let Some(pages) = &self.pages {
            let report = sync(index, pages, &self.unfiltered).await?;
            reports.push((PathBuf::from("web"), report));
        }
        Ok(reports)
    }
}

/// The pages of the web that are named.
fn pages(arguments: &IndexArguments) -> Result<Option<WebPages>, Failure> {
    if arguments.pages.is_empty() {
        return Ok(None);
    }
    let mut settings = WebPageSpec::new(&arguments.pages);
    settings.robots = !arguments.ignore_robots;
    settings
        .allow_addresses
        .clone_from(&arguments.allow_address);
    let pages = WebPages::new(&settings);
    pages
        .map(Some)
        .map_err(|error| Failure::Usage(error.to_string()))
}

async fn sync<S: Source>(
    index: &Index,
    source: &S,
    options: &SyncOptions,
) -> Result<SyncReport, Failure> {
    let is_seen = io::stderr().is_terminal();
    let mut shown = 0;
    let report = index.sync_from(source, options, |progress| {
        let percent = progress.done * 100 / progress.all.max(1);
        if is_seen && percent != shown {
            shown = percent;
            // If stderr is closed, nobody can be told.
            let _ = write!(
                io::stderr(),
                "\r{percent:3}% of {} documents\r",
                progress.all
            );
        }
    });
    let report = report.await.map_err(failure);
    if is_seen && shown > 0 {
        let _ = write!(io::stderr(), "\r{:40}\r", "");
    }
    report
}

fn told(source: &std::path::Path, report: &SyncReport) -> String {
    let mut told = format!(
        "{}: {} indexed ({} chunks), {} unchanged, {} removed",
        source.display(),
        report.indexed,
        report.chunks,
        report.unchanged,
        report.removed
    );
    if !report.failed.is_empty() {
        told.push_str(&format!(", {} failed:", report.failed.len()));
    }
    told
}

/// Prints the passages that fit a query best.
async fn search(arguments: SearchArguments) -> Result<Exit, Failure> {
    let (path, embedder) = place_of(&arguments.file)?;
    if !path.exists() {
        return Err(Failure::Usage(format!(
            "there is no index {}; `ghostlight docs index FOLDER` makes one",
            path.display()
        )));
    }
    let index = open(&arguments.file, &path, &embedder, false).await?;
    let folder = match &arguments.folder {
        None => None,
        Some(folder) => {
            // One that is gone by now is still in the index.
            let place = std::fs::canonicalize(folder).or_else(|_| std::path::absolute(folder));
            let place = place.map_err(|error| Failure::Usage(format!("the folder: {error}")))?;
            Some(place.to_string_lossy().into_owned())
        }
    };
    let mut having = Metadata::new();
    for (name, value) in &arguments.having {
        having.entry(name.clone()).or_default().push(value.clone());
    }
    let query = Query::new(&arguments.query)
        .limit(arguments.limit)
        .ranked(match (arguments.words, arguments.vectors) {
            (true, _) => Ranked::Words,
            (_, true) => Ranked::Vectors,
            _ => Ranked::Both,
        })
        .diversity(arguments.diversity)
        .scan(match arguments.approximate {
            true => Scan::Approximate,
            false => Scan::Exact,
        })
        .filter(Filter {
            folder,
            under: arguments.under.clone(),
            endings: Vec::new(),
            having,
        });
    let searcher = Searcher::new(index);
    let searcher = match arguments.rerank {
        true => searcher.reranked_by(LexicalReranker),
        false => searcher,
    };
    let result = searcher.search(&query).await.map_err(failure)?;
    for found in &result.found {
        if arguments.show.json {
            print_json(found)?;
            continue;
        }
        let text = found.text.lines().map(|line| format!("    {line}\n"));
        let head = format!(
            "[{}] {} (line {})\n",
            label(found),
            found.source(),
            found.line
        );
        super::print(&(head + &text.collect::<String>()))?;
    }
    searcher.index().close().await;
    if !result.found.is_empty() {
        return Ok(Exit::Done);
    }
    if let Some(folder) = arguments.folder.filter(|folder| !folder.exists()) {
        let folder = folder.display();
        return Err(Failure::Usage(format!(
            "there is no folder {folder} now, and nothing of that was found in what is indexed of it"
        )));
    }
    super::note("nothing was found");
    Ok(Exit::Done)
}

/// Reads a PDF from stdin in this process, within bounds, and prints its text. Other processes of
/// the command start it.
fn read_pdf() -> Result<Exit, Failure> {
    bound();
    serve_pdf(io::stdin().lock(), io::stdout().lock())?;
    Ok(Exit::Done)
}

/// Bounds the memory and the CPU time of this process.
#[cfg(unix)]
fn bound() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    for (resource, most) in [(Resource::As, 4 << 30), (Resource::Cpu, 60)] {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        // If a system lacks such a bound, the waiting reader has its own.
        let _ = setrlimit(resource, limit);
    }
}

#[cfg(not(unix))]
fn bound() {}

/// Opens the index, with its vectors where they are kept.
async fn open(
    file: &IndexFile,
    path: &Path,
    embedder: &EmbedderSpec,
    is_emptied: bool,
) -> Result<Index, Failure> {
    let embedder = embedder.embedder().map_err(Failure::Usage)?;
    let store = file
        .vector_store
        .clone()
        .or_else(|| ghostlight::environment::variable("GHOSTLIGHT_VECTORS"));
    let Some(url) = store.filter(|url| !url.trim().is_empty()) else {
        if file.vector_table.is_some() {
            let message = "--vector-table names a table of --vector-store: give its address too";
            return Err(Failure::Usage(message.to_owned()));
        }
        let index = match is_emptied {
            true => Index::open_for(path, Some(embedder)).await,
            false => Index::open(path, Some(embedder)).await,
        };
        return index.map_err(failure);
    };
    let mut spec = VectorStoreSpec::new(Secret::value(url.trim()));
    if let Some(table) = &file.vector_table {
        spec.table.clone_from(table);
    }
    let vectors = PostgresVectors::new(&spec, embedder.space()).map_err(Failure::Usage)?;
    if is_emptied {
        let cleared = vectors.clear().await;
        cleared.map_err(|error| failure(IndexError::Vectors { message: error.0 }))?;
        let emptied = Index::open_for(path, Some(embedder.clone())).await;
        emptied.map_err(failure)?.close().await;
    }
    let index = Index::open_with(path, embedder, vectors).await;
    index.map_err(failure)
}

/// The path of the index, and the settings of its embedder.
fn place_of(file: &IndexFile) -> Result<(PathBuf, EmbedderSpec), Failure> {
    let path = file
        .index
        .clone()
        .or_else(|| keeping::variable("GHOSTLIGHT_INDEX"));
    let path = path.or_else(keeping::index).ok_or_else(|| {
        let message = "there is no data directory (HOME is not set): name a file with --index";
        Failure::Usage(message.to_owned())
    })?;
    let embedder = file
        .embedder
        .clone()
        .or_else(|| ghostlight::environment::variable("GHOSTLIGHT_EMBEDDER"));
    let embedder = match embedder.filter(|embedder| !embedder.trim().is_empty()) {
        Some(text) => EmbedderSpec::from_text(text.trim()).map_err(Failure::Usage)?,
        None => EmbedderSpec::default(),
    };
    Ok((path, embedder))
}

fn failure(error: IndexError) -> Failure {
    match error {
        IndexError::OtherVectors { .. } => {
            Failure::Usage(format!("{error} (`ghostlight docs index --empty`)"))
        }
        IndexError::Query(_) | IndexError::Rows { .. } | IndexError::Document { .. } => {
            Failure::Usage(error.to_string())
        }
        IndexError::Folder { path, message } => {
            Failure::Usage(format!("{}: {message}", path.display()))
        }
        other => Failure::Io(io::Error::other(other.to_string())),
    }
}
