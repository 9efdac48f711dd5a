//! HTML as Markdown, read tag by tag.

mod open;

use std::cell::RefCell;

use html5ever::{
    LocalName,
    tendril::StrTendril,
    tokenizer::{
        BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
        states::RawKind,
    },
};

use crate::{equation::Equation, scripts::Script};

/// How much of a page becomes Markdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Its text, as a search needs it.
    #[default]
    Text,
    /// Its text, the addresses of links and pictures, and the borders between the cells of tables.
    Links,
}

/// A page of HTML as Markdown: headings, paragraphs, lists, code and tables, without scripts, styles and hidden elements:
/// those with the attribute `hidden` or `popover`, with `aria-hidden="true"`, those that their own `style` hides, closed dialogs, and
/// what stands in a picture or a film for browsers that cannot show it.
///
/// The tags are read in order and no tree is built, so a page with a million nested tags is a text like any other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebPage {
    /// Its title, if it has one.
    pub title: Option<String>,
    /// Its text.
    pub text: String,
}

impl WebPage {
    /// Reads a page. In XHTML, which a page may also say itself, each element can end with its own tag: `<script/>`.
    pub fn read(html: &str, is_xhtml: bool, detail: Detail) -> Self {
        let input = BufferQueue::default();
        input.push_back(StrTendril::from_slice(html));
        let page = Page(RefCell::new(Written {
            open: open::Elements::new(is_xhtml || says_xhtml(html)),
            detail,
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
        Self {
            title: (!title.is_empty()).then_some(title),
            text,
        }
    }
}

/// Whether a page says that it is XHTML.
fn says_xhtml(page: &str) -> bool {
    let head = page.trim_start_matches('\u{feff}').trim_start();
    let head = &head[..head.floor_char_boundary(2_000)];
    head.starts_with("<?xml")
        || head.contains("http://www.w3.org/1999/xhtml")
        || head.contains("DTD XHTML")
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
    detail: Detail,
    /// The place in the text where the open link begins, its address, and how many elements are open in it.
    link: Option<(usize, String, usize)>,
    equation: Equation,
    /// The work that is due when an element ends, with how many elements are open until then.
    due: Vec<(usize, Due)>,
}

#[derive(Clone, Copy)]
enum Due {
    /// The text from this place on stands beside the line.
    Script(Script, usize),
    /// An element of an equation, which may be a paragraph of its own.
    Equation { block: bool },
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
            self.end_due();
            self.layout(&tag.name, false, was_visible);
            if &*tag.name == "a" {
                self.end_link();
            }
            return TokenSinkResult::Continue;
        }
        let name = open::local(&tag.name);
        self.open.end_implied(name);
        self.end_due();
        if self.ends_equation(name) {
            for math in ["math", "m:math", "mml:math"] {
                self.open.end(&LocalName::from(math));
            }
            self.end_due();
        }
        let stays_open = self.open.begin(tag, self.equation.is_open());
        let visible = self.open.is_visible();
        self.layout(&tag.name, true, visible);
        self.begin_due(tag, name, visible, stays_open);
        if self.detail == Detail::Links && visible {
            self.addresses(tag);
        }
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

    /// Whether this element cannot stand in the open equation, which was not ended then.
    fn ends_equation(&self, name: &str) -> bool {
        let is_text = self.equation.takes_text() && !open::BLOCKS.contains(&name);
        let is_shown = self.equation.is_open() && self.open.is_visible();
        is_shown && !is_text && !open::is_of_mathml(name)
    }

    /// Notes what is written when this element ends.
    fn begin_due(&mut self, tag: &Tag, name: &str, visible: bool, stays_open: bool) {
        let begins = name == "math" && visible;
        let due = if self.equation.is_open() || begins {
            let block = begins && open::attribute(tag, "display").as_deref() == Some("block");
            if block {
                self.block("");
            }
            self.spaced();
            let attribute = |name: &str| open::attribute(tag, name);
            self.equation.start_mathml(name, attribute, &mut self.text);
            Some(Due::Equation { block })
        } else {
            let script = open::script(tag).filter(|_| visible);
            script.map(|script| {
                self.spaced();
                Due::Script(script, self.text.len())
            })
        };
        // What does not stay open ends at once.
        let depth = self.open.depth() + usize::from(!stays_open);
        self.due.extend(due.map(|due| (depth, due)));
        self.end_due();
    }

    /// Writes what is due with the elements that have ended.
    fn end_due(&mut self) {
        while let Some((depth, due)) = self.due.pop_if(|(depth, _)| *depth > self.open.depth()) {
            match due {
                Due::Script(script, begin) => {
                    // A link that began within it ends with it.
                    let inner = self.link.as_ref().map(|(.., inner)| *inner);
                    if inner.is_some_and(|inner| inner > depth) {
                        self.end_link();
                    }
                    script.apply(&mut self.text, begin);
                }
                Due::Equation { block } => {
                    self.equation.end(&mut self.text);
                    if block {
                        self.block("");
                    }
                }
            }
        }
    }

    /// Writes the space that is due before what comes next.
    fn spaced(&mut self) {
        let is_due = std::mem::take(&mut self.space) && self.verbatim == 0;
        if is_due && !self.text.is_empty() && !self.text.ends_with(['\n', ' ']) {
            self.text.push(' ');
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
            "td" | "th" => self.cell(begins && visible),
            _ if open::BLOCKS.contains(&name) => self.block(""),
            _ => {}
        }
    }

    /// Keeps the cells of a row apart.
    fn cell(&mut self, begins: bool) {
        let follows = !self.text.is_empty() && !self.text.ends_with('\n');
        if self.detail == Detail::Links && begins && follows {
            self.text.push_str(" |");
        }
        self.space = true;
    }

    /// Notes the address of a link, or writes that of a picture.
    fn addresses(&mut self, tag: &Tag) {
        let given = |name: &str| open::attribute(tag, name).filter(|value| !value.is_empty());
        match &*tag.name {
            "a" => {
                self.end_link();
                let (begin, depth) = (self.text.len(), self.open.depth());
                self.link = given("href").map(|address| (begin, address, depth));
            }
            "img" => {
                let address = given("src").filter(|address| !address.starts_with("data:"));
                if let (Some(address), Some(shown)) = (address, given("alt")) {
                    self.say(&format!("![{shown}]({address})"));
                }
            }
            _ => {}
        }
    }

    /// Writes the open link, unless it has no text.
    fn end_link(&mut self) {
        let Some((begin, address, _)) = self.link.take() else {
            return;
        };
        let said = self.text.get(begin..).unwrap_or_default();
        let inside = said.trim();
        if inside.is_empty() {
            return;
        }
        let from = begin + said.find(inside).unwrap_or_default();
        let to = from + inside.len();
        self.text.insert_str(to, &format!("]({address})"));
        self.text.insert(from, '[');
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
        if self.equation.is_open() {
            if self.equation.takes_text() {
                self.text.push_str(said);
            }
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
            self.spaced();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn links(page: &str) -> String {
        WebPage::read(page, false, Detail::Links).text
    }

    #[test]
    fn links_pictures_and_cells_are_kept_where_they_are_wanted() {
        for (page, text) in [
            (
                "<p>see <a href='/c'>the <b>c</b></a>, or",
                "see [the c](/c), or",
            ),
            ("<a href=/x><div>a</div></a>b", "[a](/x)\n\nb"),
            ("<a href=/x></a><a name=y>b</a><a href=''>c</a>", "bc"),
            ("<a href=/x>a<a href=/y>b</a>", "[a](/x)[b](/y)"),
            (
                "<p>x <img src=/p.png alt='a cat'><img src=/q.png>",
                "x ![a cat](/p.png)",
            ),
            ("<img alt=x src=data:image/png;base64,AA>y", "y"),
            (
                "<table><tr><td>a</td><td>b</td></tr><tr><td>c<td>d</table>",
                "a | b\nc | d",
            ),
            ("<a href=/x hidden>a</a>b", "b"),
            ("<a href=/x>open", "open"),
        ] {
            assert_eq!(links(page).trim_end(), text, "{page}");
        }
        let text = WebPage::read("<a href=/x>a</a><img src=/p alt=p>", false, Detail::Text);
        assert_eq!(text.text, "a");
    }
}
