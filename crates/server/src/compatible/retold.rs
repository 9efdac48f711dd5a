//! The part of a run's text that a client has, for interfaces in which nothing that was sent can be taken back.

use ghostlight_actors::actor::TextDelta;

/// The separator between two messages.
const BREAK: &str = "\n\n";

/// The text that was sent, and the attempt of a model call that tells its message again.
///
/// An attempt that failed after it had said something does not count, but its text was sent. The next attempt mostly
/// begins with the same words: these are left out. Where it says something else, it is sent whole, behind a blank line.
#[derive(Debug, Default)]
pub(super) struct Retold {
    sent: String,
    again: Option<String>,
}

impl Retold {
    /// The part of a piece that is to be sent; `None` while it only says again what was sent.
    pub(super) fn piece(&mut self, piece: TextDelta) -> Option<String> {
        if piece.restarts {
            self.again = Some(String::new());
        }
        let Some(again) = &mut self.again else {
            self.sent.push_str(&piece.text);
            return Some(piece.text);
        };
        again.push_str(&piece.text);
        // The message that is told again is one of those behind a break: which of them, its words tell.
        let breaks = self.sent.match_indices(BREAK);
        let begins = std::iter::once(0).chain(breaks.map(|(at, _)| at + BREAK.len()));
        let mut rest = None;
        for told in begins.filter_map(|at| self.sent.get(at..)) {
            if told.starts_with(again.as_str()) {
                return None;
            }
            if rest.is_none() && !told.is_empty() {
                rest = again.strip_prefix(told).map(str::to_owned);
            }
        }
        let text = rest.unwrap_or_else(|| format!("{BREAK}{again}"));
        self.again = None;
        self.sent.push_str(&text);
        Some(text)
    }

    /// The rest to be sent when nothing more comes: a message that was told again, and is shorter than before.
    pub(super) fn end(&mut self) -> Option<String> {
        let again = self.again.take()?;
        let is_there = again.is_empty() || self.sent.ends_with(&again);
        (!is_there).then(|| format!("{BREAK}{again}"))
    }
}
