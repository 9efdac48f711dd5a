//! A request in the making, which strategies change.

use std::sync::Arc;

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
    pub(super) messages: Vec<Arc<Message>>,
    /// The tokens of the whole request.
    pub(super) tokens: u64,
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
            messages: Vec::new(),
            tokens: 0,
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
        self.messages = self.laid_out(&layout);
        self.tokens = self.counted(&self.messages);
        self.layout = layout;
    }

    fn laid_out(&self, layout: &Layout) -> Vec<Arc<Message>> {
        let failures = usize::try_from(self.spec.failures).unwrap_or(usize::MAX);
        let compaction = self
            .spec
            .strategies
            .iter()
            .find_map(|strategy| match strategy {
                ContextStrategy::Compact(table) => Some(self.compaction(table)),
                _ => None,
            });
        self.view.laid_out(layout, compaction.as_ref(), failures)
    }

    fn compaction<'c>(&'c self, table: &'c Compact) -> Compaction<'c> {
        Compaction {
            table,
            counter: self.counter,
            cache: self.cache,
        }
    }

    fn counted(&self, messages: &[Arc<Message>]) -> u64 {
        let tokens = messages.iter().map(|message| {
            let count = || self.counter.message(message);
            self.cache.tokens(message, count)
        });
        self.fixed + tokens.sum::<u64>()
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
        if self.messages.len() <= most {
            return;
        }
        let cuts = self.view.cuts(self.layout.cut);
        let fits = |cut: &usize| self.laid_out(&self.cut_at(*cut)).len() <= most;
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
        let fits = |cut: &usize| self.counted(&self.laid_out(&self.cut_at(*cut))) <= tokens;
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

    /// A description of what is left, for an error.
    pub(super) fn described(&self) -> String {
        let conversation = self.tokens.saturating_sub(self.fixed);
        format!(
            "{} of instructions and tools, and {conversation} of the {} messages that must stay",
            self.fixed,
            self.messages.len()
        )
    }
}
