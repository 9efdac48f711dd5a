//! HTML, read tag by tag.

mod open;

use std::cell::RefCell;

use html5ever::{
    tendril::StrTendril,
    tokenizer::{
        BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
        states::RawKind,
    },
};

use super::{Document, Reader, ReaderError, SourceFile, blocking, extension, text};
use crate::chunking::Structure;

/// Reads HTML to Markdown: headings, paragraphs, lists, code and the text of tables, without scripts, styles, forms and
/// hidden elements: those with the attribute `hidden`, with `aria-hidden="true"`, and those that their own `style` hides.
///
/// It reads the tags in order and builds no tree, so a page with a million nested tags is a text like any other.
#[derive(Clone, Copy, Debug)]
pub struct HtmlReader;

impl Reader for HtmlReader {
    fn reads(&self, name: &str) -> bool {
        matches!(extension(name).as_str(), "html" | "htm" | "xhtml")
    }

    async fn read(&self, file: SourceFile) -> Result<Document, ReaderError> {
        blocking(move || {
            let html = text::decoded(&file.bytes, text::declared(&file.bytes))?;
            let xml = extension(&file.name) == "xhtml" || is_xml(&html);
            Ok(document(&html, xml))
        })
        .await
    }
}

/// Whether a page is XHTML, in which each element can end with its own tag: `<script/>`.
fn is_xml(page: &str) -> bool {
    let head: String = page.chars().take(2_000).collect();
    let head = head.trim_start_matches('\u{feff}').trim_start();
    head.starts_with("<?xml")
        || head.contains("http://www.w3.org/1999/xhtml")
        || head.contains("DTD XHTML")
}

/// The document of a page.
fn document(html: &str, xml: bool) -> Document {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(html));
    let page = Page(RefCell::new(Written {
        open: open::Elements::new(xml),
        ..Written::default()
    }));
    let tokenizer = Tokenizer::new(page, TokenizerOpts::default());
    // The tokenizer stops at the end of a script; no script is run here.
    while !input.is_empty() {
        let _ = tokenizer.feed(&input);
    }
    tokenizer.end();
    let Written { title, text, .. } = tokenizer.sink.0.into_inner();
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    Document {
        title: (!title.is_empty()).then_some(title),
        text,
        structure: Structure::Markdown,
        ..Document::default()
    }
}

/// Takes the tokens of a page.
struct Page(RefCell<Written>);

#[derive(Default)]
struct Written {
    title: String,
    text: String,
    open: open::Elements,
    in_title: bool,
    /// How many preformatted elements are open.
    verbatim: usize,
    in_item: bool,
    /// Whether to write a space before the next word.
    space: bool,
}

impl TokenSink for Page {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let mut written = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) => return written.tag(&tag),
            Token::CharacterTokens(said) => written.say(&said),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

impl Written {
    fn tag(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        if tag.kind == TagKind::EndTag {
            let was_visible = self.open.is_visible();
            self.open.end(&tag.name);
            self.layout(&tag.name, false, was_visible);
            return TokenSinkResult::Continue;
        }
        let stays_open = self.open.begin(tag);
        let visible = self.open.is_visible();
        self.layout(&tag.name, true, visible);
        if !stays_open {
            self.layout(&tag.name, false, visible);
            return TokenSinkResult::Continue;
        }
        match &*tag.name {
            "script" => TokenSinkResult::RawData(RawKind::ScriptData),
            "style" | "noscript" | "iframe" => TokenSinkResult::RawData(RawKind::Rawtext),
            "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
            _ => TokenSinkResult::Continue,
        }
    }

    /// Writes what the beginning or the end of an element means for the text around it. The element itself may be invisible.
    fn layout(&mut self, name: &str, begins: bool, visible: bool) {
        match name {
            "title" => self.in_title = begins && visible && self.title.is_empty(),
            "pre" if visible => {
                self.block("");
                if begins {
                    self.verbatim += 1;
                    self.push("```\n");
                } else if self.verbatim > 0 {
                    self.verbatim -= 1;
                    let fence = if self.text.ends_with('\n') {
                        "```"
                    } else {
                        "\n```"
                    };
                    self.push(fence);
                    self.block("");
                }
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = name.as_bytes().get(1).copied();
                let level = level.map_or(1, |digit| usize::from(digit - b'0'));
                let mark = format!("{} ", "#".repeat(level));
                self.block(if begins { &mark } else { "" });
            }
            "li" => {
                self.line(if begins { "- " } else { "" });
                self.in_item = begins && visible;
            }
            "p" if self.in_item => self.line(""),
            "br" | "tr" | "dt" | "dd" | "option" => self.line(""),
            "td" | "th" => self.space = true,
            _ if open::BLOCKS.contains(&name) => self.block(""),
            _ => {}
        }
    }

    fn say(&mut self, said: &str) {
        if self.in_title {
            self.title.extend(
                said.chars()
                    .take(500_usize.saturating_sub(self.title.len())),
            );
            return;
        }
        if !self.open.is_visible() {
            return;
        }
        if self.verbatim > 0 {
            self.text.push_str(said);
            return;
        }
        for (place, word) in said.split(char::is_whitespace).enumerate() {
            self.space |= place > 0;
            if word.is_empty() {
                continue;
            }
            if self.space && !self.text.is_empty() && !self.text.ends_with(['\n', ' ']) {
                self.text.push(' ');
            }
            self.space = false;
            self.text.push_str(word);
        }
    }

    fn push(&mut self, mark: &str) {
        if self.open.is_visible() {
            self.text.push_str(mark);
        }
    }

    /// Begins a line with this mark.
    fn line(&mut self, mark: &str) {
        self.space = false;
        if !self.open.is_visible() || self.verbatim > 0 {
            return;
        }
        // The paragraph of a list item stays in the item's line.
        let begins_item = self.text == "- " || self.text.ends_with("\n- ");
        if !self.text.is_empty() && !self.text.ends_with('\n') && !begins_item {
            self.text.push('\n');
        }
        self.text.push_str(mark);
    }

    /// Begins a paragraph with this mark.
    fn block(&mut self, mark: &str) {
        self.line("");
        self.in_item = false;
        if self.open.is_visible() && self.verbatim == 0 {
            if !self.text.is_empty() && !self.text.ends_with("\n\n") {
                self.text.push('\n');
            }
            self.text.push_str(mark);
        }
    }
}
