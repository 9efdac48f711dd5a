//! The lines of a file of answers, which may be larger than memory.

use crate::http::{Body, Failure};

/// Reads lines as they come, each within a bound.
pub(crate) struct Lines {
    body: Body,
    max_line: usize,
    read: Vec<u8>,
    /// How much of what was read has been searched for an end of a line.
    searched: usize,
    /// Whether the rest of a line that is too long is being passed over.
    skipping: bool,
    ended: bool,
}

/// A line, or why there is none.
pub(crate) enum Line {
    /// A line without its end.
    Whole(Vec<u8>),
    /// A line of more bytes than the bound.
    TooLong,
}

impl Lines {
    pub(crate) fn new(body: Body, max_line: u64) -> Self {
        Self {
            body,
            max_line: usize::try_from(max_line).unwrap_or(usize::MAX),
            read: Vec::new(),
            searched: 0,
            skipping: false,
            ended: false,
        }
    }

    /// The next line that is not empty; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Line>, Failure> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(None);
            }
            match self.body.next().await? {
                Some(bytes) => self.read.extend_from_slice(&bytes),
                None => {
                    self.ended = true;
                    self.read.push(b'\n');
                }
            }
        }
    }

    fn take(&mut self) -> Option<Line> {
        loop {
            let end = self.read[self.searched..]
                .iter()
                .position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| self.searched + end) else {
                self.searched = self.read.len();
                if self.searched > self.max_line {
                    self.read.clear();
                    self.searched = 0;
                    self.skipping = true;
                }
                return None;
            };
            let rest = self.read.split_off(end + 1);
            let mut line = std::mem::replace(&mut self.read, rest);
            self.searched = 0;
            line.pop();
            if std::mem::take(&mut self.skipping) || line.len() > self.max_line {
                return Some(Line::TooLong);
            }
            if !line.trim_ascii().is_empty() {
                return Some(Line::Whole(line));
            }
        }
    }
}
