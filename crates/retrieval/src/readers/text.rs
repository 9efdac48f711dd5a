//! Plain text: prose, Markdown, source code.

use super::{Document, ReadError, Reader, SourceFile, blocking, extension};
use crate::chunking::Structure;

/// The names of text files without an extension.
const TEXT_NAMES: [&str; 5] = ["readme", "license", "changelog", "makefile", "dockerfile"];
const TEXT: [&str; 8] = ["txt", "text", "log", "rst", "org", "adoc", "tex", "srt"];
const MARKDOWN: [&str; 3] = ["md", "markdown", "mdx"];
const CODE: [&str; 40] = [
    "rs", "py", "go", "js", "jsx", "ts", "tsx", "java", "kt", "scala", "c", "h", "cc", "cpp",
    "hpp", "cs", "m", "swift", "rb", "php", "pl", "lua", "sh", "bash", "zsh", "ps1", "sql", "r",
    "jl", "hs", "ex", "exs", "erl", "clj", "toml", "yaml", "yml", "json", "proto", "css",
];

/// Reads text, Markdown and source code, by the extension of the name.
///
/// Text is UTF-8, or UTF-16 with a byte order mark; any other text is read as Windows-1252.
#[derive(Clone, Copy, Debug)]
pub struct TextReader;

impl Reader for TextReader {
    fn reads(&self, name: &str) -> bool {
        structure(name).is_some()
    }

    async fn read(&self, file: SourceFile) -> Result<Document, ReadError> {
        let structure = structure(&file.name).ok_or(ReadError::Unknown)?;
        blocking(move || {
            let text = decoded(&file.bytes)?;
            let title = match structure {
                Structure::Markdown => first_heading(&text),
                _ => None,
            };
            Ok(Document {
                title,
                text,
                structure,
            })
        })
        .await
    }
}

fn structure(name: &str) -> Option<Structure> {
    let ending = extension(name);
    let is = |endings: &[&str]| endings.contains(&ending.as_str());
    if is(&MARKDOWN) {
        return Some(Structure::Markdown);
    }
    if is(&CODE) {
        return Some(Structure::Code);
    }
    let file = name
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    (is(&TEXT) || TEXT_NAMES.contains(&file.as_str())).then_some(Structure::Text)
}

fn first_heading(text: &str) -> Option<String> {
    let heading = text.lines().find_map(|line| line.strip_prefix("# "))?;
    Some(heading.trim().chars().take(200).collect())
}

/// The bytes decoded to text.
pub(super) fn decoded(bytes: &[u8]) -> Result<String, ReadError> {
    let marked = encoding_rs::Encoding::for_bom(bytes);
    let text = match marked {
        Some((encoding, _)) => encoding.decode(bytes).0,
        None if bytes.contains(&0) => return Err(ReadError::NotText),
        None => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => encoding_rs::WINDOWS_1252.decode(bytes).0,
        },
    };
    Ok(text.into_owned())
}
