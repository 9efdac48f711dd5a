//! PDF, read by a process of its own.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    process::Stdio,
    time::Duration,
};

use pdf_extract::{Document, OutputDev, OutputError, PlainTextOutput, output_doc, output_doc_page};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
    time::timeout,
};

use super::{MAX_TEXT_BYTES, Reader, ReaderError, SourceFile, extension, pdf_fonts};
use crate::chunking::Structure;

/// The time limit of a document.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most bytes of a document that a process reads.
const MAX_PDF_BYTES: u64 = 256 << 20;
/// The mark before the process's answer. Output of a library may come before it.
const TEXT: &[u8] = b"\0ghostlight pdf text\0";
const ERROR: &[u8] = b"\0ghostlight pdf error\0";

/// Reads PDF in a process that it starts for each file.
///
/// A PDF is a program: it can unpack to any size, and a drawing in it can contain itself, which ends a process that
/// follows it. So it is read in a process that may die. That process gets the file on its stdin and writes the output
/// of [`serve_pdf`] to its stdout; the `ghostlight` command is such a program if its first argument is `read-pdf`, and
/// bounds its own memory and time.
#[derive(Clone, Debug)]
pub struct PdfReader {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl PdfReader {
    /// Reads with this program and these arguments.
    pub fn new(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
        }
    }

    async fn ask(&self, bytes: &[u8]) -> Result<Vec<u8>, ReaderError> {
        let failed =
            |error: io::Error| ReaderError::Failed(format!("{}: {error}", self.program.display()));
        let mut process = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let send = async {
            if let Some(mut input) = input {
                // A process that ended early gives the reason on its stdout, or by its exit status.
                let _ = input.write_all(bytes).await;
            }
        };
        let receive = async {
            let mut answer = Vec::new();
            if let Some(output) = output {
                let most = (MAX_TEXT_BYTES + TEXT.len() + 1) as u64;
                output.take(most).read_to_end(&mut answer).await?;
            }
            Ok::<_, io::Error>(answer)
        };
        let (_, answer) = tokio::join!(send, receive);
        answer.map_err(failed)
    }
}

impl Reader for PdfReader {
    fn reads(&self, name: &str) -> bool {
        extension(name) == "pdf"
    }

    async fn read(&self, file: SourceFile) -> Result<super::Document, ReaderError> {
        let answer = timeout(PATIENCE, self.ask(&file.bytes)).await;
        let answer = answer.map_err(|_| ReaderError::TimedOut(PATIENCE.as_secs()))??;
        let after = |mark: &[u8]| {
            let place = answer.windows(mark.len()).position(|part| part == mark)?;
            answer.get(place + mark.len()..)
        };
        if let Some(text) = after(TEXT) {
            if text.len() > MAX_TEXT_BYTES {
                return Err(ReaderError::TooLarge(MAX_TEXT_BYTES));
            }
            if text.trim_ascii().is_empty() {
                return Err(ReaderError::NoText);
            }
            return Ok(super::Document {
                title: None,
                text: String::from_utf8_lossy(text).into_owned(),
                structure: Structure::Text,
                ..super::Document::default()
            });
        }
        let said = after(ERROR).map(|said| String::from_utf8_lossy(said).into_owned());
        Err(match said.as_deref() {
            Some("encrypted") => ReaderError::Encrypted,
            Some(said) => ReaderError::Malformed(said.chars().take(200).collect()),
            None => ReaderError::Malformed(String::from(
                "the process that read it came to its bounds or gave up",
            )),
        })
    }
}

/// The work of a [`PdfReader`]'s process: reads a PDF to the end of its input, and writes the text or the reason why
/// there is none. Bound the memory and the time of the process before.
///
/// # Errors
/// Reading or writing failed.
pub fn serve_pdf(input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut bytes = Vec::new();
    input.take(MAX_PDF_BYTES).read_to_end(&mut bytes)?;
    match pdf_text(&bytes) {
        Ok(text) => {
            output.write_all(TEXT)?;
            output.write_all(text.as_bytes())?;
        }
        Err(error) => {
            output.write_all(ERROR)?;
            match error {
                ReaderError::Encrypted => output.write_all(b"encrypted")?,
                // The reader says in its own words that it is damaged.
                ReaderError::Malformed(reason) => output.write_all(reason.as_bytes())?,
                error => output.write_all(error.to_string().as_bytes())?,
            }
        }
    }
    output.flush()
}

/// The text of a PDF, read in this process. It may take any memory and any time, and end the process: use it for trusted
/// documents, and in processes that do nothing else.
///
/// Fonts need not be embedded. A page of which something does not read has its text up to that place, and a note.
///
/// # Errors
/// The document is encrypted or no PDF, or no page of it reads.
pub fn pdf_text(bytes: &[u8]) -> Result<String, ReaderError> {
    let opened = reading(|| {
        let mut pdf = Document::load_mem(bytes)?;
        if pdf.is_encrypted() {
            pdf.decrypt("")?;
        }
        pdf_fonts::name_characters(&mut pdf);
        Ok(pdf)
    });
    let pdf = opened.map_err(|said| match says_encrypted(&said) {
        true => ReaderError::Encrypted,
        false => ReaderError::Malformed(said),
    })?;
    let mut whole = String::new();
    let fault = match read_into(&mut whole, |output| output_doc(&pdf, output)) {
        Ok(()) => return Ok(whole),
        Err(said) if says_encrypted(&said) => return Err(ReaderError::Encrypted),
        Err(said) => said,
    };
    let (mut pages, mut any) = (Vec::new(), false);
    for number in pdf.get_pages().into_keys() {
        let mut page = String::new();
        let read = read_into(&mut page, |output| output_doc_page(&pdf, output, number));
        any |= !page.trim().is_empty();
        if read.is_err() {
            page.push_str(&format!("\n(Page {number} does not read to its end.)\n"));
        }
        pages.push(page);
    }
    match any {
        true => Ok(pages.concat()),
        false => Err(ReaderError::Malformed(fault)),
    }
}

fn says_encrypted(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    said.contains("password") || said.contains("crypt")
}

/// Writes what is read to the text, also where reading fails halfway.
fn read_into(
    text: &mut String,
    read: impl FnOnce(&mut dyn OutputDev) -> Result<(), OutputError>,
) -> Result<(), String> {
    reading(|| read(&mut PlainTextOutput::new(text)))
}

/// Reads with a library that panics at what it does not know.
fn reading<T>(read: impl FnOnce() -> Result<T, OutputError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(said.unwrap_or("something in it is not known").to_owned())
        }
    }
}
