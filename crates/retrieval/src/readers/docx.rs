//! Word processor documents: the text of DOCX.

use std::io::{Cursor, Read as _};

use quick_xml::{
    Reader as XmlReader,
    events::{BytesStart, Event},
};

use super::{Document, MAX_TEXT_BYTES, ReadError, Reader, SourceFile, blocking, extension, text};
use crate::chunking::Structure;

/// The most bytes of unpacked XML, four times the text limit: an archive can unpack to a thousand times its size.
const MAX_XML_BYTES: u64 = 4 * MAX_TEXT_BYTES as u64;

/// Reads DOCX to Markdown: paragraphs, headings by their style, and the text of tables. Tracked deletions are left out.
#[derive(Clone, Copy, Debug)]
pub struct DocxReader;

impl Reader for DocxReader {
    fn reads(&self, name: &str) -> bool {
        extension(name) == "docx"
    }

    async fn read(&self, file: SourceFile) -> Result<Document, ReadError> {
        blocking(move || {
            let text = paragraphs(&text::decoded(&document_xml(file.bytes)?)?)?;
            Ok(Document {
                title: None,
                text,
                structure: Structure::Markdown,
            })
        })
        .await
    }
}

fn malformed(error: impl std::fmt::Display) -> ReadError {
    ReadError::Malformed(error.to_string())
}

/// The part of the archive that contains the text.
fn document_xml(bytes: Vec<u8>) -> Result<Vec<u8>, ReadError> {
    // A document that a word processor has encrypted is not an archive, but a compound file.
    if bytes.starts_with(&[0xd0, 0xcf, 0x11, 0xe0]) {
        return Err(ReadError::Encrypted);
    }
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(malformed)?;
    let part = archive.by_name("word/document.xml").map_err(malformed)?;
    if part.encrypted() {
        return Err(ReadError::Encrypted);
    }
    let mut xml = Vec::new();
    let read = part
        .take(MAX_XML_BYTES + 1)
        .read_to_end(&mut xml)
        .map_err(malformed)?;
    match read as u64 > MAX_XML_BYTES {
        true => Err(ReadError::TooLarge(MAX_TEXT_BYTES)),
        false => Ok(xml),
    }
}

fn paragraphs(xml: &str) -> Result<String, ReadError> {
    let mut reader = XmlReader::from_str(xml);
    let mut text = String::new();
    let mut in_text = false;
    loop {
        match reader.read_event().map_err(malformed)? {
            Event::Start(tag) => match tag.local_name().as_ref() {
                "t" => in_text = true,
                "pStyle" => style(&tag, &mut text),
                _ => {}
            },
            Event::Empty(tag) => match tag.local_name().as_ref() {
                "br" | "cr" => text.push('\n'),
                "tab" => text.push('\t'),
                "pStyle" => style(&tag, &mut text),
                _ => {}
            },
            Event::End(tag) => match tag.local_name().as_ref() {
                "t" => in_text = false,
                "p" if !text.is_empty() && !text.ends_with("\n\n") => text.push_str("\n\n"),
                _ => {}
            },
            Event::Text(said) if in_text => {
                text.push_str(&said.xml10_content());
            }
            Event::GeneralRef(name) if in_text => {
                // XML's five predefined entities and character references; other entities need a definition, which is
                // not read.
                match name.resolve_char_ref().map_err(malformed)? {
                    Some(character) => text.push(character),
                    None => {
                        let known = quick_xml::escape::resolve_xml_entity(&name);
                        text.push_str(known.unwrap_or_default());
                    }
                }
            }
            Event::Eof => return Ok(text),
            _ => {}
        }
        if text.len() > MAX_TEXT_BYTES {
            return Err(ReadError::TooLarge(MAX_TEXT_BYTES));
        }
    }
}

/// Writes the mark of a heading if the paragraph has the style of one.
fn style(tag: &BytesStart<'_>, text: &mut String) {
    let values = tag.attributes().flatten();
    let mut values = values.filter(|attribute| attribute.key.local_name().as_ref() == "val");
    let Some(value) = values.next() else { return };
    let value = value.value.to_ascii_lowercase();
    let level = match value.as_str() {
        "title" => Some(1),
        other => other
            .strip_prefix("heading")
            .and_then(|level| level.trim().parse::<usize>().ok()),
    };
    if let Some(level) = level.filter(|level| (1..=6).contains(level)) {
        text.push_str(&"#".repeat(level));
        text.push(' ');
    }
}
