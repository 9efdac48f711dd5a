//! The sections of a Markdown text and the blocks in them.

use std::{borrow::Cow, ops::Range, sync::Arc};

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::{Headings, bounded_heading};

/// The last column at which a quotation, an item of a list or a footnote begins. The parser walks through all that are open for
/// each line, so a line of a megabyte that opens one with each byte would be walked through for each line behind it.
const MAX_COLUMN: usize = 100;

/// The text below one heading.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) headings: Headings,
    /// The range of its text, without the heading.
    pub(super) range: Range<usize>,
    /// The beginnings of its blocks.
    pub(super) blocks: Vec<usize>,
    /// The beginnings of nested blocks, such as the items of a list.
    pub(super) inner: Vec<usize>,
}

/// The sections of a text, in order. A heading in a quotation or a list begins no section.
pub(super) fn sections(text: &str) -> Vec<Section> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let mut sections = Sections {
        titles: Vec::new(),
        done: Vec::new(),
        current: section(Arc::from([]), 0),
    };
    let mut depth = 0_usize;
    let mut heading: Option<(HeadingLevel, String)> = None;
    let shallow = shallow(text);
    for (event, range) in Parser::new_ext(&shallow, options).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                sections.end(range.start);
                heading = Some((level, String::new()));
                depth += 1;
            }
            Event::End(TagEnd::Heading(_)) if depth == 1 && heading.is_some() => {
                depth -= 1;
                if let Some((level, title)) = heading.take() {
                    sections.begin(level, title.trim(), range.end);
                }
            }
            Event::Start(Tag::MetadataBlock(_)) => depth += 1,
            Event::End(TagEnd::MetadataBlock(_)) => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    sections.end(range.start);
                    sections.current = section(Arc::from([]), range.end);
                }
            }
            Event::Start(tag) => {
                if is_block(&tag) {
                    sections.block(depth, range.start);
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Text(said) | Event::Code(said) => {
                if let Some((_, title)) = &mut heading {
                    title.push_str(&said);
                }
            }
            Event::Rule => sections.block(depth, range.start),
            _ => {}
        }
    }
    sections.end(text.len());
    sections.done
}

/// The text with a letter for the first byte of what would be nested too deeply, so that it is text. All places stay.
fn shallow(text: &str) -> Cow<'_, str> {
    let (mut shallow, mut copied, mut start) = (String::new(), 0, 0);
    for line in text.split_inclusive(['\n', '\r']) {
        if let Some(column) = too_deep(line) {
            shallow.push_str(&text[copied..start + column]);
            shallow.push('x');
            copied = start + column + 1;
        }
        start += line.len();
    }
    if copied == 0 {
        return text.into();
    }
    shallow.push_str(&text[copied..]);
    shallow.into()
}

/// The first column of a line behind the last permitted one at which something begins that holds other blocks, if all
/// before it holds blocks too.
fn too_deep(line: &str) -> Option<usize> {
    let mut rest = line;
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        let length = container(rest)?;
        let column = line.len() - rest.len();
        if column > MAX_COLUMN {
            return Some(column);
        }
        rest = &rest[length..];
    }
}

/// The length of the mark at the beginning of a line with which a quotation, an item of a list or a footnote begins.
fn container(line: &str) -> Option<usize> {
    let is_end = |length: usize| {
        let rest = &line[length..];
        (rest.is_empty() || rest.starts_with([' ', '\t', '\n', '\r'])).then_some(length)
    };
    match line.as_bytes().first()? {
        b'>' => Some(1),
        b'-' | b'+' | b'*' => is_end(1),
        b'0'..=b'9' => {
            let digits = line.bytes().take_while(u8::is_ascii_digit).count();
            line[digits..]
                .starts_with(['.', ')'])
                .then(|| is_end(digits + 1))?
        }
        b'[' => {
            let label = line.strip_prefix("[^")?.split(['\n', '\r']).next()?;
            Some(label.find("]:")? + 4)
        }
        _ => None,
    }
}

struct Sections {
    titles: Vec<(HeadingLevel, Arc<str>)>,
    done: Vec<Section>,
    current: Section,
}

impl Sections {
    fn end(&mut self, place: usize) {
        let next = section(self.current.headings.clone(), place);
        let mut ended = std::mem::replace(&mut self.current, next);
        ended.range.end = place.max(ended.range.start);
        self.done.push(ended);
    }

    fn begin(&mut self, level: HeadingLevel, title: &str, place: usize) {
        self.titles.retain(|(above, _)| *above < level);
        self.titles.push((level, bounded_heading(title)));
        let headings = self.titles.iter().map(|(_, title)| title.clone());
        self.current = section(headings.collect(), place);
    }

    fn block(&mut self, depth: usize, place: usize) {
        match depth {
            0 => self.current.blocks.push(place),
            _ => self.current.inner.push(place),
        }
    }
}

fn section(headings: Headings, start: usize) -> Section {
    Section {
        headings,
        range: start..start,
        blocks: Vec::new(),
        inner: Vec::new(),
    }
}

fn is_block(tag: &Tag<'_>) -> bool {
    !matches!(
        tag,
        Tag::Emphasis
            | Tag::Strong
            | Tag::Strikethrough
            | Tag::Link { .. }
            | Tag::Image { .. }
            | Tag::Superscript
            | Tag::Subscript
            | Tag::TableHead
            | Tag::TableCell
    )
}
