//! Word processor documents: the text of DOCX.

mod paragraphs;
mod relations;
mod styles;
mod symbols;

use std::io::{Cursor, Read as _};

use self::relations::Relations;
use super::{Document, MAX_TEXT_BYTES, Reader, ReaderError, SourceFile, blocking, extension, text};
use crate::chunking::Structure;

/// The most bytes of unpacked XML, four times the text limit: an archive can unpack to a thousand times its size.
const MAX_XML_BYTES: u64 = 4 * MAX_TEXT_BYTES as u64;

/// Reads DOCX to Markdown: paragraphs, headings by the level of their style, the text of tables and of text boxes, equations in
/// one line, and each footnote or endnote behind the paragraph that refers to it. Characters of the fonts Symbol and Wingdings
/// are read as those of Unicode. Tracked deletions, the former places of moved text, hidden text, and the readings of a ruby
/// beside its base are left out.
#[derive(Clone, Copy, Debug)]
pub struct DocxReader;

impl Reader for DocxReader {
    fn reads(&self, name: &str) -> bool {
        extension(name) == "docx"
    }

    async fn read(&self, file: SourceFile) -> Result<Document, ReaderError> {
        blocking(move || {
            let mut archive = opened(file.bytes)?;
            let whole = Relations::of(&mut archive, "");
            let main = whole.target("officeDocument", "word/document.xml");
            let document = part(&mut archive, &main)?;
            let parts = Relations::of(&mut archive, &main);
            // Without styles, or with styles that cannot be read, there are fewer headings; without notes there are none.
            let styles = parts.target("styles", "word/styles.xml");
            let styles = part(&mut archive, &styles).unwrap_or_default();
            let styles = styles::Styles::read(&styles);
            let notes = [
                parts.target("footnotes", "word/footnotes.xml"),
                parts.target("endnotes", "word/endnotes.xml"),
            ];
            let notes = notes
                .into_iter()
                .flat_map(|name| {
                    let notes = part(&mut archive, &name).unwrap_or_default();
                    paragraphs::notes(&notes, &styles)
                })
                .collect();
            let text = paragraphs::text(&document, &styles, notes)?;
            Ok(Document {
                title: None,
                text,
                structure: Structure::Markdown,
                ..Document::default()
            })
        })
        .await
    }
}

fn malformed(error: impl std::fmt::Display) -> ReaderError {
    ReaderError::Malformed(error.to_string())
}

type Archive = zip::ZipArchive<Cursor<Vec<u8>>>;

fn opened(bytes: Vec<u8>) -> Result<Archive, ReaderError> {
    // A document that a word processor has encrypted is not an archive, but a compound file.
    if bytes.starts_with(&[0xd0, 0xcf, 0x11, 0xe0]) {
        return Err(ReaderError::Encrypted);
    }
    zip::ZipArchive::new(Cursor::new(bytes)).map_err(malformed)
}

/// A part of the archive.
fn part(archive: &mut Archive, name: &str) -> Result<String, ReaderError> {
    let part = archive.by_name(name).map_err(malformed)?;
    if part.encrypted() {
        return Err(ReaderError::Encrypted);
    }
    let mut xml = Vec::new();
    let read = part
        .take(MAX_XML_BYTES + 1)
        .read_to_end(&mut xml)
        .map_err(malformed)?;
    match read as u64 > MAX_XML_BYTES {
        true => Err(ReaderError::TooLarge(MAX_TEXT_BYTES)),
        false => text::decoded(&xml, None),
    }
}

/// Whether an element that is a yes or no says yes.
fn is_on(tag: &quick_xml::events::BytesStart<'_>) -> bool {
    !matches!(value(tag).as_deref(), Some("0" | "false" | "off"))
}

/// The value of an element's attribute `val`.
fn value(tag: &quick_xml::events::BytesStart<'_>) -> Option<String> {
    attribute(tag, "val")
}

/// The value of an element's attribute of this name.
fn attribute(tag: &quick_xml::events::BytesStart<'_>, name: &str) -> Option<String> {
    let mut values = tag.attributes().flatten();
    let found = values.find(|attribute| attribute.key.local_name().as_ref() == name)?;
    Some(found.value.trim().to_owned())
}
