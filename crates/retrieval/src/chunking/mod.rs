//! Cutting texts into chunks that can be found and read on their own.
//!
//! A [`Chunker`] cuts at the strongest boundary that there is: between sections, then blocks, paragraphs, lines,
//! sentences, words, and, as a last resort, between grapheme clusters. A chunk knows its position in the text and the
//! headings above it.

mod code;
mod cutting;
mod markdown;

use std::{fmt, ops::Range, sync::Arc};

use ghostlight_safety::cut;
use serde::{Deserialize, Serialize};

use self::cutting::{Cutting, Level};

/// The most characters of a heading that are kept. Each chunk below a heading has a copy, so a line of a megabyte that
/// looks like a heading would be repeated thousands of times.
pub const MAX_HEADING_CHARS: usize = 120;

/// The headings above a position, from the outermost to the nearest. The chunks of a section share them.
pub type Headings = Arc<[Arc<str>]>;

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Its range in the text, in bytes.
    pub range: Range<usize>,
    /// The line on which it begins, from 1.
    pub line: usize,
    /// The headings above it, each of at most [`MAX_HEADING_CHARS`] characters: section headings in Markdown, enclosing
    /// lines in code.
    pub headings: Headings,
    /// Its text.
    pub text: String,
}

impl Chunk {
    /// The chunk with its context, so that it can be found by the context and read on its own: the title of its
    /// document, its headings, its text.
    pub fn in_context(&self, title: &str) -> String {
        let above = [title]
            .into_iter()
            .chain(self.headings.iter().map(|heading| &**heading));
        let above: Vec<&str> = above.filter(|part| !part.is_empty()).collect();
        match above.is_empty() {
            true => self.text.clone(),
            false => format!("{}\n{}", above.join(" > "), self.text),
        }
    }
}

/// The kind of a text, which decides its boundaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "index", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Structure {
    /// Paragraphs and lines.
    #[default]
    Text,
    /// Whole sentences, whatever the lines are.
    Sentences,
    /// Sections and blocks of Markdown. Front matter is left out.
    Markdown,
    /// Source code of any language that indents nested code.
    Code,
}

/// Measures the size of a text. The size of two adjacent texts is about the sum of their sizes.
type Measure = Arc<dyn Fn(&str) -> usize + Send + Sync>;

/// Cuts texts into chunks of a size.
///
/// ```
/// use ghostlight_retrieval::chunking::Chunker;
///
/// let text = "# Parcels\n\nThey are brought by noon.\n\n## Lost\n\nWrite to us.\n";
/// let chunks = Chunker::markdown(1_000).chunks(text);
/// assert_eq!(chunks.len(), 2);
/// assert_eq!(chunks[1].in_context("faq.md"), "faq.md > Parcels > Lost\nWrite to us.");
/// assert_eq!(&text[chunks[1].range.clone()], "Write to us.");
/// ```
#[derive(Clone)]
pub struct Chunker {
    structure: Structure,
    max: usize,
    overlap: usize,
    measure: Measure,
}

impl Chunker {
    /// Cuts texts of this structure into chunks of at most this many characters, at least one.
    pub fn new(structure: Structure, max_chars: usize) -> Self {
        Self {
            structure,
            max: max_chars.max(1),
            overlap: 0,
            measure: Arc::new(|text| text.chars().count()),
        }
    }

    /// Cuts plain text.
    pub fn text(max_chars: usize) -> Self {
        Self::new(Structure::Text, max_chars)
    }

    /// Cuts between sentences.
    pub fn sentences(max_chars: usize) -> Self {
        Self::new(Structure::Sentences, max_chars)
    }

    /// Cuts Markdown.
    pub fn markdown(max_chars: usize) -> Self {
        Self::new(Structure::Markdown, max_chars)
    }

    /// Cuts source code.
    pub fn code(max_chars: usize) -> Self {
        Self::new(Structure::Code, max_chars)
    }

    /// Lets each chunk begin with this much of the text before it in its section, in the unit of the size. The overlap
    /// counts for the size, and is at most half of it.
    #[must_use]
    pub fn overlap(mut self, overlap: usize) -> Self {
        self.overlap = overlap.min(self.max / 2);
        self
    }

    /// Measures sizes with this function, such as a counter of tokens, instead of in characters. For two adjacent texts
    /// it should give about the sum of their sizes.
    #[must_use]
    pub fn measured_by(mut self, measure: impl Fn(&str) -> usize + Send + Sync + 'static) -> Self {
        self.measure = Arc::new(measure);
        self
    }

    /// Uses the same sizes for another kind of text.
    #[must_use]
    pub fn structured(mut self, structure: Structure) -> Self {
        self.structure = structure;
        self
    }

    /// Its sizes as a text, which differs where they do.
    #[cfg(feature = "index")]
    pub(crate) fn sizes(&self) -> String {
        format!("{} {}", self.max, self.overlap)
    }

    /// The chunks of a text, in order. Text that is only white space is in none.
    pub fn chunks(&self, text: &str) -> Vec<Chunk> {
        let whole = |levels: &'static [Level<'static>]| {
            let headings: Headings = Arc::from([]);
            let mut lines = Lines::new(text);
            self.pieces(text, 0..text.len(), levels)
                .into_iter()
                .map(|range| chunk(text, range, &headings, &mut lines))
                .collect()
        };
        match self.structure {
            Structure::Text => whole(&cutting::TEXT),
            Structure::Sentences => whole(&cutting::SENTENCES),
            Structure::Markdown => self.markdown_chunks(text),
            Structure::Code => self.code_chunks(text),
        }
    }

    fn markdown_chunks(&self, text: &str) -> Vec<Chunk> {
        let mut lines = Lines::new(text);
        let mut chunks = Vec::new();
        for section in markdown::sections(text) {
            let levels = [
                Level::Marks(&section.blocks),
                Level::Marks(&section.inner),
                Level::Paragraphs,
                Level::Lines,
                Level::Sentences,
                Level::Words,
                Level::Graphemes,
                Level::Chars,
            ];
            for range in self.pieces(text, section.range.clone(), &levels) {
                chunks.push(chunk(text, range, &section.headings, &mut lines));
            }
        }
        chunks
    }

    fn code_chunks(&self, text: &str) -> Vec<Chunk> {
        let outline = code::Outline::of(text);
        let levels = [
            Level::Marks(&outline.items),
            Level::Paragraphs,
            Level::Lines,
            Level::Words,
            Level::Graphemes,
            Level::Chars,
        ];
        let mut lines = Lines::new(text);
        self.pieces(text, 0..text.len(), &levels)
            .into_iter()
            .map(|range| {
                let headings = outline.enclosing(text, range.start);
                chunk(text, range, &headings, &mut lines)
            })
            .collect()
    }

    /// The pieces of a section, without white space around them.
    fn pieces(&self, text: &str, section: Range<usize>, levels: &[Level<'_>]) -> Vec<Range<usize>> {
        let cutting = Cutting {
            text,
            levels,
            max: self.max - self.overlap,
            measure: &*self.measure,
        };
        let trimmed = |piece| trimmed(text, piece);
        let pieces = cutting.pieces(section.clone()).into_iter().map(trimmed);
        let pieces = pieces.filter(|piece| !piece.is_empty()).enumerate();
        let overlapping = pieces.map(|(place, piece)| match place {
            0 => piece,
            _ => trimmed(cutting.back(section.start, piece.start, self.overlap)..piece.end),
        });
        overlapping.collect()
    }
}

impl fmt::Debug for Chunker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunker")
            .field("structure", &self.structure)
            .field("max", &self.max)
            .field("overlap", &self.overlap)
            .finish_non_exhaustive()
    }
}

/// A heading, cut to its maximal length.
fn bounded_heading(title: &str) -> Arc<str> {
    cut(title, MAX_HEADING_CHARS).into()
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let Some(piece) = text.get(range.clone()) else {
        return 0..0;
    };
    // Empty lines are dropped; the indentation of the first other line stays, since it means something in code.
    let content = piece.len() - piece.trim_start().len();
    let line = piece.get(..content).and_then(|blank| blank.rfind('\n'));
    let start = range.start + line.map_or(0, |end| end + 1);
    let start = match line.is_some() || range.start == 0 || text[..range.start].ends_with('\n') {
        true => start,
        false => range.start + content,
    };
    let end = range.start + piece.trim_end().len();
    start.min(end)..end
}

fn chunk(text: &str, range: Range<usize>, headings: &Headings, lines: &mut Lines<'_>) -> Chunk {
    Chunk {
        line: lines.at(range.start),
        headings: headings.clone(),
        text: text.get(range.clone()).unwrap_or_default().to_owned(),
        range,
    }
}

/// Counts the lines of a text from position to position.
struct Lines<'t> {
    text: &'t str,
    place: usize,
    line: usize,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            place: 0,
            line: 1,
        }
    }

    /// The line of a position, from 1. Positions with overlap may go back.
    fn at(&mut self, place: usize) -> usize {
        let newlines = |from: usize, to: usize| {
            let part = self.text.as_bytes().get(from..to).unwrap_or_default();
            part.iter().filter(|byte| **byte == b'\n').count()
        };
        self.line = match place >= self.place {
            true => self.line + newlines(self.place, place),
            false => self.line - newlines(place, self.place),
        };
        self.place = place;
        self.line
    }
}
