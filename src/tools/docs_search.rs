//! Search in a folder of Markdown files.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use ghostlight_actors::{
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    vocabulary::{Arguments, Effect, ToolDefinition},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    files,
    retrieval::{bm25::Bm25Index, chunking::Chunker},
};

/// The longest passage, in characters.
const MAX_PASSAGE_CHARS: usize = 1500;
/// How many passages a call gives where it does not say.
const DEFAULT_RESULTS: u32 = 3;
/// How many passages a call may ask for.
const MAX_RESULTS: u32 = 20;

/// A `read` tool that searches a folder of Markdown files by words and gives the passages that
/// fit best, each with its file and heading.
///
/// The folder is read once, when it is opened, and never left: symbolic links and hidden entries
/// are passed over. It is indexed when it is first searched. The same files give the same answers
/// on every machine.
///
/// ```no_run
/// use ghostlight::tools::DocsSearch;
///
/// let search = DocsSearch::open("docs")?;
/// for passage in search.search("resume after a crash", 3) {
///     println!("{}: {}", passage.source(), passage.text);
/// }
/// # Ok::<(), ghostlight::tools::DocsSearchError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DocsSearch {
    name: String,
    description: String,
    documents: Arc<Documents>,
}

/// The passages that were read. Their index takes longer than reading them, and a team may never search.
#[derive(Debug)]
struct Documents {
    passages: Vec<DocsPassage>,
    index: OnceLock<Bm25Index>,
}

/// The most bytes of a file's name and headings by which a passage is found, the innermost.
const MAX_PATH_BYTES: usize = 120;
/// The bytes of a passage beside its text.
const PASSAGE_BYTES: u64 = 100;

impl Documents {
    fn index(&self) -> &Bm25Index {
        self.index.get_or_init(|| {
            // The nearest heading stands twice: a word in it says more than one in the text.
            Bm25Index::new(self.passages.iter().map(|passage| {
                let last = passage.headings.last().map_or("", |heading| heading);
                format!("{} {last} {}", passage.path(), passage.text)
            }))
        })
    }
}

/// A passage of the documents.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocsPassage {
    /// The file, relative to the folder, with `/` between its parts.
    pub file: Arc<str>,
    /// The headings above it, from the outermost to its own, each of at most
    /// [`MAX_HEADING_CHARS`](crate::retrieval::chunking::MAX_HEADING_CHARS) characters.
    pub headings: Arc<[Arc<str>]>,
    /// The line on which it begins, from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
}

impl DocsPassage {
    /// The file and the headings, such as `runs.md > Resuming > After a crash`.
    pub fn source(&self) -> String {
        let parts = std::iter::once(&self.file).chain(self.headings.iter());
        parts.map(|part| &**part).collect::<Vec<_>>().join(" > ")
    }

    /// The end of [`source`](Self::source), by which it is found. A passage may be a word below
    /// headings of hundreds.
    fn path(&self) -> String {
        let mut source = self.source();
        let cut = source.len().saturating_sub(MAX_PATH_BYTES);
        source.drain(..source.ceil_char_boundary(cut));
        source
    }

    /// Its share of [`DocsOptions::max_index_bytes`].
    fn bytes(&self) -> u64 {
        let parts = std::iter::once(&self.file).chain(self.headings.iter());
        let path: usize = parts.map(|part| part.len()).sum();
        PASSAGE_BYTES + (path.min(MAX_PATH_BYTES) + self.text.len()) as u64
    }
}

/// How much of a folder is read. What is larger is an error and not left out in silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocsOptions {
    /// The most Markdown files.
    pub max_files: usize,
    /// The largest file, in bytes.
    pub max_file_bytes: u64,
    /// All files together, in bytes.
    pub max_total_bytes: u64,
    /// How deep folders may nest.
    pub max_depth: usize,
    /// All passages together, in bytes: of each its text, the last 120 bytes of its file and
    /// headings, and 100 for what it takes itself. The index takes at most some 40 times as much, for
    /// words that never come again, and usually as much again.
    pub max_index_bytes: u64,
}

impl Default for DocsOptions {
    fn default() -> Self {
        Self {
            max_files: 5000,
            max_file_bytes: 2 << 20,
            max_total_bytes: 64 << 20,
            max_depth: 16,
            max_index_bytes: 128 << 20,
        }
    }
}

ghostlight_actors::setters!(DocsOptions {
    max_files: usize,
    max_file_bytes: u64,
    max_total_bytes: u64,
    max_depth: usize,
    max_index_bytes: u64,
});

/// Why a folder cannot be searched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocsSearchError {
    /// A file or folder cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// There is nothing to search.
    #[error("{} holds no Markdown file with text (.md, .markdown)", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// There is more than the limits allow.
    #[error("{}: more than {limit} {unit}; name a smaller folder or raise the limit", path.display())]
    TooLarge {
        /// The file or folder.
        path: PathBuf,
        /// The limit that was passed.
        limit: u64,
        /// The unit.
        unit: &'static str,
    },
}

ghostlight_actors::parts_of_system_error!(DocsSearchError);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    /// The words to look for.
    query: String,
    /// How many passages are wanted, 3 where it is left out.
    #[serde(default = "default_results")]
    #[schemars(range(min = 1, max = 20))]
    limit: u32,
}

fn default_results() -> u32 {
    DEFAULT_RESULTS
}

impl DocsSearch {
    /// Reads the Markdown files of a folder and the folders in it, within the default limits.
    /// It blocks while it reads.
    ///
    /// # Errors
    /// When the folder cannot be read, holds nothing, or holds more than the limits allow.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, DocsSearchError> {
        Self::open_within(folder, DocsOptions::default())
    }

    /// Like [`open`](Self::open), with your own limits.
    ///
    /// # Errors
    /// When the folder cannot be read, holds nothing, or holds more than the limits allow.
    pub fn open_within(
        folder: impl AsRef<Path>,
        limits: DocsOptions,
    ) -> Result<Self, DocsSearchError> {
        let folder = folder.as_ref();
        let root = fs::canonicalize(folder).map_err(|source| io(folder, source))?;
        let (mut total_bytes, mut index_bytes) = (0, 0);
        let mut passages = Vec::new();
        let chunker = Chunker::markdown(MAX_PASSAGE_CHARS);
        for path in markdown_files(&root, limits)? {
            let text = read(&path, &root, limits.max_file_bytes)?;
            total_bytes += text.len() as u64;
            if total_bytes > limits.max_total_bytes {
                return Err(too_large(
                    &root,
                    limits.max_total_bytes,
                    "bytes in all files",
                ));
            }
            let file: Arc<str> = relative(&path, &root).into();
            for passage in chunker.chunks(&text) {
                let passage = DocsPassage {
                    file: file.clone(),
                    headings: passage.headings,
                    line: passage.line,
                    text: passage.text,
                };
                index_bytes += passage.bytes();
                if index_bytes > limits.max_index_bytes {
                    let unit = "bytes of passages, each with its headings";
                    return Err(too_large(&root, limits.max_index_bytes, unit));
                }
                passages.push(passage);
            }
        }
        if passages.is_empty() {
            return Err(DocsSearchError::Empty { path: root });
        }
        Ok(Self::over(passages))
    }

    fn over(passages: Vec<DocsPassage>) -> Self {
        let index = OnceLock::new();
        Self {
            name: String::from("search"),
            description: String::from(
                "Searches the documentation and gives the passages that answer a question best, \
                 each with its file and heading.",
            ),
            documents: Arc::new(Documents { passages, index }),
        }
    }

    /// Sets the tool's name, where an agent searches several folders. It is `search` otherwise.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the tool's description: what the documents are about helps a model to decide.
    #[must_use]
    pub fn described(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// How many passages there are.
    pub fn passages(&self) -> usize {
        self.documents.passages.len()
    }

    /// The passages that fit a query, the best first. The first search of a folder indexes it, which
    /// takes some 50 ms for a megabyte; all copies share that.
    pub fn search(&self, query: &str, limit: usize) -> Vec<&DocsPassage> {
        let Documents { passages, .. } = &*self.documents;
        let hits = self.documents.index().search(query, limit).into_iter();
        hits.filter_map(|hit| passages.get(hit.document)).collect()
    }

    /// The answer to a search, for a model.
    fn tell(&self, arguments: &SearchArguments) -> String {
        let limit = arguments.limit.clamp(1, MAX_RESULTS);
        let found = self.search(&arguments.query, limit as usize);
        if found.is_empty() {
            let query = &arguments.query;
            return format!("No passage has a word of \"{query}\". Try other words.");
        }
        let shown = found.iter().enumerate().map(|(place, passage)| {
            format!("[{}] {}\n{}", place + 1, passage.source(), passage.text)
        });
        shown.collect::<Vec<_>>().join("\n\n")
    }
}

impl Tool for DocsSearch {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new(&self.name, &self.description)
            .effect(Effect::Read)
            .parameters_of::<SearchArguments>()
    }

    async fn call(&self, arguments: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let arguments: SearchArguments = arguments.read()?;
        let search = self.clone();
        // To index a large folder takes a while.
        let told = tokio::task::spawn_blocking(move || search.tell(&arguments)).await;
        told.map(ToolOutput::text)
            .map_err(|error| ToolError::new(error.to_string()))
    }
}

fn io(path: &Path, source: std::io::Error) -> DocsSearchError {
    let path = path.to_owned();
    DocsSearchError::Io { path, source }
}

fn too_large(path: &Path, limit: u64, unit: &'static str) -> DocsSearchError {
    let path = path.to_owned();
    DocsSearchError::TooLarge { path, limit, unit }
}

/// All Markdown files below a folder, by name.
fn markdown_files(root: &Path, limits: DocsOptions) -> Result<Vec<PathBuf>, DocsSearchError> {
    let mut files = Vec::new();
    let mut folders = vec![(root.to_owned(), 1)];
    while let Some((folder, depth)) = folders.pop() {
        if depth > limits.max_depth {
            return Err(too_large(
                &folder,
                limits.max_depth as u64,
                "folders inside each other",
            ));
        }
        for entry in fs::read_dir(&folder).map_err(|source| io(&folder, source))? {
            let entry = entry.map_err(|source| io(&folder, source))?;
            let path = entry.path();
            // The type of the entry itself: a link is neither a file nor a folder.
            let kind = entry.file_type().map_err(|source| io(&path, source))?;
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if kind.is_dir() {
                folders.push((path, depth + 1));
            } else if kind.is_file() && is_markdown(&path) {
                files.push(path);
            }
        }
        if files.len() > limits.max_files {
            return Err(too_large(root, limits.max_files as u64, "Markdown files"));
        }
    }
    files.sort();
    Ok(files)
}

fn is_markdown(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    extension.eq_ignore_ascii_case("md") || extension.eq_ignore_ascii_case("markdown")
}

fn read(path: &Path, root: &Path, limit: u64) -> Result<String, DocsSearchError> {
    let failed = |source| io(path, source);
    // Somebody may have put a link where the file was a moment ago.
    let real = fs::canonicalize(path).map_err(failed)?;
    if !real.starts_with(root) {
        let message = "it became a link that leads out of the folder";
        return Err(failed(std::io::Error::other(message)));
    }
    match files::read_at_most(&real, limit) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == ErrorKind::FileTooLarge => {
            Err(too_large(path, limit, "bytes in a file"))
        }
        Err(error) => Err(failed(error)),
    }
}

fn relative(path: &Path, root: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    let parts = path.iter().map(|part| part.to_string_lossy());
    parts.collect::<Vec<_>>().join("/")
}
