//! HTML, read tag by tag.

use std::cell::RefCell;

use html5ever::{
    tendril::StrTendril,
    tokenizer::{
        BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
        states::RawKind,
    },
};

use super::{Document, ReadError, Reader, SourceFile, blocking, extension, text};
use crate::chunking::Structure;

/// Reads HTML to Markdown: headings, paragraphs, lists, code and the text of tables, without scripts, styles, forms and
/// hidden elements.
///
/// It reads the tags in order and builds no tree, so a page with a million nested tags is a text like any other.
#[derive(Clone, Copy, Debug)]
pub struct HtmlReader;

impl Reader for HtmlReader {
    fn reads(&self, name: &str) -> bool {
        matches!(extension(name).as_str(), "html" | "htm" | "xhtml")
    }

    async fn read(&self, file: SourceFile) -> Result<Document, ReadError> {
        blocking(move || Ok(document(&text::decoded(&file.bytes)?))).await
    }
}

/// The document of a page.
fn document(html: &str) -> Document {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(html));
    let tokenizer = Tokenizer::new(Page::default(), TokenizerOpts::default());
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
    }
}

/// Takes the tokens of a page.
#[derive(Default)]
struct Page(RefCell<Written>);

#[derive(Default)]
struct Written {
    title: String,
    text: String,
    /// How many of these elements are open: invisible ones, the title, preformatted ones.
    unseen: usize,
    in_title: bool,
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
        let begins = tag.kind == TagKind::StartTag;
        match &*tag.name {
            "script" | "style" | "noscript" | "template" | "svg" | "math" | "iframe" | "select"
            | "button" | "object" => {
                // A self-closing tag, such as an empty drawing, has no end tag.
                if !tag.self_closing {
                    self.unseen(begins);
                }
                if begins {
                    return match &*tag.name {
                        "script" => TokenSinkResult::RawData(RawKind::ScriptData),
                        "style" | "noscript" | "iframe" => {
                            TokenSinkResult::RawData(RawKind::Rawtext)
                        }
                        _ => TokenSinkResult::Continue,
                    };
                }
            }
            "title" => {
                self.in_title = begins && self.title.is_empty() && self.unseen == 0;
                if begins {
                    return TokenSinkResult::RawData(RawKind::Rcdata);
                }
            }
            "textarea" => {
                self.unseen(begins);
                if begins {
                    return TokenSinkResult::RawData(RawKind::Rcdata);
                }
            }
            "pre" => {
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
                let level = tag
                    .name
                    .bytes()
                    .nth(1)
                    .map_or(1, |digit| usize::from(digit - b'0'));
                let mark = format!("{} ", "#".repeat(level));
                self.block(if begins { &mark } else { "" });
            }
            "li" => {
                self.line(if begins { "- " } else { "" });
                self.in_item = begins;
            }
            "p" if self.in_item => self.line(""),
            "br" | "tr" | "dt" | "dd" | "option" => self.line(""),
            "td" | "th" => self.space = true,
            "p" | "div" | "section" | "article" | "main" | "header" | "footer" | "nav"
            | "aside" | "ul" | "ol" | "dl" | "table" | "blockquote" | "figure" | "figcaption"
            | "form" | "fieldset" | "hr" | "body" | "address" | "details" | "summary" => {
                self.block("")
            }
            _ => {}
        }
        TokenSinkResult::Continue
    }

    /// Begins or ends an invisible element. An end without a beginning is ignored.
    fn unseen(&mut self, begins: bool) {
        self.unseen = match begins {
            true => self.unseen + 1,
            false => self.unseen.saturating_sub(1),
        };
    }

    fn say(&mut self, said: &str) {
        if self.in_title {
            self.title.extend(
                said.chars()
                    .take(500_usize.saturating_sub(self.title.len())),
            );
            return;
        }
        if self.unseen > 0 {
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
        if self.unseen == 0 {
            self.text.push_str(mark);
        }
    }

    /// Begins a line with this mark.
    fn line(&mut self, mark: &str) {
        self.space = false;
        if self.unseen > 0 || self.verbatim > 0 {
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
        if self.unseen == 0 && self.verbatim == 0 {
            if !self.text.is_empty() && !self.text.ends_with("\n\n") {
                self.text.push('\n');
            }
            self.text.push_str(mark);
        }
    }
}
