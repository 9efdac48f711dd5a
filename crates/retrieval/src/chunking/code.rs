//! The left edge of source code: the beginnings of items, and the line that encloses a position.

use std::sync::Arc;

use super::{Headings, bounded_heading};

/// The outline of a source file by its indentation alone, which serves every language that indents.
#[derive(Debug)]
pub(super) struct Outline {
    /// The beginnings of items, including the comments and attributes above them.
    pub(super) items: Vec<usize>,
    /// The lines at the left edge with indented lines below them.
    heads: Vec<Head>,
}

#[derive(Debug)]
struct Head {
    /// Its range, without what opens a block at its end.
    line: std::ops::Range<usize>,
}

impl Outline {
    pub(super) fn of(text: &str) -> Self {
        let (mut items, mut heads) = (Vec::new(), Vec::new());
        let mut begins = true;
        let mut place = 0;
        for line in text.split_inclusive('\n') {
            let content = line.trim();
            let is_edge = line.starts_with(|c: char| !c.is_whitespace());
            let is_closing = content.starts_with(['}', ')', ']']) || content == "end";
            if content.is_empty() {
                begins = true;
            } else if is_edge && is_closing {
                // After the end of an item another one begins.
                begins = true;
            } else if is_edge {
                if begins {
                    items.push(place);
                }
                begins = false;
                if !is_remark(content) {
                    let line = line.trim_end();
                    let line = line.trim_end_matches(['{', '(', '[', ':', ' ']);
                    heads.push(Head {
                        line: place..place + line.len(),
                    });
                }
            } else {
                begins = false;
            }
            place += line.len();
        }
        Self { items, heads }
    }

    /// The line at the left edge that encloses a position, if there is one.
    pub(super) fn enclosing(&self, text: &str, place: usize) -> Headings {
        let line = text.get(place..).unwrap_or_default();
        let begins = text
            .get(..place)
            .is_none_or(|before| before.is_empty() || before.ends_with('\n'));
        let is_inside = !begins || line.starts_with(char::is_whitespace);
        let after = self.heads.partition_point(|head| head.line.start < place);
        let above = after.checked_sub(1).and_then(|last| self.heads.get(last));
        match above {
            Some(head) if is_inside => {
                let line = text.get(head.line.clone()).unwrap_or_default();
                Arc::from([bounded_heading(line)])
            }
            _ => Arc::from([]),
        }
    }
}

/// Whether a line belongs to the item below it, such as a comment.
fn is_remark(line: &str) -> bool {
    ["//", "#", "/*", "*", "@", "--", ";"]
        .iter()
        .any(|mark| line.starts_with(mark))
}
