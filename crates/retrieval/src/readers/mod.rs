//! From a file to its text.
//!
//! A [`Reader`] makes a [`Document`] of a file's bytes. What is read was written by others: every reader bounds what
//! it takes and gives, and none can bring the process down. [`Readers::default`] knows text, Markdown, source code,
//! HTML, CSV and DOCX; PDF is read by a process of its own, which has to be named ([`PdfReader`]).

mod docx;
mod html;
mod pdf;
mod table;
mod text;

use std::{fmt, sync::Arc};

use ghostlight_actors::contract::BoxFuture;

pub use self::{
    docx::DocxReader,
    html::HtmlReader,
    pdf::{PdfReader, pdf_text, serve_pdf},
    table::CsvReader,
    text::TextReader,
};
use crate::chunking::Structure;

/// The most bytes of text that are taken of a file, whatever it is: 16 MiB.
pub const MAX_TEXT_BYTES: usize = 16 << 20;

/// A file as it was found.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Its path below the folder that is read, with `/` between the parts.
    pub name: String,
    /// What is in it.
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

/// The text of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// What it calls itself, where it does.
    pub title: Option<String>,
    /// Its text.
    pub text: String,
    /// How its text is best cut.
    pub structure: Structure,
}

/// Why a file could not be read. Its name is told by whoever asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// No reader knows such a file.
    #[error("no reader for this kind of file")]
    Unknown,
    /// It is no text, although its name says so.
    #[error("it holds bytes that are no text")]
    NotText,
    /// It holds no text, as pictures of pages do.
    #[error("it holds no text; if it is a scan, have its letters recognised first")]
    NoText,
    /// A password is needed.
    #[error("it is encrypted; save it without a password")]
    Encrypted,
    /// It is not what its name says.
    #[error("it is damaged, or not what its name says: {0}")]
    Malformed(String),
    /// It is larger than is read, or becomes so when it is unpacked.
    #[error("it has more than {0} bytes of text")]
    TooLarge(usize),
    /// It took too long.
    #[error("it was not read within {0} seconds")]
    TimedOut(u64),
    /// What should read it could not do so; another attempt may.
    #[error("it could not be read now: {0}")]
    Failed(String),
}

impl ReadError {
    /// Whether another attempt can help where the file is the same.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::TimedOut(_))
    }
}

/// Makes documents of files of some kinds: here, in another process, or at a server.
pub trait Reader: Send + Sync + 'static {
    /// Whether it reads files of this name.
    fn reads(&self, name: &str) -> bool;

    /// The document of a file.
    ///
    /// # Errors
    /// Why there is none.
    fn read(&self, file: SourceFile) -> impl Future<Output = Result<Document, ReadError>> + Send;
}

trait ErasedReader: Send + Sync {
    fn reads(&self, name: &str) -> bool;
    fn read(&self, file: SourceFile) -> BoxFuture<'_, Result<Document, ReadError>>;
}

impl<R: Reader> ErasedReader for R {
    fn reads(&self, name: &str) -> bool {
        Reader::reads(self, name)
    }

    fn read(&self, file: SourceFile) -> BoxFuture<'_, Result<Document, ReadError>> {
        Box::pin(Reader::read(self, file))
    }
}

/// Readers of several kinds of files. Cloning shares them.
#[derive(Clone)]
pub struct Readers(Vec<Arc<dyn ErasedReader>>);

impl Readers {
    /// No readers.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds a reader, which is asked before those that were added earlier.
    #[must_use]
    pub fn with(mut self, reader: impl Reader) -> Self {
        self.0.insert(0, Arc::new(reader));
        self
    }

    /// Whether files of this name are read.
    pub fn reads(&self, name: &str) -> bool {
        self.0.iter().any(|reader| reader.reads(name))
    }

    /// The document of a file. A reader that panics has failed, and nothing else has.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn read(&self, file: SourceFile) -> Result<Document, ReadError> {
        let reader = self.0.iter().find(|reader| reader.reads(&file.name));
        let reader = reader.ok_or(ReadError::Unknown)?.clone();
        // A task of its own contains a panic; it goes away with whoever waits for it.
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move { reader.read(file).await });
        let document = match tasks.join_next().await {
            Some(Ok(document)) => document?,
            _ => return Err(ReadError::Malformed(String::from("its reader gave up"))),
        };
        match document.text.len() > MAX_TEXT_BYTES {
            true => Err(ReadError::TooLarge(MAX_TEXT_BYTES)),
            false => Ok(document),
        }
    }
}

impl Default for Readers {
    /// Text, Markdown, source code, HTML, CSV and DOCX.
    fn default() -> Self {
        Self::none()
            .with(TextReader)
            .with(CsvReader)
            .with(HtmlReader)
            .with(DocxReader)
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Readers({})", self.0.len())
    }
}

/// Reads where it keeps no other task of the runtime waiting.
async fn blocking<F>(read: F) -> Result<Document, ReadError>
where
    F: FnOnce() -> Result<Document, ReadError> + Send + 'static,
{
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|_| Err(ReadError::Malformed(String::from("its reader gave up"))))
}

fn extension(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or_default();
    let ending = file.rsplit_once('.').map_or("", |(_, ending)| ending);
    ending.to_ascii_lowercase()
}
