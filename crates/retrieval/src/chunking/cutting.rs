//! Cuts a part of a text at the strongest boundaries that make its pieces small enough.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;

/// The boundaries at which a text may be cut.
#[derive(Clone, Copy, Debug)]
pub(super) enum Level<'m> {
    /// These positions, in order.
    Marks(&'m [usize]),
    /// After empty lines.
    Paragraphs,
    /// Between lines.
    Lines,
    /// Between sentences, as Unicode defines them (UAX 29).
    Sentences,
    /// Between words, as Unicode defines them (UAX 29).
    Words,
    /// Between grapheme clusters, which people see as characters (UAX 29).
    Graphemes,
    /// Between code points: a single grapheme cluster can have thousands of them.
    Chars,
}

/// How many bytes before a position are searched at first for where the overlap begins.
const NEAR: usize = 4096;

pub(super) const TEXT: [Level<'static>; 6] = [
    Level::Paragraphs,
    Level::Lines,
    Level::Sentences,
    Level::Words,
    Level::Graphemes,
    Level::Chars,
];

pub(super) const SENTENCES: [Level<'static>; 4] = [
    Level::Sentences,
    Level::Words,
    Level::Graphemes,
    Level::Chars,
];

impl Level<'_> {
    /// The boundaries within a part of a text, and its end.
    fn places<'a>(
        &'a self,
        text: &'a str,
        part: &Range<usize>,
    ) -> Box<dyn Iterator<Item = usize> + 'a> {
        let (from, end) = (part.start, part.end);
        let within = text.get(part.clone()).unwrap_or_default();
        let lines = move || {
            let ends = within.match_indices('\n');
            ends.map(move |(place, _)| from + place + 1)
        };
        let places: Box<dyn Iterator<Item = usize> + 'a> = match *self {
            Self::Marks(marks) => {
                let first = marks.partition_point(|mark| *mark <= from);
                let after = marks.get(first..).unwrap_or_default();
                Box::new(after.iter().copied().take_while(move |mark| *mark < end))
            }
            Self::Paragraphs => Box::new(lines().filter(move |place| {
                let before = text.get(from..place - 1).unwrap_or_default();
                let line = before.rsplit('\n').next().unwrap_or_default();
                line.trim().is_empty()
            })),
            Self::Lines => Box::new(lines()),
            Self::Sentences => {
                let bounds = within.split_sentence_bound_indices();
                Box::new(bounds.map(move |(place, _)| from + place))
            }
            Self::Words => {
                let bounds = within.split_word_bound_indices();
                Box::new(bounds.map(move |(place, _)| from + place))
            }
            Self::Graphemes => {
                let bounds = within.grapheme_indices(true);
                Box::new(bounds.map(move |(place, _)| from + place))
            }
            Self::Chars => {
                let bounds = within.char_indices();
                Box::new(bounds.map(move |(place, _)| from + place))
            }
        };
        let inside = places.filter(move |place| *place > from && *place < end);
        Box::new(inside.chain([end]))
    }
}

/// The way in which a text is cut.
pub(super) struct Cutting<'a> {
    pub(super) text: &'a str,
    /// The boundaries for cuts, the strongest first.
    pub(super) levels: &'a [Level<'a>],
    pub(super) max: usize,
    pub(super) measure: &'a (dyn Fn(&str) -> usize + Send + Sync),
}

impl Cutting<'_> {
    /// The pieces of a part. They cover it, and each has at most the size, as far as there are boundaries.
    pub(super) fn pieces(&self, part: Range<usize>) -> Vec<Range<usize>> {
        let mut pieces = Vec::new();
        self.cut(part, self.levels, &mut pieces);
        pieces
    }

    fn cut(&self, part: Range<usize>, levels: &[Level<'_>], pieces: &mut Vec<Range<usize>>) {
        let Some((level, weaker)) = levels.split_first() else {
            pieces.push(part);
            return;
        };
        if self.size(&part) <= self.max {
            pieces.push(part);
            return;
        }
        // The parts that are gathered for a piece, and their size.
        let (mut gathered, mut size) = (part.start..part.start, 0);
        for place in level.places(self.text, &part) {
            let next = gathered.end..place;
            let more = self.size(&next);
            if size + more > self.max && !gathered.is_empty() {
                pieces.push(gathered.clone());
                (gathered, size) = (next.start..next.start, 0);
            }
            if more > self.max {
                self.cut(next, weaker, pieces);
                (gathered, size) = (place..place, 0);
            } else {
                (gathered.end, size) = (place, size + more);
            }
        }
        if !gathered.is_empty() {
            pieces.push(gathered);
        }
    }

    /// A word boundary at most this far before another position, and not before the start.
    pub(super) fn back(&self, start: usize, from: usize, size: usize) -> usize {
        let start = self.near(start, from, size);
        let before = self.text.get(start..from).unwrap_or_default();
        let (mut place, mut left) = (from, size);
        for (at, word) in before.split_word_bound_indices().rev() {
            let size = (self.measure)(word);
            if size > left {
                break;
            }
            (place, left) = (start + at, left - size);
        }
        place
    }

    /// A position from which to search back that far: a word of a megabyte is not walked through for each piece of it.
    fn near(&self, start: usize, from: usize, size: usize) -> usize {
        let mut length = NEAR;
        loop {
            let near = self.text.floor_char_boundary(from.saturating_sub(length));
            if near <= start || self.size(&(near..from)) > size {
                return near.max(start);
            }
            length = length.saturating_mul(2);
        }
    }

    fn size(&self, part: &Range<usize>) -> usize {
        (self.measure)(self.text.get(part.clone()).unwrap_or_default())
    }
}
