//! HTML documents.

use super::{Document, Reader, ReaderError, SourceFile, blocking, extension, text};
use crate::{
    chunking::Structure,
    html::{Detail, WebPage},
};

/// Reads HTML to Markdown: headings, paragraphs, lists, code and the text of tables. See [`WebPage`].
#[derive(Clone, Copy, Debug)]
pub struct HtmlReader;

impl Reader for HtmlReader {
    fn reads(&self, name: &str) -> bool {
        matches!(extension(name).as_str(), "html" | "htm" | "xhtml")
    }

    async fn read(&self, file: SourceFile) -> Result<Document, ReaderError> {
        blocking(move || {
            let html = text::decoded(&file.bytes, text::declared(&file.bytes))?;
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
