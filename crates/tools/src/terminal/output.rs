//! The output of a command, of which only the beginning and the end are kept.

use std::collections::VecDeque;

/// The beginning and the end of a stream, and its total length.
#[derive(Debug)]
pub(crate) struct Kept {
    most: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    pub(crate) total: u64,
}

impl Kept {
    /// Keeps at most this many bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most: most.max(2),
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let half = self.most / 2;
        let room = half.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(half)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(half);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(rest);
    }

    /// The kept text, with a mark where something was left out.
    pub(crate) fn text(&self) -> String {
        let (front, back) = self.tail.as_slices();
        let kept = (self.head.len() + self.tail.len()) as u64;
        let tail = [front, back].concat();
        if kept == self.total {
            return String::from_utf8_lossy(&[&self.head[..], &tail].concat()).into_owned();
        }
        let (head, tail) = (
            String::from_utf8_lossy(&self.head),
            String::from_utf8_lossy(&tail),
        );
        format!("{head}\n[… {} bytes left out …]\n{tail}", self.total - kept)
    }
}

/// The last bytes of a stream, with their positions in the whole stream.
#[derive(Debug)]
pub(super) struct Recent {
    most: usize,
    bytes: VecDeque<u8>,
    /// The position of the first byte that is kept.
    pub(super) from: u64,
}

impl Recent {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            bytes: VecDeque::new(),
            from: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let over = self.bytes.len().saturating_sub(self.most);
        self.bytes.drain(..over);
        self.from += over as u64;
    }

    /// The position behind the last byte.
    pub(super) fn end(&self) -> u64 {
        self.from + self.bytes.len() as u64
    }

    /// At most this many bytes from a position on, and the position behind them.
    pub(super) fn read(&self, from: u64, most: usize) -> (String, u64) {
        let from = from.clamp(self.from, self.end());
        let skipped = (from - self.from) as usize;
        let bytes: Vec<u8> = self
            .bytes
            .iter()
            .skip(skipped)
            .take(most)
            .copied()
            .collect();
        let end = from + bytes.len() as u64;
        (String::from_utf8_lossy(&bytes).into_owned(), end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_beginning_and_the_end_are_kept(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20), most in 2_usize..64) {
            let mut kept = Kept::new(most);
            let mut recent = Recent::new(most);
            for piece in &pieces {
                kept.push(piece);
                recent.push(piece);
            }
            let whole = pieces.concat();
            prop_assert_eq!(kept.total, whole.len() as u64);
            prop_assert_eq!(recent.end(), whole.len() as u64);
            prop_assert!(whole.starts_with(&kept.head));
            let tail: Vec<u8> = kept.tail.iter().copied().collect();
            prop_assert!(whole.ends_with(&tail));
            prop_assert!(kept.head.len() + tail.len() <= most);
            if whole.len() <= most / 2 * 2 {
                prop_assert_eq!([kept.head.clone(), tail].concat(), whole);
            }
        }
    }
}
