//! HTML documents.

use encoding_rs::Encoding;

use super::{Document, Reader, ReaderError, SourceFile, blocking, extension, text};
use crate::{
    chunking::Structure,
    html::{Detail, WebPage},
};

/// In how many bytes of a page its encoding is declared.
const DECLARED: usize = 4_096;

/// Reads HTML to Markdown: headings, paragraphs, lists, code and the text of tables. See [`WebPage`].
#[derive(Clone, Copy, Debug)]
pub struct HtmlReader;

impl Reader for HtmlReader {
    fn reads(&self, name: &str) -> bool {
        matches!(extension(name).as_str(), "html" | "htm" | "xhtml")
    }

    async fn read(&self, file: SourceFile) -> Result<Document, ReaderError> {
        blocking(move || {
            let html = text::decoded(&file.bytes, declared(&file.bytes))?;
            let is_xhtml = extension(&file.name) == "xhtml";
            let WebPage { title, text } = WebPage::read(&html, is_xhtml, Detail::Text);
            Ok(Document {
                title,
                text,
                structure: Structure::Markdown,
                ..Document::default()
            })
        })
        .await
    }
}

/// The encoding that a page of HTML or XML declares: `<?xml encoding="…"?>`, `<meta charset="…">`, or a `<meta>` with a
/// `content` that holds one.
fn declared(page: &[u8]) -> Option<&'static Encoding> {
    let head: String = page
        .iter()
        .take(DECLARED)
        .map(|byte| char::from(byte.to_ascii_lowercase()))
        .collect();
    let label = |tag: &str, name: &str| {
        let (_, value) = tag
            .split_once('>')
            .map_or(tag, |(tag, _)| tag)
            .split_once(name)?;
        let value = value.trim_start().strip_prefix('=')?.trim_start();
        let value = value.trim_start_matches(['"', '\'']);
        let end = value.find(|c: char| c.is_whitespace() || "\"';/?>".contains(c));
        Encoding::for_label(&value.as_bytes()[..end.unwrap_or(value.len())])
    };
    let xml = head
        .strip_prefix("<?xml")
        .and_then(|rest| label(rest, "encoding"));
    let found = xml.or_else(|| {
        let mut said = without_comments(&head);
        let metas = std::iter::from_fn(move || {
            let (_, rest) = said.split_once("<meta")?;
            said = rest.to_owned();
            Some(said.clone())
        });
        metas.take(64).find_map(|rest| label(&rest, "charset"))
    });
    // A page whose declaration can be read is not in UTF-16.
    found.map(|encoding| match encoding == encoding.output_encoding() {
        true => encoding,
        false => encoding_rs::UTF_8,
    })
}

fn without_comments(head: &str) -> String {
    let mut parts = head.split("<!--");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| {
        kept + part.split_once("-->").map_or("", |(_, after)| after)
    })
}
