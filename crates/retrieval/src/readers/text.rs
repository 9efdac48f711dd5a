//! Plain text: prose, Markdown, source code.

use encoding_rs::{Encoding, WINDOWS_1252};

use super::{
    Document, Metadata, Reader, ReaderError, SourceFile, blocking, extension, front_matter,
};
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
/// Text is UTF-8, or UTF-16 with a byte order mark; bytes that are neither are read as Windows-1252.
#[derive(Clone, Copy, Debug)]
pub struct TextReader;

impl Reader for TextReader {
    fn reads(&self, name: &str) -> bool {
        structure(name).is_some()
    }

    async fn read(&self, file: SourceFile) -> Result<Document, ReaderError> {
        let structure = structure(&file.name).ok_or(ReaderError::Unknown)?;
        blocking(move || {
            let text = decoded(&file.bytes, None)?;
            let title = match structure {
                Structure::Markdown => first_heading(&text),
                _ => None,
            };
            let metadata = match structure {
                Structure::Markdown => front_matter::metadata(&text),
                _ => Metadata::new(),
            };
            Ok(Document {
                title,
                text,
                structure,
                metadata,
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

/// The bytes decoded to text: by their byte order mark, by the encoding that the document declares in its first lines, as UTF-8.
/// Bytes that are not UTF-8 are read as Windows-1252, and the text around them stays as it is.
pub(super) fn decoded(
    bytes: &[u8],
    declared: Option<&'static Encoding>,
) -> Result<String, ReaderError> {
    let marked = Encoding::for_bom(bytes).map(|(encoding, _)| encoding);
    if marked.is_none() && bytes.contains(&0) {
        return Err(ReaderError::NotText);
    }
    if let Some(encoding) = marked.or(declared.filter(|encoding| *encoding != encoding_rs::UTF_8)) {
        return Ok(encoding.decode(bytes).0.into_owned());
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.push_str(&WINDOWS_1252.decode_without_bom_handling(chunk.invalid()).0);
    }
    Ok(text)
}
