//! Synchronising an index with a source.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use ghostlight_actors::contract::ModelError;

use super::{
    DocumentRow, DocumentStatus, EnricherHandle, Enriching, Filter, Folder, Index, IndexError,
    Reading, Source, SourceEntry,
    actor::Request,
    file::{Content, Known},
    walk,
};
use crate::{
    chunking::{Chunk, Chunker, Structure},
    readers::{Document, ReaderError, Readers, SourceFile},
};

/// How many documents are read concurrently.
const AT_ONCE: usize = 4;

/// How many attempts a temporary failure gets, and the first pause between them.
const ATTEMPTS: (u32, Duration) = (3, Duration::from_secs(1));
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The options of a sync.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SyncOptions {
    /// The readers of files. Files that no reader accepts are skipped.
    pub readers: Readers,
    /// The chunker of texts, which uses the structure that the reader found.
    pub chunker: Chunker,
    /// How the texts of all documents are cut; by the structure that its reader found in each, when left out.
    pub structure: Option<Structure>,
    /// The writer of the text by which a chunk is found; its title, headings and text when left out.
    pub enricher: Option<EnricherHandle>,
    /// The files to read.
    pub filter: Filter,
    /// Patterns of files and folders that are left out, as in a `.gitignore`: `drafts/`, `*.tmp`. They hold for folders.
    pub exclude: Vec<String>,
    /// The most files of a folder, or rows of a database.
    pub max_files: usize,
    /// The most bytes of a file; a larger one counts as failed.
    pub max_file_bytes: u64,
    /// The deepest nesting of folders.
    pub max_depth: usize,
}

impl Default for SyncOptions {
    fn default() -> Self {
        Self {
            readers: Readers::default(),
            chunker: Chunker::text(1_500),
            structure: None,
            enricher: None,
            filter: Filter::default(),
            exclude: Vec::new(),
            max_files: 100_000,
            max_file_bytes: 32 << 20,
            max_depth: 32,
        }
    }
}

ghostlight_actors::setters!(SyncOptions {
    readers: Readers,
    chunker: Chunker,
    filter: Filter,
    exclude: Vec<String>,
    max_files: usize,
    max_file_bytes: u64,
    max_depth: usize,
} or none {
    structure: Structure,
    enricher: EnricherHandle,
});

impl SyncOptions {
    /// Checks the patterns of what is left out, which a sync would refuse.
    ///
    /// # Errors
    /// The first pattern that cannot be read, and its fault.
    pub fn check(&self) -> Result<(), String> {
        walk::excluded(Path::new(""), &self.exclude).map(drop)
    }

    /// The settings on which a document depends beside its bytes.
    fn cut(&self) -> String {
        let fixed = self
            .structure
            .map(|structure| format!(" {structure:?}"))
            .unwrap_or_default();
        let enriched = self.enricher.as_ref();
        let enriched = enriched.map(|enricher| format!(" by {}", enricher.name()));
        let enriched = enriched.unwrap_or_default();
        format!("{}{fixed}{enriched}", self.chunker.sizes())
    }
}

/// The progress of a sync.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// How many documents are done.
    pub done: usize,
    /// How many there are.
    pub all: usize,
    /// The latest document.
    pub name: String,
    /// Its error, if it failed.
    pub error: Option<String>,
}

/// The result of a sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncReport {
    /// New or changed documents.
    pub indexed: usize,
    /// Unchanged documents.
    pub unchanged: usize,
    /// Documents that do not exist any more.
    pub removed: usize,
    /// New chunks.
    pub chunks: usize,
    /// New vectors; those of texts that the index knew are used again.
    pub embedded: usize,
    /// Bytes of the files that were read.
    pub bytes: u64,
    /// Documents that could not be read, with the reasons. Their earlier content is removed from the index, except
    /// where the source could not be reached.
    pub failed: Vec<(String, String)>,
}

/// The action for one document.
pub(super) enum Prepared {
    /// It is unchanged; if it had failed before, this is the failure.
    AsBefore(Option<String>),
    /// It does not exist any more, with the reason, and the row that is to be removed.
    Gone(String, Option<DocumentRow>),
    /// It replaces its earlier version.
    Put {
        row: DocumentRow,
        contents: Vec<Content>,
        embedded: usize,
    },
}

impl Index {
    /// Synchronises the index with a folder: new and changed documents are read, deleted ones are removed, and the rest
    /// is left alone. Each document is one commit, so an interrupted sync continues where it was. `told` is called for
    /// each document.
    ///
    /// A document that cannot be read is listed in the report, and does not stop the others. It is tried again when it
    /// changes, and at each sync if another attempt may help.
    ///
    /// # Errors
    /// The folder cannot be read, the index fails, or no vectors can be made after several attempts. Documents that
    /// were indexed until then stay.
    pub async fn sync(
        &self,
        folder: impl Into<PathBuf>,
        options: &SyncOptions,
        told: impl FnMut(Progress) + Send,
    ) -> Result<SyncReport, IndexError> {
        let folder = Folder::open(folder).await?;
        self.sync_from(&folder, options, told).await
    }

    /// Synchronises the index with any source, as [`sync`](Self::sync) does with a folder.
    ///
    /// # Errors
    /// The source cannot list its entries, the index fails, or no vectors can be made after several attempts. Documents
    /// that were indexed until then stay.
    pub async fn sync_from<S: Source>(
        &self,
        source: &S,
        options: &SyncOptions,
        mut told: impl FnMut(Progress) + Send,
    ) -> Result<SyncReport, IndexError> {
        let name = source.name();
        let entries = source.entries(options).await?;
        let known = self.ask(|port| Request::Known(name.clone(), port)).await?;
        let mut known: BTreeMap<String, DocumentRow> = known
            .into_iter()
            .map(|Known { row }| (row.name.clone(), row))
            .collect();
        let mut report = SyncReport::default();
        let all = entries.len();
        let entries: Vec<(SourceEntry, Option<DocumentRow>)> = entries
            .into_iter()
            .map(|entry| {
                let before = known.remove(&entry.name);
                (entry, before)
            })
            .collect();
        for gone in known.into_values() {
            let gone = Arc::new(gone);
            self.ask(|port| Request::Remove(gone.clone(), port)).await?;
            report.removed += 1;
        }
        let mut documents = stream::iter(entries)
            .map(|(entry, before)| {
                let folder = &name;
                async move {
                    let name = entry.name.clone();
                    let document = self.document(source, folder, entry, before, options);
                    (name, document.await)
                }
            })
            // Documents are stored in the order of their names, so that the same folder gives the same index.
            .buffered(AT_ONCE);
        let mut done = 0;
        while let Some((name, prepared)) = documents.next().await {
            done += 1;
            let error = match prepared? {
                Prepared::AsBefore(error) => {
                    report.unchanged += usize::from(error.is_none());
                    error
                }
                Prepared::Gone(reason, row) => {
                    if let Some(row) = row.map(Arc::new) {
                        self.ask(|port| Request::Remove(row.clone(), port)).await?;
                        report.removed += 1;
                    }
                    Some(reason)
                }
                Prepared::Put {
                    row,
                    contents,
                    embedded,
                } => {
                    let error = match &row.status {
                        DocumentStatus::Indexed => None,
                        DocumentStatus::Failed { error, .. } => Some(error.clone()),
                    };
                    report.indexed += usize::from(error.is_none());
                    report.chunks += contents.len();
                    report.embedded += embedded;
                    report.bytes += row.bytes;
                    let (row, contents): (Arc<DocumentRow>, Arc<[Content]>) =
                        (Arc::new(row), contents.into());
                    self.ask(|port| Request::Put(row.clone(), contents.clone(), port))
                        .await?;
                    error
                }
            };
            if let Some(error) = &error {
                report.failed.push((name.clone(), error.clone()));
            }
            told(Progress {
                done,
                all,
                name,
                error,
            });
        }
        report.failed.sort();
        self.put_right().await?;
        Ok(report)
    }

    /// Synchronises one document.
    pub(super) async fn document<S: Source>(
        &self,
        source: &S,
        folder: &str,
        mut entry: SourceEntry,
        before: Option<DocumentRow>,
        options: &SyncOptions,
    ) -> Result<Prepared, IndexError> {
        let again =
            |row: &DocumentRow| matches!(row.status, DocumentStatus::Failed { retry: true, .. });
        let as_before = |row: &DocumentRow| {
            Prepared::AsBefore(match &row.status {
                DocumentStatus::Indexed => None,
                DocumentStatus::Failed { error, .. } => Some(error.clone()),
            })
        };
        if let Some(row) = &before
            && entry.version == Some(row.modified)
            && row.bytes == entry.bytes
            && row.cut == options.cut()
            && !again(row)
        {
            return Ok(as_before(row));
        }
        let mut row = DocumentRow {
            folder: folder.to_owned(),
            name: entry.name.clone(),
            title: None,
            bytes: entry.bytes,
            modified: entry.version.unwrap_or_default(),
            digest: [0; 32],
            tag: None,
            metadata: std::mem::take(&mut entry.metadata),
            cut: options.cut(),
            status: DocumentStatus::Indexed,
        };
        if entry.bytes > options.max_file_bytes {
            let error = format!("it is larger than {} bytes", options.max_file_bytes);
            return Ok(failed(row, error, true));
        }
        let bytes = match entry.held.take() {
            Some(bytes) => bytes,
            None => {
                let is_current = |row: &&DocumentRow| !again(row) && row.cut == options.cut();
                let known = before.as_ref().filter(is_current);
                let tag = known.and_then(|row| row.tag.as_deref());
                match source_read(source, &entry, tag, options).await {
                    Ok(Reading::Content {
                        bytes,
                        read_as,
                        tag,
                    }) => {
                        entry.read_as = read_as.unwrap_or(entry.read_as);
                        row.tag = tag;
                        bytes
                    }
                    Ok(Reading::Unchanged) => {
                        let known = known.map(as_before);
                        return Ok(known.unwrap_or_else(|| {
                            failed(row, String::from("it was never read"), true)
                        }));
                    }
                    Ok(Reading::Gone(reason)) => return Ok(Prepared::Gone(reason, before)),
                    Ok(Reading::Unavailable(reason)) => {
                        return Ok(match known {
                            Some(_) => Prepared::AsBefore(Some(reason)),
                            None => failed(row, reason, true),
                        });
                    }
                    Err(error) => {
                        return Ok(failed(row, error.to_string(), error.is_retryable()));
                    }
                }
            }
        };
        let mut digest = blake3::Hasher::new();
        digest.update(&bytes);
        if !row.metadata.is_empty() {
            digest.update(&serde_json::to_vec(&row.metadata).unwrap_or_default());
        }
        row.digest = *digest.finalize().as_bytes();
        let is_same = |before: &DocumentRow| {
            before.digest == row.digest && before.cut == row.cut && !again(before)
        };
        if let Some(before) = before.filter(is_same) {
            // The file was touched and not changed. Its stored time stays, so the next sync reads the file once more.
            return Ok(as_before(&before));
        }
        row.bytes = bytes.len() as u64;
        let document = match read(options, &entry.read_as, bytes).await {
            Ok(document) => document,
            Err(error) => {
                return Ok(failed(row, error.to_string(), error.is_retryable()));
            }
        };
        row.title = document.title.clone();
        for (name, values) in document.metadata {
            // What the source says of a document counts more than what it says of itself.
            row.metadata.entry(name).or_insert(values);
        }
        let structure = options.structure.unwrap_or(document.structure);
        let (chunks, text) = {
            let (chunker, text) = (options.chunker.clone().structured(structure), document.text);
            let cut = tokio::task::spawn_blocking(move || (chunker.chunks(&text), text)).await;
            cut.map_err(|_| IndexError::Closed)?
        };
        let contexts = match &options.enricher {
            None => vec![None; chunks.len()],
            Some(enricher) => match enriched(enricher, &row, &text, &chunks).await {
                Ok(contexts) => contexts,
                Err(error) => return Ok(failed(row, error.to_string(), error.retryable)),
            },
        };
        let (contents, embedded) = self.contents(&row, chunks, contexts).await?;
        Ok(Prepared::Put {
            row,
            contents,
            embedded,
        })
    }

    /// The chunks with their vectors; known texts are not embedded again.
    async fn contents(
        &self,
        row: &DocumentRow,
        chunks: Vec<Chunk>,
        contexts: Vec<Option<String>>,
    ) -> Result<(Vec<Content>, usize), IndexError> {
        let title = row.title.as_deref().unwrap_or(&row.name);
        let text = |(chunk, context): (&Chunk, &Option<String>)| match context {
            Some(context) => context.clone(),
            None => chunk.in_context(title),
        };
        let texts: Vec<String> = chunks.iter().zip(&contexts).map(text).collect();
        let digests: Arc<[[u8; 32]]> = texts
            .iter()
            .map(|text| *blake3::hash(text.as_bytes()).as_bytes())
            .collect();
        let mut vectors = vec![None; chunks.len()];
        let mut embedded = 0;
        if self.embedder.is_some() {
            vectors = self
                .ask(|port| Request::Vectors(digests.clone(), port))
                .await?;
            let missing: Vec<usize> = (0..vectors.len())
                .filter(|place| vectors.get(*place) == Some(&None))
                .collect();
            let wanted: Vec<&str> = missing
                .iter()
                .filter_map(|place| texts.get(*place))
                .map(|text| &**text)
                .collect();
            if let Some(made) = patiently(
                || self.vectors(&wanted),
                |error: &ModelError| error.retryable,
            )
            .await?
            {
                embedded = made.len();
                for (place, vector) in missing.into_iter().zip(made) {
                    if let Some(slot) = vectors.get_mut(place) {
                        *slot = Some(vector);
                    }
                }
            }
        }
        let contents = chunks.into_iter().zip(digests.iter());
        let contents = contents.zip(vectors).zip(contexts);
        let contents = contents.map(|(((chunk, digest), vector), context)| Content {
            chunk,
            digest: *digest,
            vector,
            context,
        });
        Ok((contents.collect(), embedded))
    }
}

/// The texts by which the chunks of a document are found.
async fn enriched(
    enricher: &EnricherHandle,
    row: &DocumentRow,
    text: &str,
    chunks: &[Chunk],
) -> Result<Vec<Option<String>>, ModelError> {
    let mut contexts = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let passage = Enriching {
            name: &row.name,
            title: row.title.as_deref(),
            metadata: &row.metadata,
            text,
            chunk,
        };
        let context = patiently(
            || enricher.enrich(passage),
            |error: &ModelError| error.retryable,
        );
        contexts.push(Some(context.await?));
    }
    Ok(contexts)
}

/// A document that could not be read: none of it is found any more.
fn failed(mut row: DocumentRow, error: String, retry: bool) -> Prepared {
    row.status = DocumentStatus::Failed { error, retry };
    Prepared::Put {
        row,
        contents: Vec::new(),
        embedded: 0,
    }
}

/// Reads an entry, after pauses where its source cannot be reached.
async fn source_read<S: Source>(
    source: &S,
    entry: &SourceEntry,
    tag: Option<&str>,
    options: &SyncOptions,
) -> Result<Reading, ReaderError> {
    let attempt = || async {
        match source.read(entry, tag, options).await {
            Ok(Reading::Unavailable(reason)) => Err(reason),
            read => Ok(read),
        }
    };
    let read = patiently(attempt, |_: &String| true).await;
    read.unwrap_or_else(|reason| Ok(Reading::Unavailable(reason)))
}

async fn read(options: &SyncOptions, name: &str, bytes: Vec<u8>) -> Result<Document, ReaderError> {
    let read = || options.readers.read(SourceFile::new(name, bytes.clone()));
    patiently(read, |error: &ReaderError| error.is_retryable()).await
}

/// A number from 0 to 1 that nobody can tell before.
fn jitter() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    let bits = RandomState::new().hash_one(0_u8);
    bits as f64 / u64::MAX as f64
}

/// Repeats an operation, with pauses that double, while another attempt can help.
async fn patiently<T, E, F>(attempt: impl Fn() -> F, can_help: impl Fn(&E) -> bool) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let (attempts, mut pause) = ATTEMPTS;
    for _ in 1..attempts {
        match attempt().await {
            Err(error) if can_help(&error) => {
                // Up to a tenth more, so that many who wait do not come back together.
                tokio::time::sleep(pause + pause.mul_f64(jitter() / 10.0)).await;
                pause = (pause * 2).min(MAX_PAUSE);
            }
            ended => return ended,
        }
    }
    attempt().await
}
