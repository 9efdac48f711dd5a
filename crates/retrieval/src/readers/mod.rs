//! From a file to its text.
//!
//! A [`Reader`] makes a [`Document`] from a file's bytes. The files are untrusted: every reader bounds its input and
//! output, and none can bring the process down. [`Readers::default`] reads text, Markdown and source code, and with the
//! feature `documents` HTML, CSV and DOCX. With it, a process of its own, whose program has to be named, reads PDF
//! (`PdfReader`).

#[cfg(feature = "documents")]
mod docx;
mod front_matter;
#[cfg(feature = "html")]
mod html;
#[cfg(feature = "documents")]
mod pdf;
#[cfg(feature = "documents")]
mod pdf_fonts;
#[cfg(feature = "documents")]
mod table;
mod text;

use std::{collections::BTreeMap, fmt, sync::Arc};

use ghostlight_actors::contract::BoxFuture;

#[cfg(feature = "html")]
pub use self::html::HtmlReader;
pub use self::text::TextReader;
#[cfg(feature = "documents")]
pub use self::{
    docx::DocxReader,
    pdf::{PdfReader, pdf_text, serve_pdf},
    table::CsvReader,
};
use crate::chunking::Structure;

/// The most bytes of text that are taken from a file of any kind: 16 MiB.
pub const MAX_TEXT_BYTES: usize = 16 << 20;

/// A file to read.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Its path below the source's folder, with `/` between the parts.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl SourceFile {
    /// A file of this name.
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            bytes: bytes.into(),
        }
    }

    /// The ending of its name, in lower case.
    pub fn extension(&self) -> String {
        extension(&self.name)
    }
}

/// The properties that a document, or its source, states: names in lower case, each with its values. Searches
/// may be filtered by them.
pub type Metadata = BTreeMap<String, Vec<String>>;

/// The text of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The document's own title, if it has one.
    pub title: Option<String>,
    /// Its text.
    pub text: String,
    /// The structure of its text, for chunking.
    pub structure: Structure,
    /// Its properties; in Markdown those of its front matter.
    pub metadata: Metadata,
}

/// Why a file could not be read. The caller knows the file's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReaderError {
    /// No reader accepts this kind of file.
    #[error("no reader for this kind of file")]
    Unknown,
    /// Its bytes are not text, although its name says so.
    #[error("it holds bytes that are not text")]
    NotText,
    /// It has no text, such as a scan of pages.
    #[error("it holds no text; if it is a scan, have its letters recognised first")]
    NoText,
    /// A password is needed.
    #[error("it is encrypted; save it without a password")]
    Encrypted,
    /// It is malformed, or of another kind than its name says.
    #[error("it is damaged, or not what its name says: {0}")]
    Malformed(String),
    /// It is too large, or becomes too large when it is unpacked.
    #[error("it has more than {0} bytes of text")]
    TooLarge(usize),
    /// It took too long.
    #[error("it was not read within {0} seconds")]
    TimedOut(u64),
    /// The reader failed; another attempt may succeed.
    #[error("it could not be read now: {0}")]
    Failed(String),
}

ghostlight_actors::parts_of_system_error!(ReaderError);

impl ReaderError {
    /// Whether another attempt can succeed although the file is the same.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::TimedOut(_))
    }
}

/// Turns files of some kinds into documents: in this process, in another one, or at a server.
pub trait Reader: Send + Sync + 'static {
    /// Whether it reads files with this name.
    fn reads(&self, name: &str) -> bool;

    /// The document of a file.
    ///
    /// # Errors
    /// The reason why there is none.
    fn read(&self, file: SourceFile) -> impl Future<Output = Result<Document, ReaderError>> + Send;
}

trait ErasedReader: Send + Sync {
    fn reads(&self, name: &str) -> bool;
    fn read(&self, file: SourceFile) -> BoxFuture<'_, Result<Document, ReaderError>>;
}

impl<R: Reader> ErasedReader for R {
    fn reads(&self, name: &str) -> bool {
        Reader::reads(self, name)
    }

    fn read(&self, file: SourceFile) -> BoxFuture<'_, Result<Document, ReaderError>> {
        Box::pin(Reader::read(self, file))
    }
}

/// Readers of several kinds of files. Clones share them.
#[derive(Clone)]
pub struct Readers(Vec<Arc<dyn ErasedReader>>);

impl Readers {
    /// No readers.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds a reader, which takes precedence over earlier ones.
    #[must_use]
    pub fn with(mut self, reader: impl Reader) -> Self {
        self.0.insert(0, Arc::new(reader));
        self
    }

    /// Whether files with this name are read.
    pub fn reads(&self, name: &str) -> bool {
        self.0.iter().any(|reader| reader.reads(name))
    }

    /// The document of a file. A reader's panic is only a failure of this file.
    ///
    /// # Errors
    /// The reason why there is none.
    pub async fn read(&self, file: SourceFile) -> Result<Document, ReaderError> {
        let reader = self.0.iter().find(|reader| reader.reads(&file.name));
        let reader = reader.ok_or(ReaderError::Unknown)?.clone();
        // A task of its own contains a panic; it is aborted when the caller stops waiting.
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move { reader.read(file).await });
        let document = match tasks.join_next().await {
            Some(Ok(document)) => document?,
            _ => return Err(ReaderError::Malformed(String::from("its reader gave up"))),
        };
        match document.text.len() > MAX_TEXT_BYTES {
            true => Err(ReaderError::TooLarge(MAX_TEXT_BYTES)),
            false => Ok(document),
        }
    }
}

impl Default for Readers {
    /// Text, Markdown and source code; with the feature `documents` HTML, CSV and DOCX too.
    fn default() -> Self {
        let readers = Self::none().with(TextReader);
        #[cfg(feature = "html")]
        let readers = readers.with(HtmlReader);
        #[cfg(feature = "documents")]
        let readers = readers.with(CsvReader).with(DocxReader);
        readers
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Readers({})", self.0.len())
    }
}

/// Reads without blocking other tasks of the runtime.
async fn blocking<F>(read: F) -> Result<Document, ReaderError>
where
    F: FnOnce() -> Result<Document, ReaderError> + Send + 'static,
{
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|_| Err(ReaderError::Malformed(String::from("its reader gave up"))))
}

fn extension(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or_default();
    let ending = file.rsplit_once('.').map_or("", |(_, ending)| ending);
    ending.to_ascii_lowercase()
}
