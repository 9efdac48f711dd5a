//! Reading long journals in pages.

use super::{StoreError, StoreHandle, StoredLine, TreeLine};
use crate::vocabulary::{JournalId, RunId};

/// The size of a page, in bytes of its entries, and the most entries of one.
const BYTES: usize = 4 << 20;
const MOST: usize = 256;
/// The entries of the first page, whose size nobody knows.
const FIRST: usize = 32;

/// How many entries are read at once: about 4 MB of them, however long they are.
#[derive(Clone, Copy, Debug)]
struct Page {
    most: usize,
    /// Whether the last page was shorter than it might have been.
    was_last: bool,
}

const FIRST_PAGE: Page = Page {
    most: FIRST,
    was_last: false,
};

impl Page {
    /// Goes by the size of a page that was read. A page is at most twice as long as the one before,
    /// since long entries may follow short ones.
    fn took<'l>(&mut self, lines: impl Iterator<Item = &'l StoredLine>) {
        let (mut count, mut bytes) = (0, 0);
        for line in lines {
            count += 1;
            bytes += line.line.text.len();
        }
        self.was_last = count < self.most;
        if count > 0 {
            let fitting = BYTES.saturating_mul(count) / bytes.max(1);
            self.most = fitting.clamp(1, MOST.min(2 * self.most));
        }
    }
}

/// The entries of a tree of runs, a page of a few megabytes at a time, so that a tree of any size is
/// read in bounded memory.
#[derive(Clone, Debug)]
pub struct TreePages {
    root: RunId,
    after: u64,
    page: Page,
}

impl TreePages {
    /// The entries of the tree of this root after a position; after 0 all of them.
    pub fn new(root: RunId, after: u64) -> Self {
        Self {
            root,
            after,
            page: FIRST_PAGE,
        }
    }

    /// The position of the last entry that was read.
    pub fn read_to(&self) -> u64 {
        self.after
    }

    /// The next entries, in the order of their commits; none if there are no more for now.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn next(&mut self, store: &StoreHandle) -> Result<Vec<TreeLine>, StoreError> {
        let lines = store
            .read_tree(self.root, self.after, self.page.most)
            .await?;
        if let Some(last) = lines.last() {
            self.after = last.stored.position;
        }
        self.page.took(lines.iter().map(|line| &line.stored));
        Ok(lines)
    }
}

/// The entries of one journal, a page of a few megabytes at a time.
#[derive(Clone, Debug)]
pub struct JournalPages {
    journal: JournalId,
    next: u64,
    until: u64,
    page: Page,
}

impl JournalPages {
    /// The entries of a journal from this one on; from 0 all of them.
    pub fn new(journal: impl Into<JournalId>, from: u64) -> Self {
        Self {
            journal: journal.into(),
            next: from,
            until: u64::MAX,
            page: FIRST_PAGE,
        }
    }

    /// The same, without this entry and those after it.
    #[must_use]
    pub fn until(mut self, entry: u64) -> Self {
        self.until = entry;
        self
    }

    /// The number of the entry that is read next.
    pub fn next_entry(&self) -> u64 {
        self.next
    }

    /// Whether no entry stood behind those of the last page when it was read.
    pub(crate) fn was_last(&self) -> bool {
        self.page.was_last
    }

    /// The next entries; none if there are no more for now.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn next(&mut self, store: &StoreHandle) -> Result<Vec<StoredLine>, StoreError> {
        let left = self.until.saturating_sub(self.next);
        let most = self
            .page
            .most
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let lines = match most {
            0 => Vec::new(),
            most => store.read(self.journal.clone(), self.next, most).await?,
        };
        if let Some(last) = lines.last() {
            self.next = last.sequence + 1;
        }
        self.page.took(lines.iter());
        Ok(lines)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{contract::Line, vocabulary::Timestamp};

    #[test]
    fn a_page_has_a_few_megabytes_whatever_comes() {
        let line = |bytes: usize| StoredLine {
            sequence: 0,
            position: 0,
            line: Line {
                at: Timestamp(0),
                text: "x".repeat(bytes).into(),
            },
        };
        let (short, long) = (line(100), line(1 << 20));
        let mut page = FIRST_PAGE;
        for _ in 0..9 {
            page.took(std::iter::repeat_n(&short, page.most));
            assert!(!page.was_last);
        }
        assert_eq!(page.most, MOST);
        page.took(std::iter::repeat_n(&long, page.most));
        assert_eq!(page.most, 4);
        page.took(std::iter::repeat_n(&short, 3));
        assert_eq!((page.most, page.was_last), (8, true));
        page.took(std::iter::empty());
        assert_eq!((page.most, page.was_last), (8, true));
    }
}
