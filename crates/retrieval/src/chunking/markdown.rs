//! The sections of a Markdown text and the blocks in them.

use std::{ops::Range, sync::Arc};

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::{Headings, bounded_heading};

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
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
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
