//! The blocks of an answer that comes in pieces.

use std::collections::HashMap;

/// The blocks in the order in which they began. Each piece names its block by an index, and some servers name another one:
/// they send a text under the index of a call, or begin each block under the same index.
pub(crate) struct Blocks<B> {
    all: Vec<B>,
    /// The place of the last block of each index.
    by_index: HashMap<u64, usize>,
}

impl<B> Default for Blocks<B> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            by_index: HashMap::new(),
        }
    }
}

impl<B> Blocks<B> {
    /// Begins a block.
    pub(crate) fn begin(&mut self, index: u64, block: B) {
        self.by_index.insert(index, self.all.len());
        self.all.push(block);
    }

    /// The last block that began under this index.
    pub(crate) fn at(&mut self, index: u64) -> Option<&mut B> {
        let place = self.by_index.get(&index)?;
        self.all.get_mut(*place)
    }

    /// The block that a piece belongs to: the one of its index if it fits, else the last one if it does, else a new one.
    pub(crate) fn of(
        &mut self,
        index: u64,
        fits: impl Fn(&B) -> bool,
        new: impl FnOnce() -> B,
    ) -> &mut B {
        let last = self.all.len().checked_sub(1);
        let known = [self.by_index.get(&index).copied(), last];
        let found = known.into_iter().flatten();
        let found = found.into_iter().find(|place| fits(&self.all[*place]));
        let place = found.unwrap_or(self.all.len());
        if place == self.all.len() {
            self.by_index.entry(index).or_insert(place);
            self.all.push(new());
        }
        &mut self.all[place]
    }

    /// The block of this index if it fits, else the last one that does.
    pub(crate) fn find(&mut self, index: u64, fits: impl Fn(&B) -> bool) -> Option<&mut B> {
        let of_index = self.by_index.get(&index).copied();
        let place = of_index.filter(|place| fits(&self.all[*place]));
        let place = place.or_else(|| self.all.iter().rposition(fits))?;
        self.all.get_mut(place)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &B> {
        self.all.iter()
    }

    #[cfg(feature = "bedrock")]
    pub(crate) fn into_all(self) -> Vec<B> {
        self.all
    }

    /// Forgets the indexes: the next piece belongs to another part of the answer.
    pub(crate) fn forget_indexes(&mut self) {
        self.by_index.clear();
    }
}
