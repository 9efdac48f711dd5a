//! Cutting Markdown into passages at its headings.

use std::sync::Arc;

/// The most characters of a heading that are kept. Every passage below it has it, so a line of a
/// megabyte that begins like a heading would stand before each of thousands.
pub const MAX_HEADING_CHARS: usize = 120;

/// A part of a Markdown text below one heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkdownPassage {
    /// The headings above it, from the outermost to its own, each of at most
    /// [`MAX_HEADING_CHARS`] characters. The passages of a section share them.
    pub headings: Arc<[Arc<str>]>,
    /// The line on which it begins, from 1.
    pub line: usize,
    /// Its text, without the headings.
    pub text: String,
}

/// Cuts a text at its headings (`#` to `######`, outside of code), and what is longer than
/// `max_chars` at a blank line, or between lines or words where there is none. Front matter is
/// left out, and a heading without text of its own gives no passage.
pub fn passages(text: &str, max_chars: usize) -> Vec<MarkdownPassage> {
    let mut passages = Vec::new();
    let mut headings: Vec<(usize, Arc<str>)> = Vec::new();
    let mut fence: Option<&str> = None;
    let mut section = Section::default();
    let max_chars = max_chars.max(1);
    for (number, line) in text.lines().enumerate().skip(front_matter(text)) {
        let trimmed = line.trim_start();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| trimmed.starts_with(mark));
        if let Some(mark) = mark
            && fence.is_none_or(|open| open == mark)
        {
            fence = match fence {
                None => Some(mark),
                Some(_) => None,
            };
        } else if fence.is_none()
            && let Some((level, title)) = heading(trimmed)
        {
            section.end(&headings, max_chars, &mut passages);
            headings.retain(|(above, _)| *above < level);
            headings.push((level, title));
            continue;
        }
        section.lines.push((number + 1, line));
    }
    section.end(&headings, max_chars, &mut passages);
    passages
}

/// How many lines the front matter takes.
fn front_matter(text: &str) -> usize {
    let mut lines = text.lines();
    if lines.next().map(str::trim_end) != Some("---") {
        return 0;
    }
    match lines.position(|line| line.trim_end() == "---") {
        Some(end) => end + 2,
        None => 0,
    }
}

fn heading(line: &str) -> Option<(usize, Arc<str>)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let rest = &line[level..];
    if !(1..=6).contains(&level) || !rest.starts_with([' ', '\t']) {
        return None;
    }
    let title = rest.trim().trim_end_matches('#').trim_end();
    let title = match title.char_indices().nth(MAX_HEADING_CHARS) {
        Some(_) => title
            .chars()
            .take(MAX_HEADING_CHARS - 1)
            .chain(['…'])
            .collect::<String>()
            .into(),
        None => title.into(),
    };
    Some((level, title))
}

/// The lines below one heading, each with its number.
#[derive(Default)]
struct Section<'a> {
    lines: Vec<(usize, &'a str)>,
}

impl Section<'_> {
    fn end(
        &mut self,
        headings: &[(usize, Arc<str>)],
        max_chars: usize,
        passages: &mut Vec<MarkdownPassage>,
    ) {
        let headings: Arc<[Arc<str>]> = headings.iter().map(|(_, title)| title.clone()).collect();
        let mut piece = Piece::default();
        for (number, line) in self.lines.drain(..) {
            for line in cut(line, max_chars) {
                let added = line.chars().count() + 1;
                // Past half of the bound a blank line is the better place to cut.
                let paragraph_ends = line.trim().is_empty() && piece.chars * 2 > max_chars;
                if paragraph_ends || piece.chars + added > max_chars + 1 {
                    passages.extend(piece.end(&headings));
                }
                piece.add(number, line, added);
            }
        }
        passages.extend(piece.end(&headings));
    }
}

#[derive(Default)]
struct Piece {
    line: usize,
    text: String,
    chars: usize,
}

impl Piece {
    fn add(&mut self, number: usize, line: &str, added: usize) {
        if self.text.is_empty() {
            if line.trim().is_empty() {
                return;
            }
            self.line = number;
        }
        self.text.push_str(line);
        self.text.push('\n');
        self.chars += added;
    }

    fn end(&mut self, headings: &Arc<[Arc<str>]>) -> Option<MarkdownPassage> {
        let piece = std::mem::take(self);
        let text = piece.text.trim_end();
        (!text.is_empty()).then(|| MarkdownPassage {
            headings: headings.clone(),
            line: piece.line,
            text: text.to_owned(),
        })
    }
}

/// A line in pieces of at most `max_chars`, cut behind a space where there is one.
fn cut(mut line: &str, max_chars: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    while let Some((end, _)) = line.char_indices().nth(max_chars) {
        let at = line[..end].rfind(' ').map_or(end, |space| space + 1);
        let (piece, rest) = line.split_at(at);
        pieces.push(piece);
        line = rest;
    }
    pieces.push(line);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_cut_and_nest_and_code_does_not() {
        let text = "---\ntitle: x\n---\nIntro\n# Guide\n\n## Start ##\nRun it.\n```sh\n# no heading\n```\n\
                    ## Stop\nHalt.\n# Other\n#hash\n";
        let found: Vec<(String, usize, String)> = passages(text, 1000)
            .into_iter()
            .map(|p| (p.headings.join(" > "), p.line, p.text))
            .collect();
        let expected = [
            ("", 4, "Intro"),
            ("Guide > Start", 8, "Run it.\n```sh\n# no heading\n```"),
            ("Guide > Stop", 13, "Halt."),
            ("Other", 15, "#hash"),
        ];
        let expected = expected.map(|(h, line, t)| (h.to_owned(), line, t.to_owned()));
        assert_eq!(found, expected);
    }

    #[test]
    fn long_sections_are_cut_and_lose_nothing() {
        let paragraph = "word ".repeat(30);
        let text = format!("# H\n{paragraph}\n\n{paragraph}\n\n{}", "x".repeat(500));
        let found = passages(&text, 200);
        assert!(
            found
                .iter()
                .all(|p| p.text.chars().count() <= 200 && *p.headings == ["H".into()])
        );
        let squeeze = |text: &str| text.split_whitespace().collect::<String>();
        let all: String = found.iter().map(|p| squeeze(&p.text)).collect();
        assert_eq!(all, squeeze(&text[4..]));
        assert_eq!(found[1].line, 4);
    }

    #[test]
    fn a_heading_without_bound_is_cut_and_shared() {
        let text = format!("# {}\n{}", "ä ".repeat(1000), "line\n\n".repeat(1000));
        let found = passages(&text, 20);
        assert!(found.len() > 100);
        for passage in &found {
            assert!(std::sync::Arc::ptr_eq(
                &passage.headings,
                &found[0].headings
            ));
        }
        let title = &found[0].headings[0];
        assert_eq!(title.chars().count(), MAX_HEADING_CHARS);
        assert!(title.ends_with('…'));
    }
}
