//! A request in the making, which strategies change.

use std::{borrow::Cow, sync::Arc};

use ghostlight_actors::{
    definition::{Compact, ContextSpec, ContextStrategy},
    vocabulary::Message,
};

use super::{
    TokenCounter,
    compaction::Compaction,
    layout::{Layout, View},
    message_cache::MessageCache,
};

/// A conversation as a request would contain it, with its number of tokens.
pub(super) struct Draft<'a> {
    pub(super) view: View,
    pub(super) layout: Layout,
    /// The tokens of the whole request.
    pub(super) tokens: u64,
    /// Whether only a mark stands for what is left out.
    is_bare: bool,
    /// The tokens of the request besides its conversation.
    fixed: u64,
    spec: &'a ContextSpec,
    counter: &'a dyn TokenCounter,
    cache: &'a MessageCache,
}

impl<'a> Draft<'a> {
    pub(super) fn new(
        view: View,
        layout: Layout,
        fixed: u64,
        spec: &'a ContextSpec,
        counter: &'a dyn TokenCounter,
        cache: &'a MessageCache,
    ) -> Self {
        let mut draft = Self {
            view,
            layout: Layout::default(),
            tokens: 0,
            is_bare: false,
            fixed,
            spec,
            counter,
            cache,
        };
        draft.lay_out(layout);
        draft
    }

    /// Changes the layout.
    pub(super) fn lay_out(&mut self, layout: Layout) {
        let (counter, cache) = (self.counter, self.cache);
        let table = self.table();
        let compaction = table.map(|table| Compaction {
            table,
            counter,
            cache,
        });
        let View { messages, sums, .. } = &mut self.view;
        sums.extend(messages, layout.compacted, compaction.as_ref(), |message| {
            cache.tokens(message, || counter.message(message))
        });
        self.tokens = self.counted(&layout);
        self.layout = layout;
    }

    /// The messages of the request.
    pub(super) fn messages(&self) -> Vec<Arc<Message>> {
        let compaction = self.table().map(|table| self.compaction(table));
        let shown = self.shown(&self.layout);
        self.view
            .laid_out(&shown, compaction.as_ref(), self.failures())
    }

    /// How many parts of the request's first message stand for what is left out.
    pub(super) fn retold(&self) -> usize {
        self.view.retold(&self.shown(&self.layout), self.failures())
    }

    /// The view, which the next request extends.
    pub(super) fn into_view(self) -> View {
        self.view
    }

    /// The rules of placeholders, if there are any.
    fn table(&self) -> Option<&'a Compact> {
        let mut strategies = self.spec.strategies.iter();
        strategies.find_map(|strategy| match strategy {
            ContextStrategy::Compact(table) => Some(table),
            _ => None,
        })
    }

    fn compaction<'c>(&'c self, table: &'c Compact) -> Compaction<'c> {
        Compaction {
            table,
            counter: self.counter,
            cache: self.cache,
        }
    }

    /// The most failed calls that are told.
    fn failures(&self) -> usize {
        match self.is_bare {
            true => 0,
            false => usize::try_from(self.spec.failures).unwrap_or(usize::MAX),
        }
    }

    /// The layout as the request shows it.
    fn shown<'l>(&self, layout: &'l Layout) -> Cow<'l, Layout> {
        if !self.is_bare {
            return Cow::Borrowed(layout);
        }
        let mut bare = layout.clone();
        bare.summary = None;
        Cow::Owned(bare)
    }

    /// The message instead of what this layout leaves out, and the place of the first after it.
    fn begun(&self, layout: &Layout) -> (Option<Message>, usize) {
        self.view.begun(&self.shown(layout), self.failures())
    }

    /// How many messages a request with this layout has.
    fn count(&self, layout: &Layout) -> usize {
        let (head, rest) = self.begun(layout);
        usize::from(head.is_some()) + self.view.len() - rest
    }

    /// The tokens of a request with this layout. Nothing is counted but its first message.
    fn counted(&self, layout: &Layout) -> u64 {
        let (head, rest) = self.begun(layout);
        let head = head.map_or(0, |head| self.counter.message(&head));
        self.fixed + head + self.view.sums.since(rest, layout.compacted)
    }

    /// Replaces bulky older payloads by placeholders.
    pub(super) fn compact(&mut self, table: &Compact) {
        let until = self.compaction(table).until(&self.view);
        let mut layout = self.layout.clone();
        layout.compacted = layout.compacted.max(until);
        self.lay_out(layout);
    }

    /// Keeps this many of the last turns.
    pub(super) fn keep_turns(&mut self, turns: u32) {
        let starts = self.view.turns();
        let turns = usize::try_from(turns).unwrap_or(usize::MAX);
        let oldest = starts
            .len()
            .checked_sub(turns)
            .and_then(|place| starts.get(place));
        let mut layout = self.layout.clone();
        layout.cut = layout.cut.max(oldest.copied().unwrap_or(0));
        self.lay_out(layout);
    }

    /// Leaves out the beginning until at most this many messages remain, or nothing more may be
    /// left out.
    pub(super) fn keep_messages(&mut self, messages: u32) {
        let most = usize::try_from(messages).unwrap_or(usize::MAX);
        if self.count(&self.layout) <= most {
            return;
        }
        let cuts = self.view.cuts(self.layout.cut);
        let fits = |cut: &usize| self.count(&self.cut_at(*cut)) <= most;
        // A later cut leaves no more messages.
        let first = cuts.partition_point(|cut| !fits(cut));
        let chosen = cuts.get(first).or(cuts.last()).copied();
        if let Some(cut) = chosen {
            self.lay_out(self.cut_at(cut));
        }
    }

    /// Leaves out the beginning until at most this many tokens remain, or nothing more may be left
    /// out.
    pub(super) fn cut_to(&mut self, tokens: u64) {
        if self.tokens <= tokens {
            return;
        }
        let keep = usize::try_from(self.spec.preserve_recent).unwrap_or(usize::MAX);
        let last = self.view.len().saturating_sub(keep);
        let mut cuts = self.view.cuts(self.layout.cut);
        cuts.retain(|cut| keep == 0 || *cut <= last);
        let chosen = cuts
            .get(self.first_fit(&cuts, tokens))
            .or(cuts.last())
            .copied();
        if let Some(cut) = chosen {
            self.lay_out(self.cut_at(cut));
        }
    }

    fn cut_at(&self, cut: usize) -> Layout {
        let mut layout = self.layout.clone();
        layout.cut = cut;
        layout
    }

    /// The index of the first cut after which the request has at most this many tokens; the number
    /// of cuts if none is enough.
    fn first_fit(&self, cuts: &[usize], tokens: u64) -> usize {
        let fits = |cut: &usize| self.counted(&self.cut_at(*cut)) <= tokens;
        // A later cut leaves out more, and the replacement in its place hardly changes.
        let first = cuts.partition_point(|cut| !fits(cut));
        let found = cuts[first..].iter().position(fits);
        found.map_or(cuts.len(), |place| first + place)
    }

    /// The place up to which to summarise, so that the request has at most this many tokens and, if
    /// possible, the last turns or steps stay. `None` if there is nothing to summarise.
    pub(super) fn to_summarize(&self, keep_recent: u32, tokens: u64) -> Option<usize> {
        if self.tokens <= tokens {
            return None;
        }
        let cuts = self.view.cuts(self.layout.cut);
        let keep = usize::try_from(keep_recent).unwrap_or(usize::MAX);
        let last = cuts.len().checked_sub(keep)?;
        let until = *cuts.get(self.first_fit(&cuts, tokens).min(last))?;
        (until > self.layout.summarized).then_some(until)
    }

    /// Replaces the messages up to this place by their summary.
    pub(super) fn summarized(&mut self, until: usize, summary: String) {
        let mut layout = self.layout.clone();
        layout.cut = layout.cut.max(until);
        (layout.summarized, layout.summary) = (until, Some(summary));
        self.lay_out(layout);
    }

    /// Lets only a mark stand for what is left out, without its summary and its failures. The layout
    /// keeps them for later requests. Whether there is anything less now.
    pub(super) fn bare(&mut self) -> bool {
        let before = self.tokens;
        self.is_bare = true;
        self.lay_out(self.layout.clone());
        self.tokens < before
    }

    /// A description of what is left, for an error.
    pub(super) fn described(&self) -> String {
        let conversation = self.tokens.saturating_sub(self.fixed);
        format!(
            "{} of instructions and tools, and {conversation} of the {} messages that must stay",
            self.fixed,
            self.count(&self.layout)
        )
    }
}
